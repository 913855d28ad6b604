"""The threads that read recordings: behind what is live, in turns, and never in its way."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from tests.support.waiting import until

import antiphon.engines.speech.readers as readers_module
import antiphon.engines.speech.worker as worker_module
from antiphon.engines.speech.readers import Place, Readers
from antiphon.engines.speech.worker import Worker
from antiphon.engines.stage import StageClosed

PATIENCE = 30


@dataclass
class Rig:
    """Live work and readers, with jobs that wait in their threads until they are let go."""

    live: Worker
    readers: Readers
    began: list[str] = field(default_factory=list[str])
    gates: dict[str, threading.Event] = field(default_factory=dict[str, threading.Event])

    def read(self, place: Place, name: str) -> asyncio.Task[str]:
        self.gates[name] = threading.Event()
        return asyncio.create_task(self.readers.run(place, self._job, name))

    def speak(self, name: str, *, partial: bool = False) -> asyncio.Task[str]:
        self.gates[name] = threading.Event()
        run = self.live.run_patiently if partial else self.live.run
        return asyncio.create_task(run(self._job, name))

    async def has_begun(self, *names: str) -> None:
        await until(lambda: self.began == list(names))

    async def end(self, *tasks: asyncio.Task[str]) -> None:
        """Let all jobs go, and wait for them."""
        for gate in self.gates.values():
            gate.set()
        await asyncio.gather(*tasks)

    def waiting(self) -> float:
        return self.readers.statistics()["stretches_waiting"]

    def _job(self, name: str) -> str:
        self.began.append(name)
        assert self.gates[name].wait(PATIENCE)
        return name


def with_rig(check: Callable[[Rig], Awaitable[None]], threads: int = 2) -> None:
    async def main() -> None:
        live = Worker("live")
        readers = Readers(live, threads)
        await live.start(lambda: None)
        await readers.start(lambda: None)
        rig = Rig(live, readers)
        try:
            async with asyncio.timeout(PATIENCE):
                await check(rig)
        finally:
            for gate in rig.gates.values():
                gate.set()
            await live.close()
            await readers.close()

    asyncio.run(main())


async def settle() -> None:
    """Let everything run that can run without a job's end."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_live_speech_begins_at_once_though_all_readers_are_busy() -> None:
    async def check(rig: Rig) -> None:
        place = rig.readers.enter()
        reading = [rig.read(place, name) for name in ("1", "2", "3")]
        await until(lambda: len(rig.began) == 2)
        live = rig.speak("live")
        await until(lambda: "live" in rig.began)
        assert not any(task.done() for task in reading)
        await rig.end(live, *reading)

    with_rig(check)


def test_a_stretch_waits_for_live_speech_and_for_looks_at_it() -> None:
    async def check(rig: Rig) -> None:
        live, partial = rig.speak("live"), rig.speak("partial", partial=True)
        await rig.has_begun("live")
        reading = rig.read(rig.readers.enter(), "stretch")
        await settle()
        rig.gates["live"].set()
        await live
        await rig.has_begun("live", "partial")
        await settle()
        assert rig.began == ["live", "partial"]
        rig.gates["partial"].set()
        await partial
        await rig.has_begun("live", "partial", "stretch")
        await rig.end(reading)

    with_rig(check)


def test_recordings_take_turns_and_one_that_comes_is_behind_those_who_wait() -> None:
    async def check(rig: Rig) -> None:
        a, b = rig.readers.enter(), rig.readers.enter()
        reading = [rig.read(a, name) for name in ("a1", "a2", "a3")]
        await rig.has_begun("a1")
        reading += [rig.read(b, name) for name in ("b1", "b2")]
        rig.gates["a1"].set()
        await rig.has_begun("a1", "b1")
        reading.append(rig.read(rig.readers.enter(), "c1"))
        await settle()
        await rig.end(*reading)
        assert rig.began == ["a1", "b1", "a2", "b2", "c1", "a3"]

    with_rig(check, threads=1)


def test_a_recording_with_nothing_under_way_goes_ahead_of_one_that_has() -> None:
    async def check(rig: Rig) -> None:
        a, b = rig.readers.enter(), rig.readers.enter()
        reading = [rig.read(a, name) for name in ("a1", "a2", "a3", "a4")]
        await until(lambda: len(rig.began) == 2)
        reading.append(rig.read(b, "b1"))
        await settle()
        rig.gates["a1"].set()
        await until(lambda: len(rig.began) == 3)
        assert rig.began[2] == "b1"
        rig.gates["b1"].set()
        # Nothing of the other waits: one may have all threads.
        await until(lambda: len(rig.began) == 4)
        assert rig.began[3] == "a3"
        await rig.end(*reading)

    with_rig(check)


def test_what_is_cancelled_ahead_of_its_turn_never_runs() -> None:
    async def check(rig: Rig) -> None:
        a, b = rig.readers.enter(), rig.readers.enter()
        busy, waiting, other = rig.read(a, "busy"), rig.read(a, "waiting"), rig.read(b, "other")
        await rig.has_begun("busy")
        waiting.cancel()
        await asyncio.wait([waiting])
        assert rig.waiting() == 1
        await rig.end(busy, other)
        assert rig.began == ["busy", "other"]

    with_rig(check, threads=1)


def test_what_is_cancelled_while_live_speech_runs_gives_its_turn_to_the_next() -> None:
    async def check(rig: Rig) -> None:
        live = rig.speak("live")
        await rig.has_begun("live")
        gone, next_one = (
            rig.read(rig.readers.enter(), "gone"),
            rig.read(rig.readers.enter(), "next"),
        )
        await settle()
        # It has its turn, and waits for the live one.
        assert rig.waiting() == 1
        gone.cancel()
        await asyncio.wait([gone])
        await settle()
        assert rig.waiting() == 0
        await rig.end(live, next_one)
        assert rig.began == ["live", "next"]

    with_rig(check, threads=1)


def test_a_turn_that_is_given_and_cancelled_in_one_moment_is_not_lost() -> None:
    async def check(rig: Rig) -> None:
        place = rig.readers.enter()
        first, second = rig.read(place, "first"), rig.read(place, "second")
        await rig.has_begun("first")
        assert rig.waiting() == 1
        rig.gates["first"].set()
        # The turn was given to it, and it has not noticed.
        await until(lambda: not rig.waiting())
        second.cancel()
        await asyncio.wait([second])
        await rig.end(first, rig.read(place, "third"))
        assert rig.began == ["first", "third"]

    with_rig(check, threads=1)


def test_a_thread_whose_stretch_nobody_wants_is_not_free_until_it_is_done() -> None:
    async def check(rig: Rig) -> None:
        place = rig.readers.enter()
        given_up, following = rig.read(place, "given up"), rig.read(place, "following")
        await rig.has_begun("given up")
        given_up.cancel()
        # It ends at once.
        await asyncio.wait([given_up])
        await settle()
        assert rig.readers.statistics() == {"stretches_running": 1, "stretches_waiting": 1}
        await rig.end(following)
        assert rig.began == ["given up", "following"]

    with_rig(check, threads=1)


def test_a_job_that_fails_fails_for_its_caller_alone() -> None:
    def fail() -> None:
        raise ValueError("no")

    async def check(rig: Rig) -> None:
        place = rig.readers.enter()
        with pytest.raises(ValueError, match="no"):
            await rig.readers.run(place, fail)
        await rig.end(rig.read(place, "next"))

    with_rig(check, threads=1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")
def test_what_a_model_starts_has_a_lower_priority_than_who_calls_it() -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def main() -> None:
        live = Worker("live")
        readers = Readers(live, 1)
        before = niceness()
        try:
            assert await readers.start(niceness) == readers_module.NICENESS
            assert await live.start(niceness) == worker_module.NICENESS
            calling = await readers.run(readers.enter(), niceness)
        finally:
            await live.close()
            await readers.close()
        assert calling == worker_module.NICENESS < readers_module.NICENESS
        assert niceness() == before

    asyncio.run(main())


def test_readers_that_are_closed_refuse_and_end_what_runs() -> None:
    async def check(rig: Rig) -> None:
        place = rig.readers.enter()
        busy = rig.read(place, "busy")
        await rig.has_begun("busy")
        closing = asyncio.create_task(rig.readers.close())
        await settle()
        with pytest.raises(StageClosed):
            await rig.readers.run(place, int)
        await rig.end(busy)
        await closing

    with_rig(check)
