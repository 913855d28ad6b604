"""Several jobs of one stream under way at once, and their results in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Generic, TypeVar

StepT = TypeVar("StepT")
OutT = TypeVar("OutT")


class Ahead(Generic[StepT, OutT]):
    """Begins jobs while those before them run, and hands over what they give in their order."""

    def __init__(self, room: Callable[[], int]) -> None:
        """``room``: how many may be under way now, at least one; asked again after each."""
        self._room = room
        # Bounded by the room: nothing is put in while that is full.
        self._begun: asyncio.Queue[asyncio.Future[OutT] | None] = asyncio.Queue()
        self._running = 0
        self._freed = asyncio.Event()

    async def run(
        self,
        todo: AsyncGenerator[StepT, None],
        begin: Callable[[StepT], Coroutine[Any, Any, OutT]],
    ) -> AsyncGenerator[OutT, None]:
        """Yield what comes of each step; when closed, cancel what is under way.

        ``begin`` is called with a step before the next is asked for.

        Raises:
            Exception: whatever ``todo``, or the first job that fails, raises; what was begun
                before is handed over first.
        """
        tasks = set[asyncio.Future[Any]]()
        begins = asyncio.ensure_future(self._begin(todo, begin, tasks))
        tasks.add(begins)
        try:
            while (job := await self._begun.get()) is not None:
                yield await job
                self._running -= 1
                self._freed.set()
            await begins
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin(
        self,
        todo: AsyncGenerator[StepT, None],
        begin: Callable[[StepT], Coroutine[Any, Any, OutT]],
        tasks: set[asyncio.Future[Any]],
    ) -> None:
        try:
            async for step in todo:
                job = asyncio.ensure_future(begin(step))
                tasks.add(job)
                job.add_done_callback(tasks.discard)
                self._running += 1
                self._begun.put_nowait(job)
                while self._running >= self._room():
                    self._freed.clear()
                    await self._freed.wait()
        finally:
            self._begun.put_nowait(None)
