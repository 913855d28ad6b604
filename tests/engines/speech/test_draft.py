import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.engines.catalog import default_cache_root, require
from antiphon.engines.chunks import Latents, Word
from antiphon.engines.speech.decoding import Decoder
from antiphon.engines.speech.draft import Draft, Speaker
from antiphon.engines.speech.voice import VOICE_FILE
from antiphon.engines.stage import StageFailure

WORDS = ["yes", "of", "course", "the", "evening", "light,", "takes", "a", "longer", "way.", "42"]


def folder() -> Path:
    return require("piper-joe", default_cache_root(os.environ))[1]


@cache
def speaker() -> Speaker:
    return Speaker(folder(), 1, variation=0)


def blur(frames: NDArray[np.float32]) -> NDArray[np.float32]:
    """A flow that reaches two frames far."""
    padded = np.pad(frames, ((0, 0), (2, 2)))
    made = np.zeros_like(frames)
    for i in range(5):
        made += padded[:, i : i + frames.shape[1]]
    return made


def drain(draft: Draft, sizes: list[int]) -> list[Latents]:
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
    made = drain(Draft(blur, prior, np.array(picks), words, 2), sizes)
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
    whole, draft = speaker().speak(text, speed), speaker().draft(text, speed)
    assert whole is not None
    assert draft is not None
    made = drain(draft, sizes)
    joined = np.concatenate([latents.frames for latents in made], axis=1)
    np.testing.assert_allclose(joined, whole.frames, atol=1e-4)
    assert made[0].words == whole.words


@pytest.mark.models
def test_what_cannot_be_pronounced_has_no_draft() -> None:
    assert speaker().draft("... ", 1.0) is None
    assert speaker().speak("", 1.0) is None


@pytest.mark.models
@pytest.mark.parametrize(
    ("key", "frames", "load"),
    [("flow_context_frames", 16, Speaker), ("context_frames", 9, Decoder)],
)
def test_a_voice_that_declares_too_little_context_is_refused(
    tmp_path: Path, key: str, frames: int, load: Callable[[Path, int], object]
) -> None:
    made = tmp_path / "voice"
    shutil.copytree(folder(), made, copy_function=os.symlink)
    described = json.loads((made / VOICE_FILE).read_text())
    (made / VOICE_FILE).unlink()
    (made / VOICE_FILE).write_text(json.dumps(described | {key: frames}))
    with pytest.raises(StageFailure, match=rf"model_unusable: .*with {key} {frames}, got"):
        load(made, 1)
