import asyncio
import threading
from collections.abc import AsyncGenerator

import pytest

from antiphon.engines.chunks import End, EndReason, StageError
from antiphon.engines.speech.worker import Worker
from antiphon.engines.stage import StageClosed, StageFailure
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
