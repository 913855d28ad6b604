"""The pacing of one reply, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from tests.support.loop import run_simulated

from antiphon.engines.deployment import Pacing
from antiphon.engines.flow import NEAR_DRY_SECONDS, START_MS, STUCK_SECONDS, Flow

T = TypeVar("T")
PACING = Pacing(lead_ms=1000, first_audio_ms=300)
CHUNK_MS = 100.0


def with_flow(
    scenario: Callable[[Flow], Awaitable[T]], *, read: bool = False, paced: bool = True
) -> T:
    async def main() -> T:
        async with asyncio.timeout(600):
            return await scenario(Flow(PACING, read=read, paced=paced))

    return run_simulated(main())


def now() -> float:
    return asyncio.get_running_loop().time()


async def make(flow: Flow, ms: float) -> None:
    """Make audio at once, as far as it is allowed, and then as it is."""
    made = 0.0
    while made < ms:
        await flow.wait_to_make()
        flow.made(CHUNK_MS)
        made += CHUNK_MS


async def speak(flow: Flow, clauses: int, ms: float) -> None:
    for _ in range(clauses):
        await flow.wait_to_speak()
        flow.spoke(ms)


async def held(work: Awaitable[None]) -> bool:
    """Whether it makes no end within a minute."""
    try:
        async with asyncio.timeout(60):
            await work
    except TimeoutError:
        return True
    return False


def test_the_first_audio_is_due_after_the_reply_begins() -> None:
    async def scenario(flow: Flow) -> None:
        assert flow.due == pytest.approx(0.3)
        await asyncio.sleep(5)
        flow.begin()
        assert flow.due == pytest.approx(5.3)
        flow.made(200)
        flow.begin()
        assert flow.due == pytest.approx(5.2), "it has begun"

    with_flow(scenario)


def test_audio_is_made_ahead_of_the_ear_by_the_lead_and_then_as_it_is_heard() -> None:
    async def scenario(flow: Flow) -> None:
        await make(flow, 1000)
        assert now() == 0
        await make(flow, 5000)
        assert flow.buffer_ms is not None
        assert 800 <= flow.buffer_ms <= 1000 + CHUNK_MS
        assert now() == pytest.approx(5.0, abs=0.2)

    with_flow(scenario)


def test_a_listener_who_stopped_gets_the_lead_and_no_more() -> None:
    async def scenario(flow: Flow) -> None:
        flow.made(CHUNK_MS)
        flow.played(50, 50)
        assert await held(make(flow, 10_000))
        assert flow.listener.made_ms == pytest.approx(1050, abs=CHUNK_MS)
        going_on = asyncio.create_task(make(flow, 500))
        await asyncio.sleep(1)
        assert not going_on.done()
        flow.played(50, 10_000)
        await going_on

    with_flow(scenario)


def test_what_is_spoken_and_not_made_counts_as_ahead() -> None:
    async def scenario(flow: Flow) -> None:
        assert await held(speak(flow, 10, 400))
        assert flow.undecoded_ms == 1200
        going_on = asyncio.create_task(speak(flow, 1, 400))
        await make(flow, 1200)
        await going_on
        # Only 200 ms of it were heard when there was room for more.
        assert now() < 60.7

    with_flow(scenario)


def test_what_is_not_read_is_not_heard() -> None:
    async def scenario(flow: Flow) -> None:
        assert await held(make(flow, 10_000))
        assert flow.listener.made_ms == 1000
        flow.took(500)
        assert await held(make(flow, 10_000))
        assert flow.listener.made_ms == 1500

    with_flow(scenario, read=True)


def test_nothing_is_spoken_ahead_of_a_reader_who_stopped() -> None:
    async def scenario(flow: Flow) -> None:
        assert await held(speak(flow, 10, 400))
        assert await held(make(flow, 1200))
        assert flow.listener.made_ms == 1000
        assert await held(speak(flow, 1, 400))
        flow.took(1000)
        await speak(flow, 1, 400)

    with_flow(scenario, read=True)


def test_a_reply_is_at_its_start_until_it_is_half_a_second_ahead() -> None:
    async def scenario(flow: Flow) -> None:
        assert flow.starting
        flow.made(START_MS - 1)
        assert flow.starting
        flow.made(1)
        assert not flow.starting

    with_flow(scenario)


def test_a_listener_is_pressed_where_he_runs_dry_and_work_waits() -> None:
    async def scenario(flow: Flow) -> None:
        flow.asked()
        assert not flow.pressed, "nothing was heard yet"
        flow.spoke(1000)
        flow.answered()
        flow.made(500)
        assert not flow.pressed
        await asyncio.sleep(0.5 - NEAR_DRY_SECONDS / 2)
        assert flow.pressed
        flow.made(500)
        assert not flow.pressed
        await asyncio.sleep(0.5)
        assert not flow.pressed, "nothing is left to make"
        flow.asked()
        assert flow.pressed
        flow.answered()
        assert not flow.pressed, "that clause has nothing to pronounce"

    with_flow(scenario)


def test_a_reply_rests_while_its_listener_has_enough_and_has_stopped() -> None:
    async def scenario(flow: Flow) -> None:
        await make(flow, 1000)
        assert not flow.resting, "it is being heard"
        flow.played(100, 100)
        assert not flow.resting, "there is room"
        flow.made(CHUNK_MS)
        assert flow.resting
        flow.played(100, 500)
        assert not flow.resting
        await asyncio.sleep(0.5)
        assert not flow.resting, "there is room again"

    with_flow(scenario)


def test_a_reply_rests_while_nobody_reads_it() -> None:
    async def scenario(flow: Flow) -> None:
        with flow.handing_over():
            assert not flow.resting
            await asyncio.sleep(STUCK_SECONDS + 0.1)
            assert flow.resting
            with flow.handing_over():
                assert flow.resting
            assert not flow.resting, "something was taken"
        await asyncio.sleep(STUCK_SECONDS + 0.1)
        assert not flow.resting, "nothing waits for the reader"
        await make(flow, 1000)
        assert flow.resting, "a lead lies unread"
        flow.took(100)
        assert not flow.resting

    with_flow(scenario, read=True)


def test_what_is_not_paced_is_only_held_back_by_its_reader() -> None:
    async def scenario(flow: Flow) -> None:
        await make(flow, 1000)
        assert now() == 0
        assert await held(flow.wait_to_make())
        assert await held(flow.wait_to_speak())
        since = now()
        for taken in range(10):
            flow.took(1000)
            await make(flow, 1000)
            # As if it was heard from the moment it was made: the further ahead, the later due.
            assert flow.due == pytest.approx(1 + since + taken)
        assert now() == since
        assert not flow.pressed

    with_flow(scenario, read=True, paced=False)
