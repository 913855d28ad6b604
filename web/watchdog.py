"""Watches the event loop: how late it comes back when it promised to."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

logger = logging.getLogger(__name__)

BEAT_SECONDS = 0.005
STALL_SECONDS = 0.020
"""A loop that is later than this is stalled: a whole frame of audio waited for it."""


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    """How the loop kept its promises since the last reset."""

    beats: int
    stalls: int
    """Beats more than 20 ms late."""

    worst_ms: float


class Watchdog:
    """Asks to be called every 5 ms and notes how late that happens."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._beats = 0
        self._stalls = 0
        self._worst = 0.0

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="watchdog")

    async def stop(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def reset(self) -> None:
        """Forget what was: what follows is counted alone."""
        self._beats = self._stalls = 0
        self._worst = 0.0

    def statistics(self) -> LoopStatistics:
        """Return the counts."""
        return LoopStatistics(self._beats, self._stalls, round(self._worst * 1000, 2))

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + BEAT_SECONDS
            await asyncio.sleep(BEAT_SECONDS)
            late = loop.time() - due
            self._beats += 1
            self._worst = max(self._worst, late)
            if late > STALL_SECONDS:
                self._stalls += 1
