import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.engines.catalog import default_cache_root, require
from antiphon.engines.chunks import Latents, Word
from antiphon.engines.speech.voices.family import VOICE_FILE
from antiphon.engines.speech.voices.piper import PiperDecoder, PiperDraft, PiperTalker
from antiphon.engines.speech.voices.steps import Chain, Step
from antiphon.engines.stage import StageFailure

WORDS = ["yes", "of", "course", "the", "evening", "light,", "takes", "a", "longer", "way.", "42"]


def folder() -> Path:
    return require("piper-joe", default_cache_root(os.environ))[1]


@cache
def talker() -> PiperTalker:
    return PiperTalker(folder(), 1, variation=0)


def blur(frames: NDArray[np.float32]) -> NDArray[np.float32]:
    """A flow that reaches two frames far."""
    padded = np.pad(frames, ((0, 0), (2, 2)))
    made = np.zeros_like(frames)
    for i in range(5):
        made += padded[:, i : i + frames.shape[1]]
    return made


def drain(draft: PiperDraft, sizes: list[int]) -> list[Latents]:
    made = [draft.next(size) for size in sizes if draft.left]
    while draft.left:
        made.append(draft.next(sizes[-1]))
    return made


@given(
    st.integers(1, 60).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.integers(0, n - 1), min_size=1, max_size=80).map(sorted)
        )
    ),
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
)
def test_windows_of_a_draft_are_the_whole(
    frames_and_picks: tuple[int, list[int]], sizes: list[int]
) -> None:
    frames, picks = frames_and_picks
    prior = np.random.default_rng(frames).normal(size=(3, frames)).astype(np.float32)
    words = (Word("a", 0, 1), Word("b", 1, 2))
    made = drain(PiperDraft(Chain([Step(blur, 2)], prior), np.array(picks), words), sizes)
    joined = np.concatenate([latents.frames for latents in made], axis=1)
    np.testing.assert_allclose(joined, blur(prior)[:, picks], atol=1e-5)
    assert [latents.last for latents in made] == [False] * (len(made) - 1) + [True]
    assert [latents.words for latents in made] == [words, *[()] * (len(made) - 1)]


@pytest.mark.models
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join),
    st.lists(st.integers(6, 100), min_size=1, max_size=4),
    st.sampled_from([0.8, 1.0, 1.5]),
)
def test_speech_made_in_windows_is_speech_made_at_once(
    text: str, sizes: list[int], speed: float
) -> None:
    at_once, draft = (talker().draft(text, speed, "joe") for _ in range(2))
    assert at_once is not None
    assert draft is not None
    whole = at_once.next(at_once.left)
    made = drain(draft, sizes)
    joined = np.concatenate([latents.frames for latents in made], axis=1)
    # Latents reach 40; sums in another order differ in the seventh digit, and add up.
    np.testing.assert_allclose(joined, whole.frames, atol=2e-3)
    assert made[0].words == whole.words


@pytest.mark.models
def test_what_cannot_be_pronounced_has_no_draft() -> None:
    assert talker().draft("... ", 1.0, "joe") is None
    assert talker().draft("", 1.0, "joe") is None


def too_little(described: Any, key: str) -> None:
    if key == "context_frames of step 2":
        described["flow"][1]["context_frames"] = 4
    elif key == "joint.context":
        described["joint"]["context"] = 4
    else:
        described[key] = 9


@pytest.mark.models
@pytest.mark.parametrize(
    ("key", "load"),
    [
        ("context_frames of step 2", PiperTalker),
        ("context_frames", PiperDecoder),
        ("joint.context", PiperDecoder),
    ],
)
def test_a_voice_that_declares_too_little_context_is_refused(
    tmp_path: Path, key: str, load: Callable[[Path, int], object]
) -> None:
    made = tmp_path / "voice"
    shutil.copytree(folder(), made, copy_function=os.symlink)
    described = json.loads((made / VOICE_FILE).read_text())
    too_little(described, key)
    (made / VOICE_FILE).unlink()
    (made / VOICE_FILE).write_text(json.dumps(described))
    with pytest.raises(StageFailure, match=rf"model_unusable: .*with {key}[ ,].*got"):
        load(made, 1)
