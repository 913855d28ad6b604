import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.scheduling.listener import LONGEST_WAY_MS, REPORT_GRACE_MS, Listener


def listener(lead_ms: float = 4000.0) -> Listener:
    return Listener(lead_ms=lead_ms, first_due=0.3)


def test_the_first_audio_is_due_when_it_should_be_there() -> None:
    assert listener().due(0.1) == 0.3
    assert listener().buffer_ms(0.1) == 0


def test_what_is_made_is_heard_as_it_is_made_until_something_is_told() -> None:
    ear = listener()
    ear.made(500, 1.0)
    assert ear.due(1.0) == pytest.approx(1.5)
    assert ear.buffer_ms(1.2) == pytest.approx(300)
    assert ear.played_ms(1.2) == pytest.approx(200)
    ear.made(500, 1.2)
    assert ear.buffer_ms(1.2) == pytest.approx(800)
    assert ear.due(1.2) == pytest.approx(2.0)
    assert ear.played_ms(9.0) == 1000
    assert ear.buffer_ms(9.0) == 0


def test_audio_after_the_listener_ran_dry_is_a_miss_and_delays_the_rest() -> None:
    ear = listener()
    ear.made(100, 1.0)
    ear.made(100, 1.25)
    assert ear.misses == 1
    assert ear.late_ms == pytest.approx(150)
    assert ear.due(1.25) == pytest.approx(1.35)
    ear.made(100, 1.3)
    assert ear.misses == 1


def reported(ear: Listener, played_ms: float, now: float, *, ahead_ms: float = 1e9) -> None:
    ear.played(played_ms, min(ear.made_ms, played_ms + ahead_ms), now)


def test_the_way_to_the_ear_is_not_time_to_make_more() -> None:
    # 40 ms there and back: reports are of a playback that began late, and old.
    ear = listener()
    ear.made(1000, 1.0)
    for at in (1.04, 1.24, 1.44):
        reported(ear, (at - 1.04) * 1000, at)
    assert ear.due(1.44) == pytest.approx(2.0)
    assert ear.buffer_ms(1.44) == pytest.approx(560)


def test_a_listener_who_stands_still_needs_nothing_meanwhile() -> None:
    ear = listener()
    ear.made(1000, 1.0)
    reported(ear, 100, 1.14)
    reported(ear, 100, 2.14)
    assert ear.buffer_ms(2.14) == pytest.approx(1000 - 100 - 40)
    assert ear.due(2.14) == pytest.approx(2.14 + 0.86)


def test_a_pause_from_the_start_is_not_taken_for_a_long_way() -> None:
    ear = listener()
    ear.made(4000, 1.0)
    ear.played(0, 0, 4.0)
    assert ear.buffer_ms(4.0) == pytest.approx(4000 - LONGEST_WAY_MS)


def test_playback_goes_on_past_what_an_old_report_knew_of_but_not_for_long() -> None:
    ear = listener()
    ear.made(200, 1.0)
    ear.played(0, 200, 1.0)
    ear.made(5000, 1.1)
    assert ear.buffer_ms(1.5) == pytest.approx(4700)
    assert ear.buffer_ms(60.0) == pytest.approx(5200 - 200 - REPORT_GRACE_MS)
    assert ear.due(60.0) == pytest.approx(60 + 4.5)


def test_a_gap_that_only_the_client_heard_is_learned_from_its_report() -> None:
    ear = listener()
    ear.made(1000, 1.0)
    reported(ear, 180, 1.2)
    # Half a second in which nothing reached it.
    reported(ear, 280, 1.8)
    assert ear.buffer_ms(1.8) == pytest.approx(1000 - 280 - 20)


def test_reports_never_take_back_what_was_told() -> None:
    ear = listener()
    ear.made(1000, 1.0)
    reported(ear, 500, 1.5)
    reported(ear, 200, 1.5)
    assert ear.played_ms(1.5) == pytest.approx(500)


@pytest.mark.parametrize("wrong", [math.nan, -1.0, -math.inf])
def test_amounts_that_cannot_be_count_as_nothing(wrong: float) -> None:
    ear = listener()
    ear.made(wrong, 1.0)
    assert ear.made_ms == 0
    ear.made(1000, 1.0)
    ear.played(wrong, wrong, 1.0)
    assert ear.played_ms(5.0) == 0
    assert math.isfinite(ear.buffer_ms(5.0))


# How far ahead audio may be made.


def test_there_is_room_up_to_the_lead_and_again_once_some_is_heard() -> None:
    ear = listener(lead_ms=1000)
    ear.made(900, 1.0)
    assert ear.room_at(1.0) == 1.0
    ear.made(200, 1.0)
    assert ear.room_at(1.0) == pytest.approx(1.0 + 0.1 + 0.125)
    assert ear.room_at(1.225) == 1.225


def test_what_earlier_stages_hold_counts_for_the_lead() -> None:
    ear = listener(lead_ms=1000)
    ear.made(500, 1.0)
    assert ear.room_at(1.0, 400) == 1.0
    assert ear.room_at(1.0, 600) > 1.0


def test_a_paused_listener_makes_no_room_until_it_goes_on() -> None:
    ear = listener(lead_ms=1000)
    ear.made(1200, 1.0)
    ear.played(300, 300, 1.3)
    assert ear.room_at(1.3) == 1.3
    ear.made(200, 1.3)
    assert math.isinf(ear.room_at(1.3))
    assert math.isinf(ear.room_at(100.0))
    ear.played(500, 1400, 100.0)
    assert ear.room_at(100.0) == 100.0


STEPS = st.lists(
    st.tuples(st.sampled_from(["made", "played"]), st.floats(0, 600), st.floats(0, 2)), max_size=30
)


@given(STEPS)
def test_what_is_heard_is_made_and_told_figures_only_grow(
    steps: list[tuple[str, float, float]],
) -> None:
    ear, now, told = listener(), 1.0, 0.0
    for what, ms, seconds in steps:
        now += seconds
        if what == "made":
            ear.made(ms, now)
        else:
            told = max(told, min(ms, ear.made_ms))
            ear.played(ms, ms + 300, now)
        assert told <= ear.played_ms(now) + 1e-6
        assert ear.played_ms(now) <= ear.made_ms
        assert 0 <= ear.buffer_ms(now) <= ear.made_ms
        assert ear.played_ms(now) <= ear.played_ms(now + 1)
        assert ear.buffer_ms(now + 1) <= ear.buffer_ms(now) + 1e-6
        if ear.buffer_ms(now) > 0:
            assert ear.due(now) == pytest.approx(now + ear.buffer_ms(now) / 1000)


@given(
    st.lists(st.tuples(st.floats(0.01, 0.3), st.floats(20, 600)), min_size=2, max_size=20),
    st.floats(0, 0.1),
)
def test_with_an_even_way_reports_change_nothing(
    chunks: list[tuple[float, float]], way: float
) -> None:
    told, untold, now = listener(), listener(), 1.0
    heard_from = 1.0 + way
    end = heard_from
    told.made(300, now)
    untold.made(300, now)
    end += 0.3
    total = 300.0
    for gap, ms in chunks:
        now = min(now + gap, end - way)
        if now >= heard_from + way:
            told.played((now - way - heard_from) * 1000, total, now)
            assert told.due(now) == pytest.approx(untold.due(now))
        for ear in (told, untold):
            ear.made(ms, now)
        end += ms / 1000
        total += ms
    assert told.misses == untold.misses == 0
