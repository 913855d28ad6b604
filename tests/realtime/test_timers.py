"""A timer that is moved often: it goes off when it should, and costs the loop little."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.loop import run_simulated

from antiphon.realtime.timers import LazyTimer


@pytest.mark.parametrize(
    ("sets", "fired"),
    [
        ([1.0], [1.0]),
        ([1.0, 5.0], [5.0]),
        ([5.0, 1.0], [1.0]),
        ([1.0, None], []),
        ([1.0, None, 3.0], [3.0]),
        ([0.0], [0.0]),
        ([], []),
    ],
)
def test_the_last_instant_counts(sets: list[float | None], fired: list[float]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen: list[tuple[float, float]] = []
        timer = LazyTimer(loop, lambda at: seen.append((at, loop.time())))
        for at in sets:
            timer.set(at)
        await asyncio.sleep(10)
        assert seen == [(at, at) for at in fired]
        timer.close()

    run_simulated(main())


def test_what_it_calls_may_set_it_again() -> None:
    async def main() -> None:
        seen: list[float] = []

        def tick(at: float) -> None:
            seen.append(at)
            timer.set(at + 1)

        timer = LazyTimer(asyncio.get_running_loop(), tick)
        timer.set(1.0)
        await asyncio.sleep(3.5)
        timer.close()
        await asyncio.sleep(5)
        assert seen == [1.0, 2.0, 3.0]

    run_simulated(main())


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 5) | st.none()), max_size=12))
@example([(0.0, 1.0), (2.0**-52, 1.0)])
@settings(deadline=None)
def test_it_does_what_a_timer_that_is_armed_anew_does(
    moves: list[tuple[float, float | None]],
) -> None:
    """Each move is a pause, and what to set then, counted from that instant."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen: list[float] = []
        expected: list[float] = []
        timer = LazyTimer(loop, lambda _at: seen.append(loop.time()))
        plain: asyncio.TimerHandle | None = None
        for pause, ahead in moves:
            await asyncio.sleep(pause)
            at = None if ahead is None else loop.time() + ahead
            timer.set(at)
            if plain is not None:
                plain.cancel()
            plain = None if at is None else loop.call_at(at, lambda: expected.append(loop.time()))
        await asyncio.sleep(10)
        timer.close()
        # The loop may run a timer up to one tick of its clock early.
        assert seen == pytest.approx(expected)

    run_simulated(main())
