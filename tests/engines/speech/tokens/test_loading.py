"""What a deployment says of a codec language model, and what is said of what isn't there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.codec_lm import played_family

from antiphon.engines.speech.families.family import TokenSampling
from antiphon.engines.speech.tokens.loading import bound, folder_of, most_tokens
from antiphon.engines.speech.tokens.settings import CodecTalkerConfig
from antiphon.engines.stage import StageFailure

USUAL = TokenSampling(temperature=0.6, top_k=5, top_p=0.8, repetition_penalty=1.3, min_p=0.1)


def test_what_is_not_said_of_sampling_is_as_the_family_has_it() -> None:
    config = CodecTalkerConfig(family="orpheus", model="a", codec="b")
    assert config.sampling(USUAL) == USUAL
    config = CodecTalkerConfig(
        family="orpheus",
        model="a",
        codec="b",
        temperature=0,
        top_k=0,
        top_p=1,
        repetition_penalty=1,
    )
    assert config.sampling(USUAL) == TokenSampling(temperature=0, min_p=0.1)


def test_a_folder_that_is_not_there_is_said_with_its_key(tmp_path: Path) -> None:
    assert folder_of("stages.talker.model", str(tmp_path), tmp_path) == tmp_path
    with pytest.raises(StageFailure, match=r"stages\.talker\.model: there is no folder lm"):
        folder_of("stages.talker.model", str(tmp_path / "lm"), tmp_path)
    with pytest.raises(StageFailure):
        folder_of("stages.talker.model", "no-such-model", tmp_path)


def test_a_language_that_the_family_does_not_speak_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailure, match=r"stages\.talker\.language: expected one of en, got fr"):
        bound(played_family(), tmp_path, "fr")


def test_the_context_is_the_model_own_where_it_says_so(tmp_path: Path) -> None:
    assert most_tokens(tmp_path) > 1 << 20
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
    assert most_tokens(tmp_path) == 512
