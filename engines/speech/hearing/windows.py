"""Cutting an utterance into the windows that a recognizer reads."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .levels import FRAME_SAMPLES, frame_levels

RATE = 16_000

FULL_SECONDS = 30
"""The longest window, the one the recognizer was trained on."""

SHORTEST_SECONDS = 5
"""Windows below it make the decoder repeat short utterances."""

PADDING_SECONDS = 1
"""Silence after the audio; without it the last word is repeated or lost."""

LONGEST_PIECE = 28 * RATE
"""Samples of a piece, so that padding still fits into a full window."""

SHORTEST_PIECE = 18 * RATE
"""A cut is looked for from here to :data:`LONGEST_PIECE`."""

QUIET_FRAMES = 10
"""200 ms: a cut goes through the middle of the quietest such stretch."""

SOUND_DB = 30.0
"""What lies so far below the loudest is not taken for the end of speech."""


def window_seconds(samples: int) -> int:
    """Length of the window for ``samples`` of audio, in whole seconds."""
    wanted = math.ceil(samples / RATE) + PADDING_SECONDS
    return min(FULL_SECONDS, max(SHORTEST_SECONDS, wanted))


def pieces(samples: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """``samples`` cut, where it is quietest, into pieces that fit a window each."""
    cut: list[NDArray[np.float32]] = []
    while len(samples) > LONGEST_PIECE:
        at = quietest(samples[:LONGEST_PIECE])
        cut.append(samples[:at])
        samples = samples[at:]
    return [*cut, samples]


def sound_span(levels: NDArray[np.float64]) -> tuple[float, float]:
    """Seconds at which the first sound begins and the last ends.

    ``levels``: in dB, one a frame, at least one.
    """
    loud = np.flatnonzero(levels >= levels.max() - SOUND_DB)
    step = FRAME_SAMPLES / RATE
    return float(loud[0]) * step, float(loud[-1] + 1) * step


def quietest(samples: NDArray[np.float32]) -> int:
    """Where ``samples``, a longest piece, are cut best: in the middle of the quietest stretch."""
    first = SHORTEST_PIECE // FRAME_SAMPLES
    power = 10 ** (frame_levels(samples)[first:] / 10)
    stretches = np.convolve(power, np.ones(QUIET_FRAMES), "valid")
    middle = first + int(np.argmin(stretches)) + QUIET_FRAMES // 2
    return middle * FRAME_SAMPLES
