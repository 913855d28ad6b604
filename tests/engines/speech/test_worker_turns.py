"""Whose job a worker's thread takes next, which go together, and what is measured."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest
from tests.support.waiting import until

from antiphon.engines.speech import worker
from antiphon.engines.speech.worker import Worker
from antiphon.engines.stage import FRESH_SECONDS, StageFailure

PATIENCE = 10


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Thread:
    """A worker whose one thread is held by a first job, so that others wait for it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.worker = Worker("test", clock=self.clock)
        self.ran: list[str] = []
        self._begun, self._free = threading.Event(), threading.Event()

    async def hold(self) -> asyncio.Task[bool]:
        """Begin the job that holds the thread."""
        await self.worker.start(lambda: None)
        held = asyncio.create_task(self.worker.run(self._hold))
        await until(self._begun.is_set)
        return held

    def let_go(self) -> None:
        self._free.set()

    def job(self, name: str, due: float | None = None) -> asyncio.Task[None]:
        return asyncio.create_task(self.worker.run(self.ran.append, name, due=due))

    def _hold(self) -> bool:
        self._begun.set()
        return self._free.wait(PATIENCE)


def with_thread(scenario: Callable[[Thread], Awaitable[None]]) -> Thread:
    async def main() -> Thread:
        thread = Thread()
        held = await thread.hold()
        try:
            async with asyncio.timeout(PATIENCE):
                await scenario(thread)
                thread.let_go()
                await held
                await until(lambda: not thread.worker.statistics()["jobs"])
        finally:
            thread.let_go()
            await thread.worker.close()
        return thread

    return asyncio.run(main())


async def settle() -> None:
    """Let everything run that can run without a job's end."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_the_earliest_deadline_is_served_first() -> None:
    async def scenario(thread: Thread) -> None:
        jobs = [thread.job(name, due) for name, due in (("c", 103.0), ("a", 101.0), ("b", 102.0))]
        jobs.append(thread.job("at once"))
        await settle()
        thread.let_go()
        await asyncio.gather(*jobs)

    assert with_thread(scenario).ran == ["at once", "a", "b", "c"]


def test_the_thread_goes_on_while_the_event_loop_is_busy() -> None:
    async def scenario(thread: Thread) -> None:
        second = threading.Event()
        jobs = [
            thread.job("a", 101.0),
            asyncio.create_task(thread.worker.run(second.set, due=102.0)),
        ]
        await settle()
        thread.let_go()
        # Nothing on the loop runs meanwhile.
        assert second.wait(PATIENCE)
        await asyncio.gather(*jobs)

    assert with_thread(scenario).ran == ["a"]


def test_a_listener_who_asks_again_passes_what_is_not_urgent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However slow this machine is, the loop has handed in the next job by then.
    monkeypatch.setattr(worker, "HOLD_SECONDS", PATIENCE)

    async def scenario(thread: Thread) -> None:
        async def listener() -> None:
            for name, due in (("first", 100.2), ("second", 100.1), ("third", 109.0)):
                await thread.worker.run(thread.ran.append, name, due=due)

        jobs = [asyncio.create_task(listener()), thread.job("rich", 104.0)]
        await settle()
        thread.let_go()
        await asyncio.gather(*jobs)

    assert with_thread(scenario).ran == ["first", "second", "rich", "third"]


def test_a_listener_who_does_not_ask_again_holds_up_the_thread_for_a_moment_only() -> None:
    async def scenario(thread: Thread) -> None:
        jobs = [thread.job("last", 100.1), thread.job("rich", 104.0)]
        await settle()
        thread.let_go()
        await asyncio.gather(*jobs)

    assert with_thread(scenario).ran == ["last", "rich"]


def test_a_job_whose_caller_is_gone_is_dropped_unpaid() -> None:
    async def scenario(thread: Thread) -> None:
        gone, kept = thread.job("gone", 101.0), thread.job("kept", 102.0)
        await settle()
        gone.cancel()
        await asyncio.wait([gone])
        assert thread.worker.statistics()["jobs"] == 2
        thread.let_go()
        await kept

    thread = with_thread(scenario)
    numbers = thread.worker.statistics()
    assert thread.ran == ["kept"]
    assert (numbers["dropped"], numbers["taken"]) == (1, 2)


def test_items_of_one_shape_are_done_together() -> None:
    batches: list[list[int]] = []

    def double(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        return [2 * item for item in items]

    async def scenario(thread: Thread) -> None:
        def together(item: int, shape: str, due: float) -> Awaitable[int]:
            return thread.worker.run_together(double, item, shape=shape, due=due, limit=3)

        asked = [
            (1, "s", 101.0),
            (2, "t", 101.1),
            (3, "s", 101.3),
            (4, "s", 101.2),
            (5, "s", 101.4),
        ]
        jobs = [asyncio.ensure_future(together(*each)) for each in asked]
        await settle()
        thread.let_go()
        assert await asyncio.gather(*jobs) == [2, 4, 6, 8, 10]

    numbers = with_thread(scenario).worker.statistics()
    assert batches == [[1, 4, 3], [2], [5]]
    assert (numbers["batches"], numbers["batched"], numbers["taken"]) == (1, 3, 6)


def test_one_that_is_gone_is_in_no_batch() -> None:
    batches: list[list[int]] = []

    def note(items: Sequence[int]) -> Sequence[int]:
        batches.append(list(items))
        return items

    async def scenario(thread: Thread) -> None:
        jobs = [
            asyncio.create_task(thread.worker.run_together(note, n, shape=None, due=101.0, limit=4))
            for n in range(3)
        ]
        await settle()
        jobs[1].cancel()
        await asyncio.wait([jobs[1]])
        thread.let_go()
        assert [await jobs[0], await jobs[2]] == [0, 2]

    with_thread(scenario)
    assert batches == [[0, 2]]


def breaks(items: Sequence[int]) -> Sequence[int]:
    raise ZeroDivisionError("broken")


def gives_too_few(items: Sequence[int]) -> Sequence[int]:
    return items[:1]


@pytest.mark.parametrize(
    ("job", "what"), [(breaks, "broken"), (gives_too_few, "1 results of 2 items")]
)
def test_a_batch_that_fails_has_failed_for_all(
    job: Callable[[Sequence[int]], Sequence[int]], what: str
) -> None:
    async def scenario(thread: Thread) -> None:
        jobs = [
            asyncio.create_task(thread.worker.run_together(job, n, shape=1, due=101.0, limit=2))
            for n in range(2)
        ]
        await settle()
        thread.let_go()
        for failed in await asyncio.gather(*jobs, return_exceptions=True):
            assert str(failed) == what
        assert await thread.worker.run(lambda: "goes on") == "goes on"

    with_thread(scenario)


def test_what_a_job_waited_and_took_is_told_on_the_event_loop() -> None:
    told: list[tuple[float, float, int]] = []

    def spent(waited_ms: float, ran_ms: float) -> None:
        told.append((waited_ms, ran_ms, threading.get_ident()))

    async def scenario(thread: Thread) -> None:
        job = asyncio.create_task(thread.worker.run(lambda: told.clear(), spent=spent))
        await settle()
        thread.clock.now += 0.25
        thread.let_go()
        await job
        ((waited_ms, ran_ms, where),) = told
        assert waited_ms == pytest.approx(250)
        assert ran_ms >= 0
        assert where == threading.get_ident()

    with_thread(scenario)


def test_waiting_and_lateness_are_measured() -> None:
    async def scenario(thread: Thread) -> None:
        jobs = [thread.job("in time", 101.0), thread.job("late", 100.1), thread.job("no matter")]
        await settle()
        thread.clock.now += 0.3
        thread.let_go()
        await asyncio.gather(*jobs)

    numbers = with_thread(scenario).worker.statistics()
    assert (numbers["deadline_misses"], numbers["threads"]) == (1, 1)
    assert numbers["late_ms"] == pytest.approx(200)
    assert numbers["waited_ms"] == pytest.approx(900)
    assert numbers["longest_wait_ms"] == pytest.approx(300)
    assert numbers["busy_seconds"] > 0


def test_loading_and_warming_are_no_work_of_requests() -> None:
    async def main() -> None:
        clock = Clock()
        worker = Worker("test", clock=clock)
        await worker.start(lambda: None)
        await until(lambda: not worker.statistics()["jobs"])
        fresh = worker.statistics()
        clock.now += 2 * FRESH_SECONDS
        await worker.warm(lambda: None)
        await until(lambda: not worker.statistics()["jobs"])
        assert worker.statistics() == {**fresh, "warmed": 1}
        assert (fresh["busy_seconds"], fresh["taken"]) == (0, 0)
        await worker.close()

    asyncio.run(main())


def test_closing_ends_jobs_that_wait_without_running_them() -> None:
    async def scenario(thread: Thread) -> None:
        waiting = thread.job("never", 101.0)
        await settle()
        closing = asyncio.create_task(thread.worker.close())
        with pytest.raises(StageFailure, match="stage_closed"):
            await waiting
        thread.let_go()
        await closing

    thread = with_thread(scenario)
    assert thread.ran == []
    assert thread.worker.statistics()["jobs"] == 0


def test_several_threads_serve_one_queue() -> None:
    async def main() -> None:
        worker = Worker("test", threads=2)
        await worker.start(lambda: None)
        # Each waits for the other: they run at once.
        meet = threading.Barrier(2, timeout=PATIENCE)
        await asyncio.gather(worker.run(meet.wait), worker.run(meet.wait))
        await worker.close()

    asyncio.run(main())
