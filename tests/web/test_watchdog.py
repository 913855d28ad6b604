"""The watchdog notices a loop that was kept busy."""

from __future__ import annotations

import asyncio
import time

from antiphon.web.watchdog import STALL_SECONDS, Watchdog


async def _wait_for_beats(watchdog: Watchdog, count: int) -> None:
    async with asyncio.timeout(10):
        while watchdog.statistics().beats < count:  # noqa: ASYNC110 - beats set no event
            await asyncio.sleep(0)


def test_a_blocked_loop_is_noticed_and_can_be_forgotten() -> None:
    async def main() -> None:
        watchdog = Watchdog()
        watchdog.start()
        await _wait_for_beats(watchdog, 1)
        before = watchdog.statistics().beats
        time.sleep(5 * STALL_SECONDS)  # noqa: ASYNC251 - the very thing to be noticed
        await _wait_for_beats(watchdog, before + 1)
        seen = watchdog.statistics()
        assert seen.stalls >= 1
        assert seen.worst_ms >= 4 * STALL_SECONDS * 1000
        watchdog.reset()
        assert watchdog.statistics().stalls == 0
        await watchdog.stop()

    asyncio.run(main())


def test_stopping_a_watchdog_that_never_started_is_harmless() -> None:
    asyncio.run(Watchdog().stop())
