"""A limiter of true peaks: what lies between the samples counts, as a converter would make it.

The gain falls over :data:`AHEAD_MS` ahead of a peak, so that nothing is clipped, and recovers
slowly behind it. Samples without any such peak near them are handed on as they are.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Samples: TypeAlias = NDArray[np.float32]

CELL = 24
"""Samples that are judged as one: 1 ms at 24 kHz."""

AHEAD_MS = 5
"""Cells over which the gain falls."""

RECOVERY_MS = 20.0
"""In which the gain goes back by two thirds."""

_SIDE = 16
"""Samples on each side from which a place between two is interpolated. Noise up to 10 kHz
stays within 0.3 dB of the ceiling, up to 12 kHz within 0.4."""

_PHASES = 4
"""Places looked at for each sample, itself among them; ITU-R BS.1770-4 asks for as many."""

HELD_SAMPLES = (AHEAD_MS + 2) * CELL + _SIDE
"""Held back at most: what lies ahead of a peak, and what it is found with."""

_UNTOUCHED = 1e-4
"""A reduction below this is over."""


def _interpolators() -> Samples:
    """One row for each place between two samples: the weights of those around it."""
    at = np.arange(1 - _SIDE, _SIDE + 1)
    places = np.arange(1, _PHASES)[:, None] / _PHASES
    windows = np.i0(5.0 * np.sqrt(1 - ((at - places) / _SIDE) ** 2))
    weights = np.sinc(at - places) * windows
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


_WEIGHTS = _interpolators()
_OVERSHOOT = float(np.abs(_WEIGHTS).sum(axis=1).max())
"""How much larger than the samples around it a place between them can be."""


def _between() -> Samples:
    """The matrix from a cell and what is around it to all places between its samples."""
    places = CELL + 1
    matrix = np.zeros((CELL + 2 * _SIDE, places * len(_WEIGHTS)), np.float32)
    for phase, weights in enumerate(_WEIGHTS):
        for place in range(places):
            matrix[place : place + 2 * _SIDE, phase * places + place] = weights
    return matrix


_BETWEEN = _between()

_STEPS: Samples = np.asarray(np.arange(1, CELL + 1) / CELL, np.float32)
_RECOVERED = 1 - math.exp(-1 / RECOVERY_MS)


class Limiter:
    """Keeps one stream of float32 samples at 24 kHz below a peak.

    However the samples are split, the outputs concatenate to the same ones, as many as went in.
    At most :data:`HELD_SAMPLES` are held back.
    """

    def __init__(self, ceiling_dbtp: float) -> None:
        """``ceiling_dbtp``: dB of full scale that no true peak is above."""
        self._ceiling = 10 ** (ceiling_dbtp / 20)
        # A cell of silence lies ahead, over which the gain can already fall.
        self._heard: Samples = np.zeros(_SIDE, np.float32)
        """Not yet judged, and what is around that."""

        self._pending: Samples = np.zeros(CELL, np.float32)
        self._needed: NDArray[np.float64] = np.ones(1)
        """Judged, and the gain that each cell of it needs."""

        self._ahead = CELL
        self._gain = 1.0
        self._taken = self._given = 0

    def feed(self, samples: Samples) -> Samples:
        """Return what is ready after ``samples``; both have the shape ``(n,)``, n may be 0."""
        self._taken += samples.size
        heard = np.concatenate([self._heard, samples])
        cells = max(0, (heard.size - 2 * _SIDE) // CELL)
        if not cells:
            self._heard = heard
            return np.empty(0, np.float32)
        self._heard = heard[cells * CELL :].copy()
        needs = self._needs(heard[: cells * CELL + 2 * _SIDE])
        self._pending = np.concatenate([self._pending, heard[_SIDE : _SIDE + cells * CELL]])
        self._needed = np.concatenate([self._needed, needs])
        ready = max(0, self._needed.size - AHEAD_MS - 1)
        sound, self._pending = np.split(self._pending, [ready * CELL])
        limited = self._limited(sound, ready)[self._ahead :]
        self._ahead -= min(self._ahead, sound.size)
        self._needed = self._needed[ready:]
        self._given += limited.size
        return limited

    def flush(self) -> Samples:
        """Return the samples still held back. Nothing can be fed after that."""
        held = self._taken - self._given
        tail = self.feed(np.zeros(HELD_SAMPLES + 2 * CELL, np.float32))[:held]
        self._given = self._taken
        return tail

    def _needs(self, heard: Samples) -> NDArray[np.float64]:
        """Return the gain that each cell needs; ``heard`` has :data:`_SIDE` more on both sides."""
        around = np.lib.stride_tricks.sliding_window_view(heard, CELL + 2 * _SIDE)[::CELL]
        peaks: NDArray[np.float64] = np.abs(around).max(axis=1).astype(np.float64)
        near = np.flatnonzero(peaks * _OVERSHOOT > self._ceiling)
        if near.size:
            peaks[near] = _true_peaks(around[near])
        needs: NDArray[np.float64] = np.ones(peaks.size)
        over = peaks > self._ceiling
        needs[over] = self._ceiling / peaks[over]
        return needs

    def _limited(self, sound: Samples, cells: int) -> Samples:
        if not cells or (self._gain == 1.0 and self._needed.min() == 1.0):
            return sound
        at_edges = np.minimum(self._needed[:-1], self._needed[1:])
        aims = np.ones(cells)
        for ahead in range(AHEAD_MS + 1):
            share = 1 - ahead / (AHEAD_MS + 1)
            aims = np.minimum(aims, 1 - (1 - at_edges[ahead : ahead + cells]) * share)
        edges = [self._gain]
        for aim in aims.tolist():
            gain = min(aim, edges[-1] + (1 - edges[-1]) * _RECOVERED)
            edges.append(gain if 1 - gain > _UNTOUCHED else 1.0)
        self._gain = edges[-1]
        nodes = np.asarray(edges, np.float32)[:, None]
        gains = nodes[:-1] + (nodes[1:] - nodes[:-1]) * _STEPS
        return np.asarray(sound * gains.ravel(), np.float32)


def _true_peaks(around: Samples) -> NDArray[np.float64]:
    """Return the peak of each row, without the :data:`_SIDE` at both of its ends."""
    # One product for each row, always of one shape: the same sums however many there are.
    between = np.abs(np.matmul(around[:, None], _BETWEEN)).max(axis=(1, 2))
    at = np.abs(around[:, _SIDE:-_SIDE]).max(axis=1)
    peaks: NDArray[np.float64] = np.maximum(at, between).astype(np.float64)
    return peaks
