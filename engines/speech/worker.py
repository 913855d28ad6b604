"""The threads, mostly one, in which a stage runs its model, and the streams that wait for it."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from ..chunks import End, EndReason, StageError
from ..stage import FRESH_SECONDS, StageClosed, StageFailure
from ..streams import Inbox, TaskStream

InT = TypeVar("InT")
OutT = TypeVar("OutT")
T = TypeVar("T")
P = ParamSpec("P")


NICENESS = 2
"""Lowered priority of stage threads and of those that libraries start from them.

The event loop needs little, but at once; a language model's process has 5.
"""


PATIENT_BOUND = 64
"""Patient jobs that may wait at once; more are refused."""


def _step_back() -> None:
    # Only Linux gives each thread its own priority.
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


class _Threads(ThreadPoolExecutor):
    """Threads that tell when a job has ended, or was given up before it began.

    Who waits for a job can't tell: cancelled, it leaves a job that runs to its end.
    """

    def __init__(self, count: int, name: str, ended: Callable[[Future[Any]], None]) -> None:
        super().__init__(count, thread_name_prefix=name, initializer=_step_back)
        self._ended = ended

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Hand a job to the threads."""
        future = super().submit(fn, *args, **kwargs)
        future.add_done_callback(self._ended)
        return future


class Worker:
    """Runs jobs first come first served, one after another unless told otherwise.

    A stream waits for its job before it hands in the next, so there is at most one job
    a stream and streams take turns. Patient jobs let all others pass. A job that still
    waits when its stream is cancelled never runs.
    """

    def __init__(
        self, name: str, threads: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``name``: of the stage, for errors and logs. ``threads``: jobs that run at once."""
        self._name = name
        self._threads = threads
        self._clock = clock
        self._executor: ThreadPoolExecutor | None = None
        self._streams: set[TaskStream[Any, Any]] = set()
        self._ends = dict.fromkeys(EndReason, 0)
        self._jobs = 0
        """That run or wait for a thread."""

        self._patient = 0
        self._warmed = 0
        self._room = asyncio.Event()
        """Set while a patient job may run."""

        self._room.set()
        self._ran_at = -math.inf

    async def start(self, load: Callable[[], T]) -> T:
        """Begin to serve: run ``load`` in the thread and return what it gives.

        Whatever ``load`` raises is raised here, and the worker is closed again.
        """
        loop = asyncio.get_running_loop()

        def ended(job: Future[Any]) -> None:
            loop.call_soon_threadsafe(self._job_done, not job.cancelled())

        self._executor = _Threads(self._threads, self._name, ended)
        try:
            return await self.run(load)
        except BaseException:
            await self.close()
            raise

    async def run(self, job: Callable[..., T], *args: Any) -> T:
        """Run a job in the thread; cancellation leaves no job waiting.

        Raises:
            StageClosed: the worker is not running.
        """
        if self._executor is None:
            raise StageClosed(self._name)
        self._count_job(1)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, partial(job, *args))

    async def run_patiently(self, job: Callable[..., T], *args: Any) -> T:
        """Run a job when no other runs or waits, or with several threads when one is left over.

        Raises:
            StageClosed: the worker is not running.
            StageFailure: too many such jobs wait.
        """
        if self._patient >= PATIENT_BOUND:
            what = f"the {self._name} stage has too much to do"
            raise StageFailure(StageError("overloaded", what, retry_after_ms=1000))
        self._patient += 1
        try:
            # Whoever was woken first may have taken the room.
            while not self._room.is_set():
                await self._room.wait()
        finally:
            self._patient -= 1
        return await self.run(job, *args)

    async def warm(self, job: Callable[[], object]) -> None:
        """Run a job that uses the model, unless it is in use or was a moment ago."""
        stale = self._clock() - self._ran_at > FRESH_SECONDS
        if self._executor is not None and not self._jobs and stale:
            self._warmed += 1
            await self.run(job)

    def open(
        self,
        name: str,
        work: Callable[[Inbox[InT]], AsyncGenerator[OutT | End, None]],
        *,
        input_bound: int,
    ) -> TaskStream[InT, OutT]:
        """A stream that :meth:`close` ends.

        Raises:
            StageClosed: the worker is not running.
        """
        if self._executor is None:
            raise StageClosed(self._name)
        stream = TaskStream[InT, OutT](
            name, work, input_bound=input_bound, on_done=lambda end: self._done(stream, end)
        )
        self._streams.add(stream)
        return stream

    async def close(self) -> None:
        """End all streams as failed and give up the thread, after its running job."""
        executor, self._executor = self._executor, None
        error = StageError("stage_closed", f"the {self._name} stage is closing", 1000)
        streams = list(self._streams)
        for stream in streams:
            stream.fail(error)
        for stream in streams:
            await stream.wait_done()
        if executor is not None:
            await asyncio.to_thread(executor.shutdown, wait=True, cancel_futures=True)

    def statistics(self) -> dict[str, float]:
        """Streams open and ended, by reason, jobs that run or wait, and how often warmed."""
        ends = {f"streams_{reason.value}": float(n) for reason, n in self._ends.items()}
        now = {"streams": float(len(self._streams)), "jobs": float(self._jobs)}
        return now | {"warmed": float(self._warmed)} | ends

    def _job_done(self, ran: bool) -> None:
        if ran:
            self._ran_at = self._clock()
        self._count_job(-1)

    def _count_job(self, change: int) -> None:
        self._jobs += change
        if self._jobs < max(1, self._threads - 1):
            self._room.set()
        else:
            self._room.clear()

    def _done(self, stream: TaskStream[Any, Any], end: End) -> None:
        self._streams.discard(stream)
        self._ends[end.reason] += 1
