"""A folder's vocabulary by the real tokenizer package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.token_models import write_tokenizer
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from antiphon.engines.speech.families.binding import bind
from antiphon.engines.speech.families.family import PromptRequest, family
from antiphon.engines.speech.tokens.vocabulary import load_vocabulary
from antiphon.engines.stage import StageFailure

MARKS = {300: "<|begin_of_text|>", 301: "<|eot_id|>"}
NAMES = MARKS | {302 + n: f"<custom_token_{n}>" for n in range(10 + 7 * 8)}
SIZE = 400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tokenizer(tmp_path, SIZE, NAMES)
    return tmp_path


def test_text_and_marks_are_read_and_written(folder: Path) -> None:
    vocabulary = load_vocabulary(folder)
    assert vocabulary.find("<custom_token_3>") == 305
    assert vocabulary.find("<custom_token_77>") is None
    text = "Grüß<|eot_id|>\n"
    tokens = vocabulary.encode(text)
    assert len(tokens) == len("Grüß\n".encode()) + 1
    assert 301 in tokens
    assert vocabulary.decode(tokens) == text
    assert vocabulary.decode([SIZE + 7]) == ""
    assert vocabulary.size == SIZE
    assert vocabulary.opening == ()


def test_a_model_may_have_more_ids_than_names(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"vocab_size": 512, "model_type": "llama"}))
    assert load_vocabulary(folder).size == 512


def test_nothing_is_added_around_a_text_but_what_a_family_asks_for(folder: Path) -> None:
    """A prompt that is made a text and encoded again has two begins of text."""
    path = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    begin = ("<|begin_of_text|>", 300)
    tokenizer.post_processor = TemplateProcessing(
        single="<|begin_of_text|> $A <|eot_id|>", special_tokens=[begin, ("<|eot_id|>", 301)]
    )
    tokenizer.save(str(path))
    vocabulary = load_vocabulary(folder)
    assert vocabulary.opening == (300,)
    assert vocabulary.encode("a") == load_vocabulary(folder).encode("a")
    assert 300 not in vocabulary.encode("a")
    prompt = bind(family("orpheus"), vocabulary).prompt(PromptRequest(text="Hi.")).tokens
    assert prompt.count(300) == 1


@pytest.mark.parametrize(
    ("content", "message"), [(None, "expected tokenizer.json in"), ("{}", "can't be read")]
)
def test_a_folder_without_a_vocabulary(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(StageFailure, match=message):
        load_vocabulary(tmp_path)
