"""Whether the places where real speech was joined from chunks can be heard."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.seam import seam

from antiphon.engines.catalog import default_cache_root, require
from antiphon.engines.speech.decoding import Decoder
from antiphon.engines.speech.joins import CrossFade
from antiphon.engines.speech.voices.piper import PiperDecoder, PiperTalker

pytestmark = pytest.mark.models

SIZE = 16
"""Frames of a chunk: 186 ms, and about twenty seams in the sentence."""

CONTEXT = 10
"""Frames on each side that the decoder needs to be exact."""

Samples = NDArray[np.float32]


@cache
def decoder() -> Decoder:
    return Decoder(PiperDecoder(require("piper-joe", default_cache_root(os.environ))[1], 1))


@cache
def frames() -> Samples:
    folder = require("piper-joe", default_cache_root(os.environ))[1]
    draft = PiperTalker(folder, 1, variation=0.0).draft(
        "In the evening the light takes a longer way, and the sky turns red.", 1.0, "joe"
    )
    assert draft is not None
    return draft.next(draft.left).frames


def chunk(start: int, *, context: int, before: int = 0) -> Samples:
    """The sound of a chunk with so much context, and of some frames before it."""
    stop, total = min(start + SIZE, frames().shape[1]), frames().shape[1]
    begin = max(0, start - before)
    first, last = max(0, begin - context), min(total, stop + context)
    return decoder().decode(frames()[:, first:last], begin - first, last - stop)


def starts() -> range:
    # The last chunk is left out where it is too short to measure around.
    return range(0, frames().shape[1] - 4, SIZE)


def clean_seams(sound: Samples) -> float:
    """Share of the seams that nothing gives away."""
    voice = decoder().voice
    at = [start * voice.hop for start in starts()[1:]]
    return float(np.mean([seam(sound, each, voice.sample_rate).clean() for each in at]))


def joined(context: int) -> Samples:
    return np.concatenate([chunk(start, context=context) for start in starts()])


def usual() -> float:
    """The share where nothing was joined: a "t" is as sharp as a click."""
    return clean_seams(decoder().decode(frames(), 0, 0))


def test_chunks_with_their_context_have_no_seam() -> None:
    assert clean_seams(joined(CONTEXT)) == usual() >= 0.9


def test_the_measure_hears_chunks_without_it() -> None:
    assert clean_seams(joined(0)) < 0.5


def test_a_cross_fade_hides_what_too_little_context_leaves() -> None:
    # Four frames short of exact on each side.
    context, before = CONTEXT - 4, 3
    overlap = before * decoder().voice.hop
    fade = CrossFade(overlap, max_lag=24)
    parts = [fade.feed(chunk(start, context=context, before=before)) for start in starts()]
    sound = np.concatenate([*parts, fade.end()])
    exact = joined(CONTEXT)
    assert len(sound) == len(exact)
    assert clean_seams(sound) == usual()
    assert float(np.abs(sound - exact).max()) < 0.05
