"""Many together, or one alone."""

from __future__ import annotations

import asyncio

from antiphon.engines.jobs.turns import Turns


def test_who_is_suspect_works_alone_and_is_not_passed_over() -> None:
    async def main() -> None:
        turns, log = Turns(), list[str]()
        done = {name: asyncio.Event() for name in "abxyc"}

        async def work(name: str) -> None:
            async with turns.alone() if name in "xy" else turns.together():
                log.append(f"+{name}")
                await done[name].wait()
                log.append(f"-{name}")

        async def settle() -> None:
            for _ in range(20):
                await asyncio.sleep(0)

        tasks: dict[str, asyncio.Task[None]] = {}
        for name in "abxyc":
            tasks[name] = asyncio.create_task(work(name))
            await settle()
        assert log == ["+a", "+b"]
        # One that gives up waiting blocks none.
        tasks["y"].cancel()
        done["a"].set()
        await settle()
        assert log == ["+a", "+b", "-a"]
        for name in "bxc":
            done[name].set()
            await settle()
        assert log[3:] == ["-b", "+x", "-x", "+c", "-c"]
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    asyncio.run(main())
