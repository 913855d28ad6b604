"""What can be said of a word's sound in three whole numbers, 0 to 100: OuteTTS' features.

- *energy*: the root mean square of the samples, 100 that of a full-scale square wave.
- *spectral centroid*: the mean frequency of the magnitude spectrum of the whole word, weighted by
  magnitude; 100 is half the sample rate.
- *pitch*: of frames of 16.7 ms, 6.7 ms apart, under a Hann window, the lag of the largest
  autocorrelation from 75 to 600 Hz, refined by a parabola; a frame whose autocorrelation there is
  at most 0.3 of its power is unvoiced and counts as 75 Hz. The mean over the frames, from 75 (0)
  to 600 Hz (100).

The formulas are those by which the models' own data was described, as far as they are known: a
frame is too short for voices below some 150 Hz, which come out too high, and a model expects
that. Approximate: the publisher brings a recording to -18 LUFS first, here it is measured as it
was encoded; where rounding or padding of the last frame differ, a number may be off by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...chunks import Samples

LOWEST_HZ, HIGHEST_HZ = 75.0, 600.0
FRAME_SECONDS, HOP_SECONDS = 400 / 24_000, 160 / 24_000
VOICED = 0.3
_TINY = 1e-8


@dataclass(frozen=True, slots=True)
class Measures:
    """Of one word; each 0 to 100."""

    energy: int = 0
    spectral_centroid: int = 0
    pitch: int = 0


def measure(samples: Samples, sample_rate: int) -> Measures:
    """Measure some mono samples; all zero where there are none."""
    if not samples.size:
        return Measures()
    values = samples.astype(np.float64)
    energy = float(np.sqrt(np.mean(values**2)))
    return Measures(
        _percent(energy),
        _percent(_centroid(values, sample_rate)),
        _percent(_pitch(values, sample_rate)),
    )


def _percent(value: float) -> int:
    return round(100 * min(max(value, 0.0), 1.0))


def _centroid(values: NDArray[np.float64], sample_rate: int) -> float:
    """As a part of half the sample rate."""
    sizes = np.abs(np.fft.rfft(values))
    total = float(sizes.sum())
    if total <= _TINY:
        return 0.0
    places = np.fft.rfftfreq(values.size, 1 / sample_rate)
    return float(places @ sizes) / total / (sample_rate / 2)


def _pitch(values: NDArray[np.float64], sample_rate: int) -> float:
    """The mean over all frames, from the lowest (0) to the highest pitch (1)."""
    length, hop = round(FRAME_SECONDS * sample_rate), round(HOP_SECONDS * sample_rate)
    count = max(1, -(-(values.size - length) // hop) + 1)
    padded = np.zeros((count - 1) * hop + length)
    padded[: min(values.size, padded.size)] = values[: padded.size]
    frames = np.lib.stride_tricks.sliding_window_view(padded, length)[::hop]
    spectra = np.fft.rfft(frames * np.hanning(length), 2 * length)
    likeness = np.fft.irfft(np.abs(spectra) ** 2)[:, :length]
    first, stop = int(sample_rate / HIGHEST_HZ), min(length - 1, int(sample_rate / LOWEST_HZ))
    at = first + np.argmax(likeness[:, first:stop], axis=1)
    row = np.arange(count)
    before, peak, after = likeness[row, at - 1], likeness[row, at], likeness[row, at + 1]
    lag = at + 0.5 * (before - after) / (before - 2 * peak + after + _TINY)
    voiced = peak > VOICED * (likeness[:, 0] + _TINY)
    hertz = np.where(voiced, sample_rate / np.maximum(lag, 1.0), LOWEST_HZ)
    mean = float(np.clip(hertz, LOWEST_HZ, HIGHEST_HZ).mean())
    return (mean - LOWEST_HZ) / (HIGHEST_HZ - LOWEST_HZ)
