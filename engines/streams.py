"""A stage stream made of one asyncio task and two bounded queues."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

from .chunks import End, EndReason, StageError
from .stage import StageFailure

InT = TypeVar("InT")
OutT = TypeVar("OutT")

logger = logging.getLogger(__name__)

INPUT_BOUND = 64
"""Chunks a stream holds before ``send`` waits: over a second of 20 ms frames."""

OUTPUT_BOUND = 32
"""Chunks made and not yet taken before the worker waits."""


class Inbox(Generic[InT]):
    """The chunks sent to a stream, as its one worker reads them."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._chunks: deque[InT] = deque()
        self._shut = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()

    async def put(self, chunk: InT) -> None:
        """Add a chunk; waits for room. Dropped when the inbox is shut."""
        while not self._shut and len(self._chunks) >= self._bound:
            self._writable.clear()
            await self._writable.wait()
        if not self._shut:
            self._chunks.append(chunk)
            self._readable.set()

    def shut(self) -> None:
        """Take no more; what is here can still be read. Idempotent."""
        self._shut = True
        self._readable.set()
        self._writable.set()

    @property
    def over(self) -> bool:
        """Whether nothing is here, and nothing will come any more."""
        return self._shut and not self._chunks

    async def readable(self) -> bool:
        """Return once a chunk is here, true, or none will come any more, false."""
        while not self._chunks and not self._shut:
            self._readable.clear()
            await self._readable.wait()
        return bool(self._chunks)

    def take(self) -> InT | None:
        """The next chunk, if one is here."""
        if not self._chunks:
            return None
        self._writable.set()
        return self._chunks.popleft()

    async def __aiter__(self) -> AsyncIterator[InT]:
        """Yield chunks in order until the inbox is shut and empty."""
        while await self.readable():
            chunk = self.take()
            assert chunk is not None, "an inbox has one reader"
            yield chunk


class TaskStream(Generic[InT, OutT]):
    """Runs ``work`` over what is sent and offers what it yields.

    ``work`` is an async generator function. It may yield its own ``End`` (with usage,
    or a reason other than completed) as its last item; where it doesn't, one is added.
    Whatever happens in it, the stream yields exactly one ``End``, last.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Inbox[InT]], AsyncGenerator[OutT | End, None]],
        *,
        input_bound: int = INPUT_BOUND,
        output_bound: int = OUTPUT_BOUND,
        on_done: Callable[[End], None] | None = None,
    ) -> None:
        self._name = name
        self._inbox: Inbox[InT] = Inbox(input_bound)
        # Unbounded by itself: the semaphore bounds chunks, and the End never waits.
        self._out: asyncio.Queue[OutT | End] = asyncio.Queue()
        self._room = asyncio.Semaphore(output_bound)
        self._failure: StageError | None = None
        self._stopping = False
        self._end: End | None = None
        self._taken = False
        self._on_done = on_done
        self._task = asyncio.get_running_loop().create_task(self._run(work), name=name)
        # In a callback, not in the task: a task cancelled before its first step runs
        # none of its own code, and its reader needs the End all the same.
        self._task.add_done_callback(self._finish)

    async def send(self, chunk: InT) -> None:
        """Hand in a chunk; waits while the input bound is reached."""
        await self._inbox.put(chunk)

    async def end(self) -> None:
        """Say that no more chunks will be sent."""
        self._inbox.shut()

    def cancel(self) -> None:
        """Stop now; the stream then ends as cancelled."""
        self._stop(None)

    def fail(self, error: StageError) -> None:
        """Stop now; the stream then ends as failed with ``error``."""
        self._stop(error)

    def _stop(self, error: StageError | None) -> None:
        # Once only: a second cancellation would break into the worker's own cleaning up.
        if not self._stopping and not self._task.done():
            self._stopping = True
            self._failure = error
            self._task.cancel()

    async def wait_done(self) -> None:
        """Return when the worker is gone."""
        await asyncio.wait([self._task])

    @property
    def done(self) -> bool:
        """Whether the worker is gone."""
        return self._task.done()

    async def __aiter__(self) -> AsyncIterator[OutT | End]:
        """Yield the output once; a second iteration is a caller's bug."""
        if self._taken:
            raise RuntimeError(f"stream {self._name} is already being read")
        self._taken = True
        while True:
            item = await self._out.get()
            yield item
            if isinstance(item, End):
                return
            self._room.release()

    async def _run(self, work: Callable[[Inbox[InT]], AsyncGenerator[OutT | End, None]]) -> None:
        try:
            async with aclosing(work(self._inbox)) as chunks:
                async for item in chunks:
                    if isinstance(item, End):
                        self._end = item
                        return
                    await self._room.acquire()
                    self._out.put_nowait(item)
        except StageFailure as failure:
            self._end = End(EndReason.FAILED, failure.error)
        except Exception:
            logger.exception("stream %s failed", self._name)
            self._end = End(EndReason.FAILED, StageError("internal_error", "the stage failed"))

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._inbox.shut()
        end = self._end or End(EndReason.COMPLETED)
        if task.cancelled() and self._failure is not None:
            end = End(EndReason.FAILED, self._failure)
        elif task.cancelled():
            end = End(EndReason.CANCELLED)
        self._out.put_nowait(end)
        if self._on_done is not None:
            self._on_done(end)
