"""Watches the event loop: how late it comes back when it promised to."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger(__name__)

BEAT_SECONDS = 0.005
STALL_SECONDS = 0.020
"""A loop that is later than this is stalled: a whole frame of audio waited for it."""

FINEST_SECONDS = 0.00005
GROWTH = 1.1
"""Lateness is counted in steps, each so much longer than the one before: percentiles are right
to a tenth."""

STEPS = 128
"""The last one begins at 9 s."""


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    """How the loop kept its promises since the last reset."""

    beats: int
    stalls: int
    """Beats more than 20 ms late."""

    p50_ms: float
    p99_ms: float
    worst_ms: float


class Watchdog:
    """Asks to be called every 5 ms and notes how late that happens."""

    def __init__(self, on_beat: Callable[[float], None] = lambda late: None) -> None:
        """``on_beat`` is told, beat by beat, how many seconds late it was."""
        self._on_beat = on_beat
        self._task: asyncio.Task[None] | None = None
        self._beats = 0
        self._stalls = 0
        self._worst = 0.0
        self._steps = [0] * STEPS

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._task = asyncio.get_running_loop().create_task(self.watch(), name="watchdog")

    async def stop(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def reset(self) -> None:
        """Forget what was: what follows is counted alone."""
        self._beats = self._stalls = 0
        self._worst = 0.0
        self._steps = [0] * STEPS

    def statistics(self) -> LoopStatistics:
        """Return the counts."""
        return LoopStatistics(
            beats=self._beats,
            stalls=self._stalls,
            p50_ms=self._percentile(0.50),
            p99_ms=self._percentile(0.99),
            worst_ms=round(self._worst * 1000, 2),
        )

    def _percentile(self, share: float) -> float:
        """The lateness, in ms, that this share of the beats did not exceed."""
        left = share * self._beats
        for step, count in enumerate(self._steps):
            left -= count
            if left <= 0 < count:
                return round(min(FINEST_SECONDS * GROWTH**step, self._worst) * 1000, 2)
        return 0.0

    async def watch(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + BEAT_SECONDS
            await asyncio.sleep(BEAT_SECONDS)
            late = loop.time() - due
            self._beats += 1
            self._steps[_step(late)] += 1
            self._worst = max(self._worst, late)
            self._on_beat(late)
            if late > STALL_SECONDS:
                self._stalls += 1


def _step(late: float) -> int:
    if late <= FINEST_SECONDS:
        return 0
    return min(math.ceil(math.log(late / FINEST_SECONDS, GROWTH)), STEPS - 1)
