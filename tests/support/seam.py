"""How audible the places are at which sound was joined from parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FLOOR = 1e-3
"""Of full scale: below -60 dBFS nothing is compared."""


@dataclass(frozen=True, slots=True)
class SeamFigures:
    """Of one seam."""

    jump: float
    """The step over the seam against steps near it: about 1 where there is nothing to hear."""

    splash_db: float
    """Energy of high frequencies at the seam over that around it: a click has them all."""

    def clean(self, *, jump: float = 2.0, splash_db: float = 10.0) -> bool:
        """Whether neither gives the seam away."""
        return self.jump <= jump and self.splash_db <= splash_db


def seam(
    samples: NDArray[np.float32], at: int, sample_rate: int, *, above_hz: float = 5000.0
) -> SeamFigures:
    """Measure the seam between ``samples[at - 1]`` and ``samples[at]``.

    Needs 20 ms on each side. ``jump`` is the largest departure from a straight continuation
    within 3 samples, against the 98th percentile of the 10 ms on both sides; ``splash_db``
    compares a window of 4 ms over the seam with the loudest of its neighbours, so that an "s"
    at the seam is no click.

    Raises:
        ValueError: there is too little sound around the seam.
    """
    reach = sample_rate // 50
    if at < reach or len(samples) - at < reach:
        raise ValueError(f"expected {reach} samples on each side, got {at} of {len(samples)}")
    near = samples[at - reach : at + reach].astype(np.float64)
    return SeamFigures(_jump(near, reach), _splash(near, reach, sample_rate, above_hz))


def _jump(near: NDArray[np.float64], middle: int) -> float:
    steps = np.abs(np.diff(near))
    bends = np.abs(np.diff(near, 2))
    half = middle // 2
    ratios: list[float] = []
    # The step from i to i + 1 has index i; the bend at i + 1 has index i.
    for changes, first, last in ((steps, middle - 1, middle), (bends, middle - 3, middle + 1)):
        around = np.concatenate([changes[half : first - 2], changes[last + 2 : middle + half]])
        usual = max(float(np.percentile(around, 98)), FLOOR)
        ratios.append(float(np.max(changes[first:last])) / usual)
    return max(ratios)


def _splash(near: NDArray[np.float64], middle: int, sample_rate: int, above_hz: float) -> float:
    width = sample_rate // 250
    window = np.hanning(width)
    high = np.fft.rfftfreq(width, 1 / sample_rate) >= above_hz

    def energy(center: int) -> float:
        part = near[center - width // 2 : center - width // 2 + width] * window
        spectrum = np.abs(np.fft.rfft(part)[high]) ** 2
        return float(np.sum(spectrum))

    here = max(energy(middle + shift) for shift in (-width // 4, 0, width // 4))
    sides = [energy(middle + sign * width * step) for sign in (-1, 1) for step in (1, 2, 3)]
    floor = (FLOOR * width) ** 2 / 10
    return 10 * float(np.log10((here + floor) / (max(sides) + floor)))
