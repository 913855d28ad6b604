"""Sound with the rhythm of speech, the same every time: syllables, words and pauses of noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RATE = 24_000


def babble(seconds: float, *, gain_db: float = 0.0, seed: int = 1) -> bytes:
    """Return s16le mono at 24 kHz, about as loud as a voice: -25 LUFS."""
    rng = np.random.default_rng(seed)
    pieces: list[NDArray[np.float64]] = []
    length = 0
    while length < seconds * RATE:
        for _ in range(rng.integers(1, 5)):
            pieces.append(_syllable(rng))
            length += pieces[-1].size
        pieces.append(np.zeros(int(rng.uniform(0.02, 0.25) * RATE)))
        length += pieces[-1].size
    sound = np.concatenate(pieces)[: int(seconds * RATE)] * 10 ** (gain_db / 20)
    clipped: NDArray[np.float64] = np.clip(sound * 32768, -32768, 32767)
    return clipped.astype("<i2").tobytes()


def _syllable(rng: np.random.Generator) -> NDArray[np.float64]:
    """A buzz with a rise and a fall, as loud as it happens to be."""
    size = int(rng.uniform(0.08, 0.22) * RATE)
    at = np.arange(size) / RATE
    hertz = rng.uniform(90, 140)
    buzz: NDArray[np.float64] = np.zeros(size)
    for number in range(1, 30):
        buzz += np.cos(2 * np.pi * number * hertz * at + rng.uniform(0, 6)) / number
    level = 0.095 * 10 ** (rng.normal(0, 2.5) / 20)
    shape: NDArray[np.float64] = np.sin(np.pi * (np.arange(size) + 1) / (size + 1)) ** 0.5
    return buzz * shape * level
