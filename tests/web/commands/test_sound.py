"""Playing at the speed of the ear, and how much of it was heard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.devices import BYTES_PER_MS, FakeLoudspeaker
from tests.support.loop import run_simulated

from antiphon.web.commands.sound import (
    AHEAD_MS,
    LOOK_SECONDS,
    STALLED_SECONDS,
    Meter,
    SoundError,
    play,
    play_out,
)


def test_nothing_is_handed_over_further_ahead_than_that() -> None:
    async def main() -> None:
        now = asyncio.get_running_loop().time
        speaker = FakeLoudspeaker()
        for number in range(1, 11):
            await play(speaker, bytes(500 * BYTES_PER_MS))
            assert speaker.left_ms() <= AHEAD_MS
            assert now() == pytest.approx(max(0, number * 0.5 - AHEAD_MS / 1000), abs=0.1)
        await play_out(speaker)
        assert speaker.left_ms() == 0
        assert now() == pytest.approx(5, abs=2 * LOOK_SECONDS)

    run_simulated(main())


def test_a_loudspeaker_that_stands_still_is_given_up() -> None:
    async def main() -> None:
        speaker = FakeLoudspeaker()
        speaker.broken = True
        with pytest.raises(SoundError, match="--output"):
            await play(speaker, bytes(2000 * BYTES_PER_MS))
        assert asyncio.get_running_loop().time() == pytest.approx(STALLED_SECONDS, abs=0.1)

    run_simulated(main())


def test_what_was_handed_over_is_heard_a_latency_later() -> None:
    meter = Meter()
    meter.hand(20, 10.1)
    meter.hand(0, 10.1)
    meter.hand(20, 10.12)
    assert meter.handed_ms == 40
    heard = [meter.sounded_ms(now) for now in (10.0, 10.1, 10.11, 10.13, 10.2)]
    assert heard == pytest.approx([0, 0, 10, 30, 40])


def test_a_gap_is_no_sound() -> None:
    meter = Meter()
    meter.hand(20, 1.0)
    meter.hand(20, 2.0)
    assert [meter.sounded_ms(now) for now in (1.5, 2.01)] == pytest.approx([20, 30])


def test_what_is_forgotten_is_not_heard() -> None:
    meter = Meter()
    meter.hand(100, 1.0)
    meter.restart(meter.sounded_ms(1.03))
    assert meter.sounded_ms(5.0) == pytest.approx(30)
    meter.hand(20, 6.0)
    assert meter.sounded_ms(6.01) == pytest.approx(40)


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0.001, 0.5)), max_size=200))
def test_it_never_goes_back_nor_beyond_what_was_handed(blocks: Sequence[tuple[int, float]]) -> None:
    meter, now, before = Meter(), 0.0, 0.0
    for ms, pause in blocks:
        meter.hand(ms, now + 0.08)
        now += pause
        heard = meter.sounded_ms(now)
        assert before <= heard <= meter.handed_ms
        before = heard
