import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
from tests.support.waiting import until

from antiphon.engines.chunks import End, EndReason, StageError
from antiphon.engines.speech.worker import PATIENT_BOUND, Worker
from antiphon.engines.stage import FRESH_SECONDS, StageClosed, StageFailure
from antiphon.engines.streams import Inbox, TaskStream

PATIENCE = 10


class Gate:
    """A job that waits in the thread until it is let go, and notes what ran."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.ran: list[str] = []
        self._handed_in = asyncio.Semaphore(0)

    def open(self, worker: Worker, name: str) -> TaskStream[str, str]:
        """A stream that runs the job for each chunk."""

        async def work(inbox: Inbox[str]) -> AsyncGenerator[str | End, None]:
            async for chunk in inbox:
                # Released first: whoever waits goes on when this task next waits itself.
                self._handed_in.release()
                yield await worker.run(self._job, name + chunk)

        return worker.open(name, work, input_bound=4)

    async def handed_in(self, jobs: int) -> None:
        """Return when so many more jobs run or wait."""
        async with asyncio.timeout(PATIENCE):
            for _ in range(jobs):
                await self._handed_in.acquire()

    def _job(self, name: str) -> str:
        self.ran.append(name)
        assert self.free.wait(PATIENCE)
        return name


async def outcome(stream: TaskStream[str, str]) -> tuple[list[str], End]:
    async with asyncio.timeout(PATIENCE):
        items = [item async for item in stream]
    end = items.pop()
    assert isinstance(end, End)
    return [item for item in items if isinstance(item, str)], end


def test_streams_take_turns() -> None:
    async def main() -> list[str]:
        worker, gate = Worker("test"), Gate()
        await worker.start(lambda: None)
        streams = [gate.open(worker, name) for name in "ab"]
        for stream in streams:
            for number in "123":
                await stream.send(number)
            await stream.end()
        await gate.handed_in(2)
        gate.free.set()
        for stream in streams:
            await outcome(stream)
        await worker.close()
        return gate.ran

    assert asyncio.run(main()) == ["a1", "b1", "a2", "b2", "a3", "b3"]


def test_a_waiting_job_of_a_cancelled_stream_never_runs() -> None:
    async def main() -> None:
        worker, gate = Worker("test"), Gate()
        await worker.start(lambda: None)
        busy, waiting = gate.open(worker, "busy"), gate.open(worker, "waiting")
        for stream in (busy, waiting):
            await stream.send("")
            await stream.end()
        await gate.handed_in(2)
        waiting.cancel()
        assert await outcome(waiting) == ([], End(EndReason.CANCELLED))
        gate.free.set()
        assert (await outcome(busy))[0] == ["busy"]
        await worker.close()
        assert gate.ran == ["busy"]
        assert worker.statistics()["streams_cancelled"] == 1

    asyncio.run(main())


def test_closing_ends_every_stream_with_an_error_to_retry() -> None:
    async def main() -> None:
        worker, gate = Worker("test"), Gate()
        await worker.start(lambda: None)
        streams = [gate.open(worker, name) for name in "ab"]
        for stream in streams:
            await stream.send("")
        await gate.handed_in(2)
        closing = asyncio.create_task(worker.close())
        for stream in streams:
            _, end = await outcome(stream)
            assert end.reason is EndReason.FAILED
            assert end.error is not None
            assert (end.error.code, end.error.retry_after_ms) == ("stage_closed", 1000)
        gate.free.set()
        await asyncio.wait_for(closing, PATIENCE)
        await worker.close()
        assert worker.statistics()["streams"] == 0
        with pytest.raises(StageClosed):
            gate.open(worker, "late")
        with pytest.raises(StageClosed):
            await worker.run(lambda: None)

    asyncio.run(main())


def test_a_worker_that_could_not_load_is_closed() -> None:
    def load() -> None:
        raise StageFailure(StageError("model_missing", "none"))

    async def main() -> None:
        worker = Worker("test")
        with pytest.raises(StageFailure, match="model_missing"):
            await worker.start(load)
        with pytest.raises(StageClosed):
            await worker.run(lambda: None)

    asyncio.run(main())


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def settle() -> None:
    """Let everything run that can run without a job's end."""
    for _ in range(10):
        await asyncio.sleep(0)


async def finished(worker: Worker) -> None:
    """Return when no job runs or waits."""
    await until(lambda: not worker.statistics()["jobs"])


class Jobs:
    """Jobs that wait in their thread until they are let go, and note when they begin."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.free = threading.Event()
        self.ran: list[str] = []

    def start(self, name: str, *, patient: bool = False) -> asyncio.Task[str]:
        run = self.worker.run_patiently if patient else self.worker.run
        return asyncio.create_task(run(self._job, name))

    def _job(self, name: str) -> str:
        self.ran.append(name)
        assert self.free.wait(PATIENCE)
        return name


def with_jobs(check: Callable[[Jobs], Awaitable[None]], threads: int = 1) -> None:
    async def main() -> None:
        worker = Worker("test", threads)
        await worker.start(lambda: None)
        jobs = Jobs(worker)
        try:
            async with asyncio.timeout(PATIENCE):
                await check(jobs)
        finally:
            jobs.free.set()
            await worker.close()

    asyncio.run(main())


def test_patient_jobs_let_all_others_pass_and_keep_their_order() -> None:
    async def check(jobs: Jobs) -> None:
        started = [
            jobs.start(name, patient=name.startswith("p")) for name in ("a", "p1", "p2", "b", "c")
        ]
        await settle()
        jobs.free.set()
        await asyncio.gather(*started)
        assert jobs.ran == ["a", "b", "c", "p1", "p2"]

    with_jobs(check)


def test_a_patient_job_that_is_cancelled_while_it_waits_never_runs() -> None:
    async def check(jobs: Jobs) -> None:
        busy, waiting = jobs.start("busy"), jobs.start("p", patient=True)
        await settle()
        waiting.cancel()
        await asyncio.wait([waiting])
        jobs.free.set()
        await busy
        assert await jobs.start("next", patient=True) == "next"
        assert jobs.ran == ["busy", "next"]

    with_jobs(check)


def test_a_job_that_nobody_waits_for_still_keeps_patient_ones_back() -> None:
    async def check(jobs: Jobs) -> None:
        given_up = jobs.start("given up")
        await settle()
        await until(lambda: bool(jobs.ran))
        given_up.cancel()
        await asyncio.wait([given_up])
        patient, urgent = jobs.start("p", patient=True), jobs.start("urgent")
        await settle()
        jobs.free.set()
        await asyncio.gather(patient, urgent)
        assert jobs.ran == ["given up", "urgent", "p"]

    with_jobs(check)


def test_of_several_threads_one_is_kept_free_of_patient_jobs() -> None:
    async def check(jobs: Jobs) -> None:
        patient = [jobs.start(f"p{number}", patient=True) for number in range(5)]
        await settle()
        assert jobs.worker.statistics()["jobs"] == 2
        urgent = jobs.start("urgent")
        await until(lambda: "urgent" in jobs.ran)
        jobs.free.set()
        await asyncio.gather(urgent, *patient)

    with_jobs(check, threads=3)


def test_it_rests_once_no_job_runs_and_none_waits_however_patient() -> None:
    async def check(jobs: Jobs) -> None:
        await jobs.worker.rest()
        started = [jobs.start("a"), jobs.start("p", patient=True)]
        await settle()
        resting = asyncio.create_task(jobs.worker.rest())
        resting.add_done_callback(lambda _: jobs.ran.append("rest"))
        given_up = asyncio.create_task(jobs.worker.rest())
        await settle()
        given_up.cancel()
        jobs.free.set()
        await asyncio.gather(*started)
        await resting
        assert jobs.ran == ["a", "p", "rest"]

    with_jobs(check)


def test_too_many_patient_jobs_are_refused() -> None:
    async def check(jobs: Jobs) -> None:
        started = [jobs.start("busy")]
        await settle()
        started += [jobs.start("p", patient=True) for _ in range(PATIENT_BOUND)]
        await settle()
        with pytest.raises(StageFailure, match="too much to do") as failure:
            await jobs.start("one more", patient=True)
        assert failure.value.error.retry_after_ms == 1000
        jobs.free.set()
        await asyncio.gather(*started)
        assert len(jobs.ran) == 1 + PATIENT_BOUND

    with_jobs(check)


def test_a_patient_job_of_a_closed_worker_is_refused() -> None:
    async def main() -> None:
        worker = Worker("test")
        with pytest.raises(StageClosed):
            await worker.run_patiently(lambda: None)

    asyncio.run(main())


def test_a_model_is_warmed_when_it_has_rested_and_only_then() -> None:
    async def main() -> None:
        clock, warmed = Clock(), list[float]()
        worker = Worker("test", clock=clock)

        async def warm() -> None:
            await worker.warm(lambda: warmed.append(clock.now))
            await finished(worker)

        await worker.start(lambda: None)
        await finished(worker)
        await warm()
        assert warmed == [], "it was loaded a moment ago"
        clock.now += FRESH_SECONDS + 0.01
        await warm()
        assert warmed == [clock.now]
        clock.now += FRESH_SECONDS - 0.01
        await warm()
        assert len(warmed) == 1, "it was warmed a moment ago"
        await worker.run(lambda: None)
        await finished(worker)
        clock.now += FRESH_SECONDS - 0.01
        await warm()
        assert len(warmed) == 1, "it was used a moment ago"
        await worker.close()

    asyncio.run(main())


def test_a_model_in_use_is_not_warmed() -> None:
    async def main() -> None:
        clock, free, warmed = Clock(), threading.Event(), list[int]()
        worker = Worker("test", clock=clock)
        await worker.start(lambda: None)
        await finished(worker)
        clock.now += 10
        using = asyncio.create_task(worker.run(free.wait, PATIENCE))
        await settle()
        await worker.warm(lambda: warmed.append(1))
        free.set()
        await using
        await worker.close()
        assert warmed == []

    asyncio.run(main())


def test_a_closed_worker_is_never_warmed() -> None:
    async def main() -> None:
        clock, warmed = Clock(), list[int]()
        worker = Worker("test", clock=clock)
        await worker.warm(lambda: warmed.append(1))
        await worker.start(lambda: None)
        await worker.close()
        clock.now += 10
        await worker.warm(lambda: warmed.append(1))
        assert warmed == []

    asyncio.run(main())
