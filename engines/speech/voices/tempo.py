"""Quicker or slower speech at the same pitch, for voices that can't be asked for all of it."""

from __future__ import annotations

import numpy as np

from ...chunks import Samples

WINDOW_MS = 30.0
"""Of sound that is kept as it is: a few periods of a deep voice."""

SEARCH_MS = 7.5
"""How far a window may be moved, each way, to fit what is there."""


def paced(samples: Samples, factor: float, rate: int) -> Samples:
    """``samples`` in a ``factor``-th of their time; of ``rate`` a second.

    Windows are taken further apart than they are laid down, or closer. Each is moved to where
    it is most like what would have followed the one before it (WSOLA).
    """
    half = round(WINDOW_MS * rate / 2000)
    search = round(SEARCH_MS * rate / 1000)
    length = round(len(samples) / factor)
    if factor == 1 or len(samples) < 4 * (half + search):
        return samples[:length]
    fade = np.hanning(2 * half + 1)[: 2 * half].astype(np.float32)
    padded = np.pad(samples, (half + search, 4 * half + 2 * search))
    steps = length // half + 2
    made = np.zeros((steps + 1) * half, np.float32)
    follows = search
    for step in range(steps):
        wanted = min(round(step * half * factor), len(samples))
        near = padded[wanted : wanted + 2 * (half + search)]
        like = padded[follows : follows + 2 * half]
        at = wanted + (_best_place(near, like) if step else search)
        made[step * half : (step + 2) * half] += padded[at : at + 2 * half] * fade
        follows = min(at + half, len(padded) - 2 * half)
    return made[half : half + length]


def _best_place(near: Samples, like: Samples) -> int:
    """Where in ``near`` is what is most like ``like``."""
    likeness = np.correlate(near, like, "valid")
    squares = np.concatenate([[0.0], np.cumsum(near.astype(np.float64) ** 2)])
    power = squares[len(like) :] - squares[: -len(like)]
    return int(np.argmax(likeness / np.sqrt(power + 1e-6)))
