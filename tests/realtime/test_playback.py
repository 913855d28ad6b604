"""A listener's loudspeaker, and what is reported of it; all on given or simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fakes import tone
from tests.support.loop import run_simulated

from antiphon.realtime.client import RealtimeClient
from antiphon.realtime.playback import RECENT, REPORT_SECONDS, Listener, Player, Report

Json = dict[str, Any]


def told(player: Player, response_id: str, now: float) -> Report:
    report = player.report(response_id, now)
    assert report is not None
    return report


def figures(player: Player, response_id: str, now: float) -> tuple[float, float, int, float]:
    report = told(player, response_id, now)
    assert report.response_id == response_id
    return report.played_ms, report.buffered_ms, report.underruns, report.gap_ms


# The player.


def test_audio_plays_in_real_time() -> None:
    player = Player()
    player.add("a", 500, 10.0)
    player.add("a", 500, 10.1)
    for now, played in ((10.1, 100), (10.3, 300), (10.8, 800), (11.5, 1000)):
        assert player.played_ms("a", now) == pytest.approx(played)
        assert player.buffered_ms(now) == pytest.approx(1000 - played)
        assert figures(player, "a", now) == pytest.approx((played, 1000 - played, 0, 0.0))


def test_audio_that_comes_late_is_an_underrun() -> None:
    player = Player()
    player.add("a", 100, 0.0)
    player.add("a", 100, 0.35)
    assert figures(player, "a", 0.4) == pytest.approx((150, 50, 1, 250))
    player.add("a", 100, 0.45)
    player.add("a", 100, 0.60)
    assert told(player, "a", 1.0).underruns == 2
    assert told(player, "a", 1.0).gap_ms == pytest.approx(250 + 50)


def test_audio_that_comes_just_in_time_is_none() -> None:
    player = Player()
    for number in range(10):
        player.add("a", 100, number * 0.1)
    assert figures(player, "a", 2.0) == pytest.approx((1000, 0.0, 0, 0.0))


def test_silence_between_responses_or_after_the_last_audio_is_none() -> None:
    player = Player()
    player.add("a", 100, 0.0)
    player.end("a")
    player.add("b", 100, 5.0)
    assert told(player, "a", 6.0).underruns == 0
    assert told(player, "b", 6.0).underruns == 0


def test_a_response_waits_for_the_one_before() -> None:
    player = Player()
    player.add("a", 300, 0.0)
    player.add("b", 200, 0.1)
    assert player.played_ms("b", 0.3) == pytest.approx(0)
    assert player.played_ms("b", 0.4) == pytest.approx(100)
    assert figures(player, "b", 9.0) == pytest.approx((200, 0.0, 0, 0.0))


def test_a_cushion_delays_the_start_and_takes_up_what_is_late() -> None:
    player = Player(cushion_ms=150)
    player.add("a", 100, 0.0)
    assert player.played_ms("a", 0.14) == 0
    assert player.buffered_ms(0.14) == 100
    player.add("a", 100, 0.2)
    player.end("a")
    assert player.played_ms("a", 0.3) == pytest.approx(150)
    assert told(player, "a", 1.0).underruns == 0
    player.add("b", 100, 1.0)
    assert player.played_ms("b", 1.15) == pytest.approx(0)
    assert player.played_ms("b", 1.2) == pytest.approx(50)


def test_a_cut_is_final() -> None:
    player = Player()
    player.add("a", 500, 0.0)
    assert player.cut(0.2)
    assert not player.add("a", 500, 0.3)
    assert figures(player, "a", 1.0) == pytest.approx((200, 0.0, 0, 0.0))
    assert player.buffered_ms(1.0) == 0
    assert player.add("b", 100, 1.0)
    assert player.played_ms("b", 1.05) == pytest.approx(50)
    assert not Player().cut(1.0)


def test_a_cut_of_one_response_leaves_the_others() -> None:
    player = Player()
    player.add("a", 200, 0.0)
    player.end("a")
    player.add("b", 500, 0.0)
    assert player.cut(0.1, "b")
    assert player.buffered_ms(0.1) == pytest.approx(100)
    assert player.played_ms("a", 1.0) == pytest.approx(200)
    assert player.played_ms("b", 1.0) == 0
    assert not player.cut(1.0, "unknown")


def test_a_cut_of_one_that_is_followed_only_ends_it() -> None:
    player = Player()
    player.add("a", 200, 0.0)
    player.add("b", 200, 0.0)
    assert not player.cut(0.1, "a")
    assert not player.add("a", 200, 0.1)
    assert player.played_ms("b", 0.4) == pytest.approx(200)


def test_what_is_over_is_reported_once() -> None:
    player = Player()
    player.add("a", 100, 0.0)
    player.end("a")
    assert player.finished(0.05) == []
    assert [report.response_id for report in player.going(0.05)] == ["a"]
    (last,) = player.finished(0.1)
    assert last.response_id == "a"
    assert last.played_ms == pytest.approx(100)
    assert player.finished(0.2) == player.going(0.2) == []
    player.add("b", 100, 1.0)
    assert player.finished(5.0) == [], "more of it may come"
    player.cut(5.0)
    assert [report.response_id for report in player.finished(5.0)] == ["b"]


def test_only_recent_responses_are_remembered() -> None:
    player = Player()
    for number in range(RECENT + 3):
        player.add(str(number), 10, float(number))
    assert player.report("2", 99.0) is None
    assert player.report("3", 99.0) is not None
    player.end("2")


@given(
    st.lists(
        st.tuples(st.floats(0, 0.5), st.floats(1, 400), st.sampled_from("ab")),
        min_size=1,
        max_size=30,
    ),
    st.floats(0, 300),
)
def test_what_was_added_is_played_and_time_adds_up(
    arrivals: list[tuple[float, float, str]], cushion_ms: float
) -> None:
    player = Player(cushion_ms=cushion_ms)
    now = added = last = 0.0
    for wait, ms, name in arrivals:
        now += wait
        player.add(name, ms, now)
        added += ms
        played = player.played_ms("a", now) + player.played_ms("b", now)
        assert played >= last - 1e-6
        assert played + player.buffered_ms(now) == pytest.approx(added)
        last = played
    end = now + (added + cushion_ms) / 1000 + 1
    assert player.buffered_ms(end) == 0
    assert sum(player.played_ms(name, end) for name in "ab") == pytest.approx(added)


@given(st.lists(st.tuples(st.floats(0, 0.5), st.floats(1, 400)), min_size=1, max_size=30))
def test_the_gaps_are_the_time_in_which_nothing_sounded(
    arrivals: list[tuple[float, float]],
) -> None:
    player = Player()
    now = 0.0
    for wait, ms in arrivals:
        now += wait
        player.add("a", ms, now)
    gone_by = (now - arrivals[0][0]) * 1000 + player.buffered_ms(now)
    report = told(player, "a", now)
    total = sum(ms for _, ms in arrivals)
    # Gaps shorter than a sample are not counted.
    assert report.gap_ms == pytest.approx(gone_by - total, abs=len(arrivals) / 24)
    assert (report.underruns > 0) == (report.gap_ms > 0)


def test_a_real_device_says_itself_how_far_it_is() -> None:
    position = 0.0
    player = Player(position_ms=lambda: position)
    player.add("a", 1000, 0.0)
    position = 300
    assert figures(player, "a", 5.0) == pytest.approx((300, 700, 0, 0.0))
    position = 250
    assert player.played_ms("a", 5.1) == 300, "it never goes back"
    position = 1200
    assert player.played_ms("a", 6.0) == 1000, "nor beyond what there is"
    position = 1000
    # It was seen with 700 ms to go at 5.1, and is at the end by 5.8.
    player.add("a", 500, 6.1)
    assert told(player, "a", 6.1).underruns == 1
    assert told(player, "a", 6.1).gap_ms == pytest.approx(300)
    position = 1100
    assert player.cut(6.2)
    assert player.add("b", 100, 7.0)
    position = 1150
    assert player.played_ms("a", 7.1) == 1100
    assert player.played_ms("b", 7.1) == 50


# Reports.


class Wire:
    """The socket of a client that only sends."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, Json]] = []

    async def send(self, message: str) -> None:
        await asyncio.sleep(0)
        at = asyncio.get_running_loop().time()
        self.sent.append((at, msgspec.json.decode(message, type=Json)))


def listening(script: Callable[[Listener], Awaitable[None]], **options: Any) -> list[Json]:
    """Run a script beside the task that reports; return the reports and when they came."""
    wire = Wire()

    async def main() -> None:
        listener = Listener(RealtimeClient(wire), **options)  # type: ignore[arg-type]
        task = asyncio.create_task(listener.run())
        await script(listener)
        await asyncio.sleep(10)
        assert not task.done()
        task.cancel()

    run_simulated(main())
    assert {event["type"] for _, event in wire.sent} <= {"antiphon.playback.report"}
    return [{**event, "at": at} for at, event in wire.sent]


def delta(ms: float, response_id: str = "r") -> Json:
    pcm = tone(ms)
    return {"type": "response.output_audio.delta", "response_id": response_id, "audio": pcm}


def done(status: str = "completed", response_id: str = "r") -> Json:
    return {"type": "response.done", "response": {"id": response_id, "status": status}}


def test_reports_come_while_something_plays_and_once_at_its_end() -> None:
    async def script(listener: Listener) -> None:
        await asyncio.sleep(1)
        listener.take(delta(500))
        listener.take({"type": "response.output_audio.done", "response_id": "r"})
        listener.take(done())

    reports = listening(script)
    assert [report["at"] for report in reports] == pytest.approx([1.0, 1.2, 1.4, 1.5], abs=0.02)
    assert [report["played_ms"] for report in reports] == pytest.approx([0, 200, 400, 500], abs=20)
    for report in reports:
        assert report["played_ms"] + report["buffered_ms"] == pytest.approx(500)
        assert (report["response_id"], report["underruns"], report["gap_ms"]) == ("r", 0, 0)


def test_a_late_chunk_is_reported() -> None:
    async def script(listener: Listener) -> None:
        listener.take(delta(100))
        await asyncio.sleep(0.3)
        listener.take(delta(100))
        listener.take(done())

    last = listening(script)[-1]
    assert (last["underruns"], last["gap_ms"]) == (1, pytest.approx(200))
    assert last["played_ms"] == pytest.approx(200)


def test_reports_go_on_while_a_response_is_late() -> None:
    async def script(listener: Listener) -> None:
        listener.take(delta(100))
        await asyncio.sleep(1.1)
        listener.take(done())

    reports = listening(script)
    assert len(reports) == 1 + 1.1 // REPORT_SECONDS + 1
    assert all(report["played_ms"] == pytest.approx(100) for report in reports[1:])


@pytest.mark.parametrize(
    "event", [{"type": "input_audio_buffer.speech_started"}, done("cancelled")]
)
def test_an_interruption_stops_playback_and_is_reported_at_once(event: Json) -> None:
    dropped: list[str] = []

    async def script(listener: Listener) -> None:
        listener.take(delta(2000))
        await asyncio.sleep(0.33)
        listener.take(event)
        listener.take(delta(500))

    reports = listening(script, on_cut=lambda: dropped.append("cut"))
    assert [report["at"] for report in reports] == pytest.approx([0, 0.2, 0.33])
    assert (reports[-1]["played_ms"], reports[-1]["buffered_ms"]) == (pytest.approx(330), 0)
    assert dropped == ["cut"]


def test_speech_may_be_let_pass() -> None:
    async def script(listener: Listener) -> None:
        listener.take(delta(600))
        await asyncio.sleep(0.3)
        listener.take({"type": "input_audio_buffer.speech_started"})
        listener.take(done())

    assert listening(script, stops_on_speech=False)[-1]["played_ms"] == pytest.approx(600)


def test_events_that_say_nothing_of_playback_are_ignored() -> None:
    async def script(listener: Listener) -> None:
        listener.take({"type": "response.created", "response": {"id": "r"}})
        listener.take(done())
        listener.take(done("cancelled", "s"))
        await asyncio.sleep(1)

    assert listening(script) == []


def test_a_burst_of_events_is_no_burst_of_reports() -> None:
    async def script(listener: Listener) -> None:
        for _ in range(100):
            listener.take(delta(10))
            await asyncio.sleep(0.01)
        listener.take(done())

    assert len(listening(script)) <= 1 + 1.0 / REPORT_SECONDS + 1


def test_the_width_of_g711_is_known() -> None:
    async def script(listener: Listener) -> None:
        listener.take({**delta(0), "audio": bytes(800)})
        listener.take(done())

    assert listening(script, bytes_per_ms=8)[-1]["played_ms"] == pytest.approx(100)
