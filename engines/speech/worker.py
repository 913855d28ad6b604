"""The threads, mostly one, in which a stage runs its model, and the streams that wait for it."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from ..chunks import End, EndReason, StageError
from ..scheduling.deadlines import HOLD_SECONDS, DeadlineQueue, Entry
from ..stage import FRESH_SECONDS, StageClosed, StageFailure
from ..streams import Inbox, TaskStream

InT = TypeVar("InT")
OutT = TypeVar("OutT")
ItemT = TypeVar("ItemT")
T = TypeVar("T")

Spent: TypeAlias = Callable[[float, float], None]
"""Is told how long a job waited and how long it then ran, both ms; on the event loop."""

NICENESS = 2
"""Lowered priority of stage threads and of those that libraries start from them.

The event loop needs little, but at once; a language model's process has 5.
"""


PATIENT_BOUND = 64
"""Patient jobs that may wait at once; more are refused."""


def step_back(niceness: int = NICENESS) -> None:
    """Lower the priority of this thread: the initializer of threads that run models."""
    # Only Linux gives each thread its own priority.
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A job that somebody waits for."""

    job: Callable[[Sequence[Any]], Sequence[Any]]
    """Does all items of one turn."""

    item: Any
    done: asyncio.Future[Any]
    spent: Spent | None
    counted: bool
    """Whether it is a request's: loading and warming are not."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a thread did: jobs that were done together, and what came of them."""

    entries: Sequence[Entry[_Call]]
    taken_at: float
    ran_seconds: float
    results: Sequence[Any] = ()
    error: BaseException | None = None


class Worker:
    """Runs jobs earliest deadline first, one after another unless told otherwise.

    A stream waits for its job before it hands in the next, so there is at most one job
    a stream. A job without a deadline is due when it is handed in: without any of them,
    streams take turns. Patient jobs let all others pass. A job that still waits when its
    stream is cancelled never runs.

    The threads take jobs by themselves: between two of them nothing waits for the event
    loop. Only a listener about to run dry, who was just served and will ask again, is waited
    for, a few ms, rather than begin with what is not urgent.
    """

    def __init__(
        self,
        name: str,
        threads: int = 1,
        clock: Callable[[], float] = time.monotonic,
        niceness: int = NICENESS,
    ) -> None:
        """``name``: of the stage, for errors and logs. ``threads``: jobs that run at once.

        ``niceness``: of the threads. ``clock``: seconds, the same as the event loop's; deadlines are told in them.
        """
        self._name = name
        self._threads = threads
        self._clock = clock
        self._niceness = niceness
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Condition()
        self._queue = DeadlineQueue[_Call]()
        """Used by loop and threads; under the lock, and told when something is put in."""

        self._ended_due: float | None = None
        """Deadline of what a thread has begun last; under the lock."""

        self._ended_at = -math.inf
        """When a thread last had something done; under the lock."""

        self._streams: set[TaskStream[Any, Any]] = set()
        self._ends = dict.fromkeys(EndReason, 0)
        self._jobs = 0
        """That run or wait for a thread."""

        self._patient = 0
        self._warmed = 0
        self._room = asyncio.Event()
        """Set while a patient job may run."""

        self._room.set()
        self._rests = asyncio.Event()
        """Set while a patient job may run and none waits to."""

        self._rests.set()
        self._ran_at = -math.inf
        self._spent = _Measures()

    async def start(self, load: Callable[[], T]) -> T:
        """Begin to serve: run ``load`` in the thread and return what it gives.

        Whatever ``load`` raises is raised here, and the worker is closed again.
        """
        self._executor = ThreadPoolExecutor(
            self._threads,
            thread_name_prefix=self._name,
            initializer=partial(step_back, self._niceness),
        )
        try:
            return await self._call(_alone(load), None, counted=False)
        except BaseException:
            await self.close()
            raise

    async def run(
        self,
        job: Callable[..., T],
        *args: Any,
        due: float | None = None,
        spent: Spent | None = None,
    ) -> T:
        """Run a job in the thread; cancellation leaves no job waiting.

        ``due``: by when it should begin, on the clock; ``None`` for when it is handed in.

        Raises:
            StageClosed: the worker is not running.
        """
        return await self._call(_alone(partial(job, *args)), None, due=due, spent=spent)

    async def run_together(
        self,
        job: Callable[[Sequence[ItemT]], Sequence[OutT]],
        item: ItemT,
        *,
        shape: Hashable,
        due: float | None,
        limit: int,
        spent: Spent | None = None,
    ) -> OutT:
        """Run a job that can do several items at once, with others that wait.

        The most urgent item is done with up to ``limit - 1`` others of equal ``job`` and
        ``shape`` whose deadlines are near (see :mod:`..scheduling.deadlines`). The job
        gives a result for each, in order; where it raises, it has failed for all of them.
        ``spent`` is told the time of the whole.

        Raises:
            StageClosed: the worker is not running.
        """
        return await self._call(job, item, due=due, spent=spent, group=(job, shape), limit=limit)

    async def run_patiently(self, job: Callable[..., T], *args: Any) -> T:
        """Run a job when no other runs or waits, or with several threads when one is left over.

        Raises:
            StageClosed: the worker is not running.
            StageFailure: too many such jobs wait.
        """
        if self._patient >= PATIENT_BOUND:
            what = f"the {self._name} stage has too much to do"
            raise StageFailure(StageError("overloaded", what, retry_after_ms=1000))
        self._count_patient(1)
        try:
            # Whoever was woken first may have taken the room.
            while not self._room.is_set():
                await self._room.wait()
        finally:
            self._count_patient(-1)
        return await self._call(_alone(partial(job, *args)), None, patient=True)

    @property
    def spare(self) -> bool:
        """Whether a thread has nothing to do."""
        return self._jobs < self._threads

    async def rest(self) -> None:
        """Return once a patient job would run at once and none waits: for work elsewhere that
        is more patient still.
        """
        while not self._rests.is_set():
            await self._rests.wait()

    async def warm(self, job: Callable[[], object]) -> None:
        """Run a job that uses the model, unless it is in use or was a moment ago."""
        stale = self._clock() - self._ran_at > FRESH_SECONDS
        if self._executor is not None and not self._jobs and stale:
            self._warmed += 1
            await self._call(_alone(job), None, counted=False)

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
        with self._lock:
            left = self._queue.clear()
        for entry in left:
            self._count_job(-1)
            if not entry.item.done.done():
                entry.item.done.set_exception(StageFailure(error))
        if executor is not None:
            await asyncio.to_thread(executor.shutdown, wait=True, cancel_futures=True)

    def statistics(self) -> dict[str, float]:
        """Counters since the start, and what runs or waits now.

        Streams open and ended, by reason; ``jobs`` that run or wait; ``warmed``: how often.
        Of the jobs of requests: ``taken``, ``busy_seconds``, ``waited_ms`` in all and the
        ``longest_wait_ms``, ``dropped`` ahead of their turn; ``deadline_misses``, begun late,
        and ``late_ms`` in all; ``batches`` of several and the jobs ``batched`` in them.
        """
        with self._lock:
            queue = self._queue
            queued = {
                "dropped": float(queue.dropped),
                "deadline_misses": float(queue.misses),
                "late_ms": queue.late_ms,
                "batches": float(queue.batches),
                "batched": float(queue.batched),
            }
        ends = {f"streams_{reason.value}": float(n) for reason, n in self._ends.items()}
        now = {"streams": float(len(self._streams)), "jobs": float(self._jobs)}
        fixed = {"threads": float(self._threads), "warmed": float(self._warmed)}
        return now | fixed | self._spent.statistics() | queued | ends

    async def _call(
        self,
        job: Callable[[Sequence[Any]], Sequence[T]],
        item: object,
        *,
        due: float | None = None,
        spent: Spent | None = None,
        counted: bool = True,
        group: Hashable = None,
        limit: int = 1,
        patient: bool = False,
    ) -> T:
        if self._executor is None:
            raise StageClosed(self._name)
        loop = asyncio.get_running_loop()
        call = _Call(job, item, loop.create_future(), spent, counted)
        with self._lock:
            entry = self._queue.put(
                call, self._clock(), due=due, group=group, limit=limit, patient=patient
            )
            self._lock.notify_all()
        self._count_job(1)
        # Not for this job but for one: the thread does whichever then is the most urgent.
        loop.run_in_executor(self._executor, self._serve).add_done_callback(self._served)
        try:
            return cast(T, await call.done)
        except asyncio.CancelledError:
            with self._lock:
                waited = self._queue.withdraw(entry)
            if waited:
                self._count_job(-1)
            elif not call.done.cancelled() and call.done.done():
                # It failed in the same moment: asyncio complains of errors that nobody saw.
                call.done.exception()
            raise

    def _serve(self) -> _Turn | None:
        """In a thread: do what is the most urgent; nothing where it was done or withdrawn."""
        with self._lock:
            self._hold()
            taken_at = self._clock()
            entries = self._queue.take(taken_at)
            self._ended_due = entries[0].due if entries else None
        if not entries:
            return None
        items = [entry.item.item for entry in entries]
        began = time.perf_counter()
        try:
            results = entries[0].item.job(items)
            if len(results) != len(items):
                raise RuntimeError(f"{len(results)} results of {len(items)} items")
        except BaseException as error:
            return _Turn(entries, taken_at, time.perf_counter() - began, error=error)
        finally:
            with self._lock:
                self._ended_at = self._clock()
        return _Turn(entries, taken_at, time.perf_counter() - began, results)

    def _hold(self) -> None:
        """Let the stream that was served last hand in its next job, if that may be urgent."""
        if self._queue.should_hold(self._ended_due, self._ended_at, self._clock()):
            # Whatever is handed in ends the wait: mostly it is what is waited for.
            self._lock.wait(HOLD_SECONDS)

    def _served(self, served: asyncio.Future[_Turn | None]) -> None:
        """Back on the event loop: tell those who wait what came of it."""
        # Cancelled where the worker was closed ahead of it.
        turn = None if served.cancelled() else served.result()
        if turn is None:
            return
        self._ran_at = self._clock()
        if any(entry.item.counted for entry in turn.entries):
            self._spent.add(turn)
        for number, entry in enumerate(turn.entries):
            self._count_job(-1)
            call = entry.item
            if call.done.done():
                pass
            elif turn.error is not None:
                call.done.set_exception(turn.error)
            else:
                call.done.set_result(turn.results[number])
        for entry in turn.entries:
            if entry.item.spent is not None:
                entry.item.spent(_waited_ms(entry, turn), turn.ran_seconds * 1000)

    def _count_job(self, change: int) -> None:
        self._jobs += change
        if self._jobs < max(1, self._threads - 1):
            self._room.set()
        else:
            self._room.clear()
        self._note_rest()

    def _count_patient(self, change: int) -> None:
        self._patient += change
        self._note_rest()

    def _note_rest(self) -> None:
        if self._room.is_set() and not self._patient:
            self._rests.set()
        else:
            self._rests.clear()

    def _done(self, stream: TaskStream[Any, Any], end: End) -> None:
        self._streams.discard(stream)
        self._ends[end.reason] += 1


@dataclass(slots=True)
class _Measures:
    """Time that jobs of requests took and waited."""

    taken: int = 0
    busy_seconds: float = 0.0
    waited_ms: float = 0.0
    longest_wait_ms: float = 0.0

    def add(self, turn: _Turn) -> None:
        """Count what a thread did."""
        self.taken += len(turn.entries)
        self.busy_seconds += turn.ran_seconds
        for entry in turn.entries:
            waited_ms = _waited_ms(entry, turn)
            self.waited_ms += waited_ms
            self.longest_wait_ms = max(self.longest_wait_ms, waited_ms)

    def statistics(self) -> dict[str, float]:
        """By name."""
        return {
            "taken": float(self.taken),
            "busy_seconds": self.busy_seconds,
            "waited_ms": self.waited_ms,
            "longest_wait_ms": self.longest_wait_ms,
        }


def _waited_ms(entry: Entry[_Call], turn: _Turn) -> float:
    return max(0.0, turn.taken_at - entry.arrived) * 1000


def _alone(job: Callable[[], T]) -> Callable[[Sequence[Any]], Sequence[T]]:
    return lambda items: [job()]
