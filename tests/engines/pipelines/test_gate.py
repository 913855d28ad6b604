"""Where replies wait for their turn to be spoken, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.support.loop import run_simulated

from antiphon.engines.deployment import Pacing
from antiphon.engines.flow import START_MS, Flow
from antiphon.engines.pipelines.gate import LOOK_SECONDS, Gate, Place
from antiphon.engines.stage import StageFailure


class House:
    """A gate, and the counters of the stages behind it."""

    def __init__(self, pacing: Pacing) -> None:
        self.counters: dict[str, dict[str, float]] = {}
        self.gate = Gate(pacing, lambda: self.counters)
        self.entered: list[str] = []

    def measured(self, share: float, threads: float = 1, audio_seconds: float = 3600) -> None:
        """Let code2wav have measured what a second of audio takes."""
        self.counters["code2wav"] = {
            "busy_seconds": share * audio_seconds,
            "audio_seconds": audio_seconds,
            "threads": threads,
        }

    def enter(self, name: str, flow: Flow | None = None) -> tuple[Place, asyncio.Task[None]]:
        place = self.gate.place()

        async def wait() -> None:
            await place.enter(flow or under_way())
            self.entered.append(name)

        return place, asyncio.get_running_loop().create_task(wait())


def under_way() -> Flow:
    """The flow of a reply that is no longer at its start."""
    flow = Flow()
    flow.made(START_MS)
    return flow


def with_house(
    scenario: Callable[[House], Awaitable[None]],
    *,
    waiting: int = 10,
    wait_seconds: int = 5,
) -> None:
    async def main() -> None:
        house = House(Pacing(load=0.9, waiting=waiting, wait_seconds=wait_seconds))
        async with asyncio.timeout(60):
            await scenario(house)

    run_simulated(main())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_stages_that_measure_nothing_are_free() -> None:
    async def scenario(house: House) -> None:
        house.counters["talker"] = {"requests": 7}
        for number in range(50):
            house.enter(str(number))
        await settle()
        assert len(house.entered) == 50
        assert house.gate.statistics()["share"] == 0

    with_house(scenario)


def test_who_waits_enters_as_soon_as_a_place_is_left() -> None:
    async def scenario(house: House) -> None:
        house.measured(0.4)
        places = [house.enter(name)[0] for name in "abcd"]
        await settle()
        assert house.entered == ["a", "b"]
        places[1].leave()
        places[1].leave()
        await settle()
        assert house.entered == ["a", "b", "c"]
        with places[0]:
            pass
        await settle()
        assert house.entered == ["a", "b", "c", "d"]
        numbers = house.gate.statistics()
        assert (numbers["spoken"], numbers["waiting"], numbers["delayed"]) == (2, 0, 2)

    with_house(scenario)


@pytest.mark.parametrize(("threads", "room"), [(1, 2), (3, 6)])
def test_threads_share_the_work(threads: int, room: int) -> None:
    async def scenario(house: House) -> None:
        house.measured(0.4, threads)
        for name in "abcdefgh":
            house.enter(name)
        await settle()
        assert len(house.entered) == room
        assert house.gate.statistics()["share"] == pytest.approx(0.4 / threads)

    with_house(scenario)


def test_the_busiest_stage_counts() -> None:
    async def scenario(house: House) -> None:
        house.measured(0.1)
        house.counters["talker"] = {"busy_seconds": 900.0, "audio_seconds": 3600.0}
        assert house.gate.statistics()["share"] == pytest.approx(0.25)

    with_house(scenario)


def test_it_is_looked_again_while_replies_wait() -> None:
    async def scenario(house: House) -> None:
        house.measured(0.8)
        house.enter("a")
        house.enter("b")
        await settle()
        assert house.entered == ["a"]
        house.measured(0.5, audio_seconds=7200)
        await asyncio.sleep(1.5 * LOOK_SECONDS)
        assert house.entered == ["a", "b"]

    with_house(scenario)


def test_replies_at_their_start_keep_others_out_for_a_while() -> None:
    async def scenario(house: House) -> None:
        house.measured(0.3)
        flow = Flow()
        house.enter("a", flow)
        house.enter("b")
        await asyncio.sleep(1.0)
        assert house.entered == ["a"]
        flow.made(START_MS)
        await asyncio.sleep(1.5 * LOOK_SECONDS)
        assert house.entered == ["a", "b"]

    with_house(scenario)


def test_a_listener_about_to_run_dry_keeps_others_out() -> None:
    async def scenario(house: House) -> None:
        house.measured(0.01)
        flow = Flow()
        house.enter("a", flow)
        await settle()
        flow.made(60)
        flow.asked()
        house.enter("b")
        await asyncio.sleep(1.0)
        assert house.entered == ["a"]
        flow.made(500)
        await asyncio.sleep(1.5 * LOOK_SECONDS)
        assert house.entered == ["a", "b"]

    with_house(scenario)


def test_a_listener_who_stopped_keeps_nobody_out() -> None:
    async def scenario(house: House) -> None:
        house.measured(0.8)
        flow = Flow()
        house.enter("a", flow)
        await settle()
        flow.made(6000)
        house.enter("b")
        await asyncio.sleep(1.0)
        assert house.entered == ["a"]
        flow.played(1000, 1000)
        await asyncio.sleep(1.5 * LOOK_SECONDS)
        assert house.entered == ["a", "b"]

    with_house(scenario)


def test_too_many_that_wait_are_turned_away_at_once() -> None:
    async def scenario(house: House) -> None:
        house.measured(0.8)
        tasks = [house.enter(name)[1] for name in "abcd"]
        await settle()
        with pytest.raises(StageFailure, match="overloaded: too many replies wait") as failure:
            await tasks[3]
        assert failure.value.error.retry_after_ms
        assert not tasks[2].done()
        tasks[1].cancel()
        tasks[2].cancel()
        await asyncio.wait(tasks)

    with_house(scenario, waiting=2)


def test_who_waits_too_long_is_turned_away() -> None:
    async def scenario(house: House) -> None:
        house.measured(0.8)
        house.enter("a")
        place, waiting = house.enter("b")
        now = asyncio.get_running_loop().time
        with pytest.raises(StageFailure, match="overloaded: the reply waited too long"):
            await waiting
        assert 5 <= now() <= 5 + LOOK_SECONDS
        place.leave()
        assert house.gate.statistics()["refused"] == 1
        assert house.gate.statistics()["spoken"] == 1

    with_house(scenario)


def test_who_gives_up_waiting_leaves_its_place_to_the_next() -> None:
    async def scenario(house: House) -> None:
        house.measured(0.8)
        first, _ = house.enter("a")
        second, waiting = house.enter("b")
        house.enter("c")
        await settle()
        waiting.cancel()
        await asyncio.wait([waiting])
        second.leave()
        first.leave()
        await settle()
        assert house.entered == ["a", "c"]
        assert house.gate.statistics()["waiting"] == 0

    with_house(scenario)


def test_a_place_that_was_never_asked_for_can_be_left() -> None:
    async def scenario(house: House) -> None:
        house.gate.place().leave()
        assert house.gate.statistics()["spoken"] == 0

    with_house(scenario)
