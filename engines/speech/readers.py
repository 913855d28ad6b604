"""The threads that read recordings, behind all that is live, and whose turn it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from .worker import Worker, step_back

T = TypeVar("T")

NICENESS = 10
"""Lowered priority of what computes: below that of stages, and of a language model's process.

The threads that call it are as all of stages: one that came to a stand with the interpreter's
lock in its hands would hold up the event loop.
"""


@dataclass(slots=True, eq=False)
class Place:
    """One recording among those that take turns."""

    running: int = 0
    """Its stretches that are read."""

    served: int = 0
    """Which turn it had last; before its first, that of whoever came last."""


@dataclass(slots=True, eq=False)
class _Waiting:
    place: Place
    turn: asyncio.Future[None]


class Readers:
    """Threads for recordings, and a fair order of those who want them.

    A stretch begins only while the live worker rests; one that is under way goes on, in a
    thread of its own, when a live job comes. Whoever has the fewest stretches under way is
    next, and of these whose last turn is the longest ago.
    """

    def __init__(
        self, live: Worker, threads: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``live``: whose jobs come first. ``threads``: stretches that are read at once."""
        self._live = live
        self._worker = Worker("recordings", threads, clock=clock)
        self._free = threads
        self._served = 0
        self._waiting: list[_Waiting] = []

    async def start(self, load: Callable[[], T]) -> T:
        """Begin to serve; see :meth:`.worker.Worker.start`.

        What ``load`` starts to compute with has a low priority.
        """
        return await self._worker.start(lambda: _in_low_priority(load))

    def enter(self) -> Place:
        """A place for a recording that begins."""
        return Place(served=self._served)

    async def run(self, place: Place, job: Callable[..., T], *args: Any) -> T:
        """Run a job when it has its turn; cancelled ahead of it, it never runs.

        As many wait as their callers let: see :data:`.recording.SPARE`.

        Raises:
            StageClosed: the readers are not running.
        """
        await self._turn(place)
        try:
            await self._live.rest()
        except BaseException:
            self._release(place)
            raise
        # Whoever gives up leaves a thread that goes on: it is not free until it is done.
        running = asyncio.ensure_future(self._worker.run(job, *args))
        running.add_done_callback(lambda done: self._ended(place, done))
        return await asyncio.shield(running)

    async def close(self) -> None:
        """Give up the threads, after their running jobs. Idempotent."""
        await self._worker.close()

    def statistics(self) -> dict[str, float]:
        """Stretches that are read and that wait, those of cancelled recordings included."""
        running = self._worker.statistics()["jobs"]
        return {"stretches_running": running, "stretches_waiting": float(len(self._waiting))}

    async def _turn(self, place: Place) -> None:
        waiting = _Waiting(place, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._grant()
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:
                # It was given in the same moment.
                self._release(place)
            raise

    def _grant(self) -> None:
        while self._free and self._waiting:
            # Of one recording the first comes first: ``min`` keeps the order of equals.
            following = min(self._waiting, key=lambda each: (each.place.running, each.place.served))
            self._waiting.remove(following)
            self._free -= 1
            self._served += 1
            following.place.running += 1
            following.place.served = self._served
            following.turn.set_result(None)

    def _release(self, place: Place) -> None:
        place.running -= 1
        self._free += 1
        self._grant()

    def _ended(self, place: Place, done: asyncio.Future[Any]) -> None:
        self._release(place)
        if not done.cancelled():
            # Nobody may be left to see an error, and asyncio complains of that.
            done.exception()


def _in_low_priority(load: Callable[[], T]) -> T:
    """Run it in a thread of its own: threads have the priority of the one that starts them."""
    with ThreadPoolExecutor(1, initializer=step_back, initargs=(NICENESS,)) as thread:
        return thread.submit(load).result()
