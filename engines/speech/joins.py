"""Fades at the ends of a stream, and joins of chunks whose decoder is not exact.

Samples are float32 of shape ``(n,)``, n may be 0, throughout.
"""

from __future__ import annotations

import numpy as np

from ..chunks import Samples

WORTH_IT = 0.7
"""A chunk is shifted only where that brings its difference from the one before below this
share of what it is without; among many shifts of unrelated noise one gains a tenth by chance."""


def rise(length: int) -> Samples:
    """Return gains of a raised cosine from 0 to 1, both left out: ``length`` of them.

    Backwards they are the fall that adds up to 1 with it.
    """
    steps = np.arange(1, length + 1) / (length + 1)
    return np.asarray(0.5 - 0.5 * np.cos(np.pi * steps), np.float32)


def fade_in(samples: Samples, length: int) -> Samples:
    """Return samples that rise from silence over the first ``length``, or all if there are less.

    For a start in the middle of a sound.
    """
    length = min(length, len(samples))
    return np.concatenate([samples[:length] * rise(length), samples[length:]])


class Fade:
    """Fades the end of a stream out that is not known in advance.

    Holds the last samples back for that, so it delays them, and neither adds nor drops any.
    """

    def __init__(self, length: int) -> None:
        """``length``: of the fade in samples; 10 to 20 ms do.

        Raises:
            ValueError: it is negative.
        """
        if length < 0:
            raise ValueError(f"expected a length of at least 0, got {length}")
        self._length = length
        self._held = np.empty(0, np.float32)

    def feed(self, samples: Samples) -> Samples:
        """Return what is certain not to be faded: all but the last ``length`` so far."""
        held: Samples = np.concatenate([self._held, samples])
        ready = max(0, len(held) - self._length)
        # A copy: else all of it is kept for the sake of its end.
        self._held = held[ready:].copy()
        return held[:ready]

    def end(self) -> Samples:
        """Return what is held, faded out; the next stream may begin."""
        held, self._held = self._held, np.empty(0, np.float32)
        return np.asarray(held * rise(len(held))[::-1], np.float32)


class CrossFade:
    """Joins chunks that repeat the end of the one before, slightly differently.

    The first ``overlap`` samples of every chunk but the first are the same sound as the last
    ``overlap`` of the one before. Both are mixed there by gains that add up to 1, as fits two
    versions of one sound. If the new one fits better a few samples earlier or later, and
    clearly so, its part of the mix is shifted by that, back to its own time at the end of it.
    """

    def __init__(self, overlap: int, max_lag: int = 0) -> None:
        """``max_lag``: the largest shift looked for, in samples; 0 for none.

        Raises:
            ValueError: ``overlap`` or ``max_lag`` is negative, or the lag is not small
                against the overlap: more than a quarter of it.
        """
        if overlap < 0 or not 0 <= max_lag <= overlap // 4:
            raise ValueError(
                "expected an overlap of at least 0 and a lag of at most a quarter of it, "
                f"got {overlap} and {max_lag}"
            )
        self._overlap = overlap
        self._max_lag = max_lag
        self._held = np.empty(0, np.float32)

    def feed(self, chunk: Samples) -> Samples:
        """Return what is certain after a chunk: all but the last ``overlap`` samples so far.

        Where less than the overlap came before, a chunk repeats that. One that is no longer
        than what it repeats has nothing new and is left out.
        """
        held = self._held
        common = min(len(held), self._overlap)
        if len(chunk) <= common:
            return np.empty(0, np.float32)
        joined: Samples = (
            np.concatenate([self._mix(held, chunk), chunk[common:]]) if common else chunk
        )
        ready = max(0, len(joined) - self._overlap)
        self._held = joined[ready:].copy()
        return joined[:ready]

    def end(self) -> Samples:
        """Return the rest; the next stream may begin."""
        held, self._held = self._held, np.empty(0, np.float32)
        return held

    def _mix(self, old: Samples, chunk: Samples) -> Samples:
        gains = rise(len(old))
        new = chunk[: len(old)]
        if lag := self._lag(old, chunk):
            there = np.arange(len(old)) + lag * (1 - gains)
            new = np.asarray(np.interp(there, np.arange(len(chunk)), chunk), np.float32)
        return np.asarray(old * gains[::-1] + new * gains, np.float32)

    def _lag(self, old: Samples, chunk: Samples) -> int:
        """How many samples later than the old one the new sound is, where that is clear."""
        most = min(self._max_lag, len(old) // 4)
        middle = old[most : len(old) - most]
        if not most:
            return 0
        off = [
            float(np.mean((chunk[start : start + len(middle)] - middle) ** 2))
            for start in range(2 * most + 1)
        ]
        best = int(np.argmin(off))
        return best - most if off[best] < WORTH_IT**2 * off[most] else 0
