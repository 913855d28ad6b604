"""Cutting a recording of any length at its pauses, while it comes in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....codecs.pcm import SAMPLE_BYTES, to_float
from ....codecs.resample import FloatStreamResampler
from .levels import FRAME_SAMPLES, frame_levels
from .reading import SILENCE_DB
from .windows import LONGEST_PIECE, RATE, SOUND_DB, quietest

FIRST_SECONDS = 4
"""The first stretch is cut at a pause from here on, so that the first text comes soon."""

AIM_SECONDS = 10
"""All others from here on. Longer ones would save little time, and each holds up whoever
speaks meanwhile for as long as it takes to read."""

PAUSE_FRAMES = 20
"""400 ms: longer than the closure of any consonant."""

FLOOR_DB = 3.0
"""So far above the noise a frame is still a pause."""

FLOOR_SHARE = 5
"""Percent of frames below the level that is taken for the noise."""

STANDS_OUT_DB = 15.0
"""Noise nearer than that to the loudest sound has no pauses that could be seen."""

MARGIN_FRAMES = 10
"""200 ms of silence that stay around what is said."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a recording."""

    samples: NDArray[np.float32]
    """16 kHz, shape ``(n,)``, at most :data:`LONGEST_PIECE`."""

    start: int
    """In samples of 16 kHz from the start of the recording."""


class Stretches:
    """Cuts what is fed; holds less than :data:`LONGEST_PIECE` samples between two calls."""

    def __init__(self, rate: int) -> None:
        """``rate``: of what will be fed, samples a second.

        Raises:
            ValueError: it is not positive.
        """
        self._resampler = FloatStreamResampler(rate, RATE)
        self._half = b""
        self._held = np.empty(0, np.float32)
        self._start = 0
        self._earliest = FIRST_SECONDS * RATE

    def feed(self, pcm: bytes) -> list[Stretch]:
        """What is ready after ``pcm``, s16le mono, which may end within a sample."""
        pcm = self._half + pcm
        whole = len(pcm) - len(pcm) % SAMPLE_BYTES
        self._half = pcm[whole:]
        return self._add(self._resampler.feed(to_float(pcm[:whole])))

    def finish(self) -> list[Stretch]:
        """What is left; half a sample at the end is dropped."""
        ready = self._add(self._resampler.flush())
        left, self._held = self._held, self._held[:0]
        return [*ready, *_heard(left, self._start)]

    def _add(self, samples: NDArray[np.float32]) -> list[Stretch]:
        self._held = np.concatenate([self._held, samples])
        ready: list[Stretch] = []
        while at := self._cut():
            ready += _heard(self._held[:at], self._start)
            self._start += at
            self._held = self._held[at:].copy()
            if ready:
                self._earliest = AIM_SECONDS * RATE
        return ready

    def _cut(self) -> int:
        """Where to cut what is held, in samples; 0 for not yet."""
        if len(self._held) < self._earliest:
            return 0
        held = self._held[:LONGEST_PIECE]
        levels = frame_levels(held)
        if levels.max() < SILENCE_DB:
            # Nothing but silence: it is heard no more, but for what may lead into speech.
            return (len(levels) - MARGIN_FRAMES) * FRAME_SAMPLES
        if at := find_pause(levels, self._earliest // FRAME_SAMPLES - PAUSE_FRAMES):
            return at * FRAME_SAMPLES
        return quietest(held) if len(held) == LONGEST_PIECE else 0


def find_pause(levels: NDArray[np.float64], earliest: int) -> int:
    """The frame in the middle of the first pause that begins at ``earliest`` or later; else 0.

    ``levels``: in dB, one a frame, at least one.
    """
    peak, floor = float(levels.max()), float(np.percentile(levels, FLOOR_SHARE))
    limit = peak - SOUND_DB
    if peak - floor >= STANDS_OUT_DB:
        limit = max(limit, floor + FLOOR_DB)
    quiet = (levels[earliest:] <= limit).astype(np.int64)
    runs = np.convolve(quiet, np.ones(PAUSE_FRAMES, np.int64), "valid")
    found = np.flatnonzero(runs == PAUSE_FRAMES)
    return earliest + int(found[0]) + PAUSE_FRAMES // 2 if found.size else 0


def _heard(samples: NDArray[np.float32], start: int) -> list[Stretch]:
    """The stretch without the silence around it; none where nothing sounds."""
    sounds = np.flatnonzero(frame_levels(samples) >= SILENCE_DB)
    if not sounds.size:
        return []
    first = max(0, int(sounds[0]) - MARGIN_FRAMES) * FRAME_SAMPLES
    after = (int(sounds[-1]) + 1 + MARGIN_FRAMES) * FRAME_SAMPLES
    return [Stretch(samples[first:after], start + first)]
