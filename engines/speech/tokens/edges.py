"""Where an utterance begins or ends in the middle of a sound, it is faded."""

from __future__ import annotations

import numpy as np

from ...chunks import Samples
from ..joins import rise

FADE_MS = 8.0
"""Length of a fade."""

QUIET = 0.003
"""A step of this size, -50 dB, is not heard: most utterances begin and end with less."""


class Edges:
    """The samples of one utterance, faded where they don't begin or end in silence."""

    def __init__(self, fade: int, hold: int) -> None:
        """``fade``: its length in samples. ``hold``: samples that are held back until more come,
        at least as many as ``fade`` where an end may come without any before it."""
        self._gains = rise(fade)
        self._hold = hold
        self._at = 0
        self._rises = False
        self._held = np.empty(0, np.float32)

    def feed(self, samples: Samples, *, last: bool) -> Samples:
        """Go on; return what is certain. ``last``: this is the end."""
        samples = self._begun(samples)
        if len(self._held):
            samples = np.concatenate([self._held, samples])
        if last:
            self._held = self._held[:0]
            return self._ended(samples)
        certain = max(0, len(samples) - self._hold)
        # A copy, as else all of it is kept for the sake of its end.
        self._held = samples[certain:].copy()
        return samples[:certain]

    def _begun(self, samples: Samples) -> Samples:
        if not len(samples) or self._at >= len(self._gains):
            return samples
        if not self._at:
            self._rises = abs(float(samples[0])) > QUIET
        gains = self._gains[self._at : self._at + len(samples)]
        self._at += len(gains)
        if not self._rises:
            return samples
        return np.concatenate([samples[: len(gains)] * gains, samples[len(gains) :]])

    def _ended(self, samples: Samples) -> Samples:
        if not len(samples) or abs(float(samples[-1])) <= QUIET:
            return samples
        length = min(len(self._gains), len(samples))
        falls = rise(length)[::-1]
        return np.concatenate([samples[:-length], samples[-length:] * falls])
