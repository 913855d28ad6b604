import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.web.demo_playback import BYTES_PER_SECOND, Playback


def sound(ms: int) -> bytes:
    return b"\1\2" * (BYTES_PER_SECOND * ms // 2000)


def test_audio_is_heard_at_real_time_speed_from_its_arrival_on() -> None:
    playback = Playback()
    playback.add("a", sound(500), 10.0)
    playback.add("a", sound(500), 10.1)
    for now, played, buffered in ((9.0, 0, 1000), (10.25, 250, 750), (11.5, 1000, 0)):
        assert playback.played_ms("a", now) == pytest.approx(played)
        assert playback.buffered_ms(now) == pytest.approx(buffered)
    assert playback.gaps("a") == []


def test_audio_that_comes_too_late_leaves_a_gap() -> None:
    playback = Playback()
    playback.add("a", sound(100), 1.0)
    playback.add("a", sound(100), 1.5)
    assert playback.played_ms("a", 1.3) == pytest.approx(100)
    assert playback.played_ms("a", 1.55) == pytest.approx(150)
    assert playback.gaps("a") == pytest.approx([0.4])
    assert playback.instant_of("a", 50) == pytest.approx(1.05)
    assert playback.instant_of("a", 150) == pytest.approx(1.55)
    assert playback.instant_of("a", 250) is None


def test_what_is_dropped_is_never_heard_and_the_next_reply_begins_at_once() -> None:
    playback = Playback()
    playback.add("a", sound(400), 0.0)
    playback.add("a", sound(400), 0.0)
    playback.drop(0.5)
    assert playback.buffered_ms(0.5) == 0
    assert playback.played_ms("a", 9.0) == pytest.approx(500)
    assert playback.instant_of("a", 600) is None
    playback.add("b", sound(100), 0.6)
    assert [(each.response_id, each.starts_at) for each in playback.segments] == [
        ("a", 0.0),
        ("a", pytest.approx(0.4)),
        ("b", 0.6),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 300)), min_size=1, max_size=12),
    st.integers(0, 3000),
    st.booleans(),
)
def test_nothing_overlaps_or_is_heard_twice(
    arrivals: list[tuple[int, int]], now_ms: int, drop: bool
) -> None:
    playback, now, total = Playback(), 0.0, 0
    for pause_ms, ms in arrivals:
        now += pause_ms / 1000
        playback.add("a", sound(ms), now)
        total += ms
    if drop:
        playback.drop(max(now, now_ms / 1000))
        now = max(now, now_ms / 1000)
    for ahead, after in itertools.pairwise(playback.segments):
        assert after.starts_at >= ahead.ends_at - 1e-9
    heard = playback.played_ms("a", now)
    assert heard + playback.buffered_ms(now) == pytest.approx(
        playback.played_ms("a", float("inf")), abs=0.1
    )
    assert playback.played_ms("a", float("inf")) == pytest.approx(heard if drop else total, abs=0.1)
