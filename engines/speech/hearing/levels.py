"""Loudness of frames, and which frames are too quiet to be speech."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

FRAME_SAMPLES = 320
"""20 ms at 16 kHz."""

LOWEST_DB = -90.0
"""Level of digital silence: one bit of 16."""

DROP_DB = 32.0
"""A frame so far below the loudest of the last second is not speech. The softest word ends
lie about 30 dB below the vowels before them; a room's echo passes this depth within 20 ms."""

MARGIN_DB = 2.0
"""A frame so near the noise floor is noise: levels of 20 ms of steady noise scatter by 1 dB."""

HELD_FRAMES = 5
"""100 ms, through which a level must hold to be the floor: longer than the closure of a plosive."""

SPAN_DB = 15.0
"""The noise floor counts only where speech stands out so far: in louder noise, word ends lie
within the margin too."""

FLOOR_FRAMES = 150
"""3 s: longer than any word, so a gap between words lies within."""

PEAK_FRAMES = 50
"""1 s: holds a vowel of the phrase that is just spoken."""

LEARNING_FRAMES = 25
"""0.5 s: WebRTC's detector takes any noise for speech until it has heard a little."""

LEARNING_DB = 3.0
"""Meanwhile a frame so near the lowest one yet is noise; speech rises faster."""


def frame_levels(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """Level in dB below full scale of each frame of ``samples``, shape ``(frames,)``.

    What is left over after the last whole frame is not counted.
    """
    whole = len(samples) - len(samples) % FRAME_SAMPLES
    frames = samples[:whole].reshape(-1, FRAME_SAMPLES).astype(np.float64)
    power: NDArray[np.float64] = np.square(frames).mean(axis=1)
    levels: NDArray[np.float64] = 10 * np.log10(power + 1e-12)
    return np.maximum(levels, LOWEST_DB, out=levels)


class Hush:
    """Recognises frames that a detector still calls speech after the speech has ended.

    WebRTC's detector holds on for 60 to 140 ms, which a caller would wait for in vain at
    each turn. This compares levels only with levels heard before, so it works for loud and
    soft speakers alike; in noise that rises and falls it finds nothing, and the detector's
    own word stands.
    """

    def __init__(self) -> None:
        self._held: deque[float] = deque(maxlen=HELD_FRAMES)
        self._floor: deque[float] = deque(maxlen=FLOOR_FRAMES)
        self._peak: deque[float] = deque(maxlen=PEAK_FRAMES)
        self._lowest = 0.0
        self._heard = 0

    def is_quiet(self, level: float) -> bool:
        """Whether the next frame, of ``level`` dB, is too quiet to be speech."""
        self._note(level)
        if level <= max(self._peak) - DROP_DB:
            return True
        if self._heard <= LEARNING_FRAMES and level <= self._lowest + LEARNING_DB:
            return True
        return self._stands_out() and level <= min(self._floor) + MARGIN_DB

    def _note(self, level: float) -> None:
        self._heard += 1
        self._lowest = min(self._lowest, level)
        self._peak.append(level)
        self._held.append(level)
        if len(self._held) == HELD_FRAMES:
            self._floor.append(max(self._held))

    def _stands_out(self) -> bool:
        return bool(self._floor) and max(self._peak) - min(self._floor) >= SPAN_DB
