"""Jobs under way at once, their results in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from tests.support.loop import run_simulated

from antiphon.engines.speech.ahead import Ahead


async def count_up(steps: int, asked: list[int]) -> AsyncGenerator[int, None]:
    for step in range(steps):
        asked.append(step)
        yield step


async def collect(
    seconds: list[float], room: int, asked: list[int], begun: list[int]
) -> tuple[list[int], float]:
    async def job(step: int) -> int:
        begun.append(step)
        await asyncio.sleep(seconds[step])
        return step

    ahead = Ahead[int, int](lambda: room)
    async with aclosing(ahead.run(count_up(len(seconds), asked), job)) as made:
        done = [step async for step in made]
    return done, asyncio.get_running_loop().time()


async def drain(steps: AsyncGenerator[int, None], made: list[int]) -> None:
    async for step in steps:
        made += [step]


@pytest.mark.parametrize(("room", "took"), [(1, 8.0), (2, 5.0), (8, 3.0)])
def test_results_come_in_order_and_so_many_are_made_at_once(room: int, took: float) -> None:
    done, seconds = run_simulated(collect([3.0, 1.0, 2.0, 2.0], room, [], []))
    assert done == [0, 1, 2, 3]
    assert seconds == pytest.approx(took)


def test_no_step_is_asked_for_beyond_the_room() -> None:
    async def main() -> None:
        asked, begun = list[int](), list[int]()
        task = asyncio.ensure_future(collect([9.0] * 5, 2, asked, begun))
        await asyncio.sleep(1)
        assert (asked, begun) == ([0, 1], [0, 1])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_simulated(main())


def test_what_was_begun_before_a_failure_is_handed_over_first() -> None:
    async def main() -> list[int]:
        async def job(step: int) -> int:
            await asyncio.sleep(1 if step else 3)
            if step:
                raise ValueError("broken")
            return step

        made: list[int] = []
        with pytest.raises(ValueError, match="broken"):
            await drain(Ahead[int, int](lambda: 2).run(count_up(5, []), job), made)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return made

    assert run_simulated(main()) == [0]


def test_a_failure_of_the_steps_is_told_last() -> None:
    async def broken() -> AsyncGenerator[int, None]:
        yield 0
        raise ValueError("no more")

    async def main() -> list[int]:
        async def job(step: int) -> int:
            await asyncio.sleep(1)
            return step

        made: list[int] = []
        with pytest.raises(ValueError, match="no more"):
            await drain(Ahead[int, int](lambda: 3).run(broken(), job), made)
        return made

    assert run_simulated(main()) == [0]
