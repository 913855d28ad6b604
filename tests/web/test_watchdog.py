"""The watchdog notices a loop that was kept busy."""

from __future__ import annotations

import asyncio
import time

import pytest

from antiphon.web.watchdog import STALL_SECONDS, Watchdog


class Clock:
    """A loop that comes back late by given times."""

    def __init__(self, late: list[float]) -> None:
        self._late = list(late)
        self._now = 0.0

    def time(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if not self._late:
            raise StopAsyncIteration
        self._now += seconds + self._late.pop()


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
        assert 0 <= seen.p50_ms <= seen.p99_ms <= seen.worst_ms
        watchdog.reset()
        assert watchdog.statistics().stalls == 0
        await watchdog.stop()

    asyncio.run(main())


def test_stopping_a_watchdog_that_never_started_is_harmless() -> None:
    asyncio.run(Watchdog().stop())


def test_percentiles_are_those_of_the_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    watchdog = Watchdog(told.append)
    late = [0.001] * 98 + [0.050] * 2

    async def main() -> None:
        clock = Clock(late)
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
        monkeypatch.setattr(asyncio, "sleep", clock.sleep)
        with pytest.raises(StopAsyncIteration):
            await watchdog.watch()

    asyncio.run(main())
    seen = watchdog.statistics()
    assert (seen.beats, seen.stalls) == (100, 2)
    assert told == pytest.approx([0.050] * 2 + [0.001] * 98)
    assert seen.p50_ms == pytest.approx(1, rel=0.1)
    assert seen.p99_ms == pytest.approx(50, rel=0.1)
    assert seen.worst_ms == pytest.approx(50)
    watchdog.reset()
    assert watchdog.statistics().p99_ms == 0
