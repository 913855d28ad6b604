"""K-weighting, the ear of ITU-R BS.1770-4: how much of a sound counts for its loudness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .limiter import Samples

RATE = 24_000
"""Samples a second of everything here."""

HOP = 240
"""Samples that have one measure: 10 ms."""


class Weighting:
    """K-weights one stream and tells the mean square of every :data:`HOP` samples.

    However the samples are split, the measures are the same, bit for bit.
    """

    def __init__(self) -> None:
        self._pending: Samples = np.empty(0, np.float32)
        self._state: NDArray[np.float64] = np.zeros(4)

    def feed(self, samples: Samples) -> list[float]:
        """Return the measures of the hops that ``samples`` complete."""
        pending = np.concatenate([self._pending, samples])
        hops = pending.size // HOP
        self._pending = pending[hops * HOP :].copy()
        if not hops:
            return []
        filters = _filters()
        # One product for each hop, always of one shape: the same sums however many there are.
        parts = pending[: hops * HOP].astype(np.float64).reshape(hops, _PARTS, _PART)
        into = np.matmul(parts, filters.into).reshape(hops, 1, -1)
        onward = np.matmul(into, filters.onward)[:, 0]
        begins = np.empty((hops, 1, 4))
        for hop in range(hops):
            begins[hop, 0] = self._state
            self._state = filters.over @ self._state + onward[hop]
        states = np.matmul(begins, filters.from_begin) + np.matmul(into, filters.from_into)
        weighted = np.matmul(parts, filters.through)
        weighted += np.matmul(states.reshape(hops, _PARTS, 4), filters.ringing)
        measures: list[float] = np.square(weighted).reshape(hops, HOP).mean(axis=1).tolist()
        return measures


Matrix = NDArray[np.float64]

_PART = 30
"""Samples that are filtered by one product: the fewer, the less there is to multiply."""

_PARTS = HOP // _PART


@dataclass(frozen=True, slots=True)
class _Filters:
    """The two filters of the standard as matrices; four numbers are their state."""

    through: Matrix
    """From a part to what comes of it alone."""

    ringing: Matrix
    """From the state at a part's begin to what comes of that."""

    into: Matrix
    """From a part to the state behind it."""

    over: Matrix
    """From the state at a hop's begin to that at its end; as a column."""

    onward: Matrix
    """From what all parts bring into the state, to that at the hop's end."""

    from_begin: Matrix
    """From the state at the hop's begin to that at each of its parts."""

    from_into: Matrix
    """From what all parts bring into the state, to that at each of them."""


@lru_cache(maxsize=1)
def _filters() -> _Filters:
    whole = np.eye(_PART + 4)
    sound, states = _run((_shelf(), _high_pass()), whole[:, :_PART], whole[:, _PART:])
    step = states[_PART:]
    powers = [np.linalg.matrix_power(step, n) for n in range(_PARTS + 1)]
    none = np.zeros((4, 4))
    later = [
        [powers[to - at - 1] if to > at else none for to in range(_PARTS + 1)]
        for at in range(_PARTS)
    ]
    brought = np.block(later)
    return _Filters(
        through=sound[:_PART].copy(),
        ringing=sound[_PART:].copy(),
        into=states[:_PART].copy(),
        over=powers[_PARTS].T.copy(),
        onward=brought[:, -4:].copy(),
        from_begin=np.hstack(powers[:_PARTS]),
        from_into=brought[:, :-4].copy(),
    )


Section = tuple[tuple[float, float, float], tuple[float, float]]


def _run(sections: Sequence[Section], rows: Matrix, states: Matrix) -> tuple[Matrix, Matrix]:
    """Filter each row from its state, two numbers a section; return sound and states."""
    states = states.copy()
    out = np.empty_like(rows)
    for at in range(rows.shape[1]):
        sample = rows[:, at]
        for number, ((b0, b1, b2), (a1, a2)) in enumerate(sections):
            first, second = states[:, 2 * number].copy(), states[:, 2 * number + 1].copy()
            result = b0 * sample + first
            states[:, 2 * number] = b1 * sample - a1 * result + second
            states[:, 2 * number + 1] = b2 * sample - a2 * result
            sample = result
        out[:, at] = sample
    return out, states


def _shelf() -> Section:
    """The head: a shelf of 4 dB above 1.7 kHz. The standard gives it at 48 kHz alone; these are
    the analogue filters behind its numbers, brought to :data:`RATE`."""
    frequency, gain, q = 1681.974450955533, 10 ** (3.999843853973347 / 20), 0.7071752369554196
    k = math.tan(math.pi * frequency / RATE)
    middle = gain**0.4996667741545416
    a0 = 1 + k / q + k * k
    b0 = (gain + middle * k / q + k * k) / a0
    b2 = (gain - middle * k / q + k * k) / a0
    return (b0, 2 * (k * k - gain) / a0, b2), (2 * (k * k - 1) / a0, (1 - k / q + k * k) / a0)


def _high_pass() -> Section:
    """The ear: nothing below 38 Hz."""
    frequency, q = 38.13547087602444, 0.5003270373238773
    k = math.tan(math.pi * frequency / RATE)
    a0 = 1 + k / q + k * k
    return (1.0, -2.0, 1.0), (2 * (k * k - 1) / a0, (1 - k / q + k * k) / a0)
