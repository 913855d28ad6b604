"""How what the tasks of one request make reaches its one reader, and how far that one is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, Generic, TypeVar, cast

from ..chunks import End, PcmChunk
from ..flow import Flow
from ..streams import Inbox, TaskStream

InT = TypeVar("InT")
OutT = TypeVar("OutT")


class FlowStream(TaskStream[InT, OutT]):
    """A stream with audio, paced by how far its listener is."""

    def __init__(
        self,
        name: str,
        work: Callable[[Inbox[InT]], AsyncGenerator[OutT | End, None]],
        flow: Flow,
        *,
        on_done: Callable[[End], None],
    ) -> None:
        super().__init__(name, work, on_done=on_done)
        self._flow = flow

    def played(self, played_ms: float, until_ms: float) -> None:
        """Say how far the listener is, and how far it plays on by itself."""
        self._flow.played(played_ms, until_ms)

    async def __aiter__(self) -> AsyncIterator[OutT | End]:
        """As any stream; audio that is not taken counts as not heard."""
        async for item in super().__aiter__():
            if isinstance(item, PcmChunk):
                self._flow.took(len(item.pcm) / 2 / item.rate * 1000)
            yield item


class Outlet(Generic[OutT]):
    """Hands what several tasks make to one reader."""

    def __init__(self, flow: Flow) -> None:
        """``flow`` is told while something waits for the reader."""
        # One chunk only, because the bound is kept by the stream that reads this.
        self._out: asyncio.Queue[OutT | End | BaseException] = asyncio.Queue(1)
        self._putting = asyncio.Lock()
        self._flow = flow

    async def put(self, *items: OutT) -> None:
        """Hand on, with nothing of another task between them."""
        with self._flow.handing_over():
            async with self._putting:
                for item in items:
                    await self._out.put(item)

    async def chunks(
        self, join: Callable[[], Coroutine[Any, Any, End]], name: str
    ) -> AsyncGenerator[OutT | End, None]:
        """Yield what is put while ``join`` runs, and last its ``End``; when closed, cancel it.

        Raises:
            Exception: whatever ``join`` raises; of a group the first.
        """
        # In a task of its own: where this generator stops to hand out a chunk, a task group
        # around it could neither be cancelled nor report.
        task = asyncio.create_task(self._run(join), name=name)
        try:
            while True:
                item = await self._out.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self, join: Callable[[], Coroutine[Any, Any, End]]) -> None:
        """Put the ``End``, or the exception in its place."""
        try:
            end: End | BaseException = await join()
        except Exception as error:
            end = first_error(error)
        await self._out.put(end)


def first_error(error: BaseException) -> BaseException:
    """The error itself, or the first of those in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
