"""Where the time of a spoken turn went, and how its answer reached the listener."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.peer import Peer, of

from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.effects import (
    OutputItemDone,
    ResponseDone,
    ResponseMeasured,
    TurnMeasured,
)
from antiphon.sessions.events import ReplyTimed
from antiphon.sessions.measure import CHUNKS_TOLD, TurnClock, measure_turn
from antiphon.sessions.settings import Modality, TurnDetection
from antiphon.sessions.state import DeadlineReason

INSTANT = st.none() | st.floats(0, 20)


def parts(measured: TurnMeasured) -> list[float]:
    return [
        measured.endpointing_ms,
        measured.recognition_ms,
        measured.first_token_ms,
        measured.first_clause_ms,
        measured.talker_ms,
        measured.code2wav_ms,
    ]


def test_each_stage_is_charged_from_where_the_one_before_it_ended() -> None:
    timed = ReplyTimed("r", 0, 10.8, 10.9, 11.0, 11.0625)
    measured = measure_turn("r", TurnClock(10.0, 10.5, 10.75), timed, 11.125)
    assert parts(measured) == [500.0, 250.0, 50.0, 100.0, 100.0, 125.0]
    assert measured.total_ms == 1125.0
    assert measured.clause_to_audio_ms == 162.5


def test_work_done_ahead_of_time_costs_nothing() -> None:
    timed = ReplyTimed("r", 0, 10.3, 10.35, 10.4, 10.45)
    measured = measure_turn("r", TurnClock(10.0, 10.5, 10.25), timed, 10.5)
    assert parts(measured) == [500.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert measured.clause_to_audio_ms == 100.0


def test_a_stage_that_was_not_passed_takes_no_time() -> None:
    timed = ReplyTimed("r", 0, None, None, None, None)
    measured = measure_turn("r", TurnClock(10.0, 10.5), timed, 10.75)
    assert parts(measured) == [500.0, 0.0, 0.0, 0.0, 0.0, 250.0]
    assert measured.clause_to_audio_ms is None


@settings(deadline=None)
@given(st.lists(INSTANT, min_size=6, max_size=6), st.floats(0, 20))
def test_the_parts_sum_to_the_total(instants: list[float | None], speech_end: float) -> None:
    ended, recognized, token, clause, talker, code2wav = instants
    clock = TurnClock(speech_end, ended or speech_end, recognized)
    measured = measure_turn("r", clock, ReplyTimed("r", 0, token, clause, talker, code2wav), 20.0)
    assert min(parts(measured)) >= 0
    assert sum(parts(measured)) == pytest.approx(measured.total_ms, abs=0.5)


# A response, at its listener.

VAD = TurnDetection(silence_duration_ms=500)


def answering(turns: TurnDetection | None = None, **options: object) -> Peer:
    """Return a peer that was asked to say something, and has yet to."""
    peer = Peer.attached(turns=turns)
    asked = ev.ResponseOptions(instructions="Talk.", **options)  # type: ignore[arg-type]
    peer.feed(ev.CreateResponse(asked))
    return peer


def say(peer: Peer, ms: int) -> None:
    peer.reply_audio(ms)
    peer.written(ms)


def test_a_response_is_measured_once_it_was_heard() -> None:
    peer = answering()
    peer.wait(0.25)
    peer.reply_text("Hi.")
    say(peer, 100)
    peer.wait(0.0625)
    say(peer, 300)
    peer.wait(0.3)
    say(peer, 500)
    peer.reply_end()
    due = peer.session.deadline
    assert due is not None
    assert due.reason is DeadlineReason.MEASURE
    peer.wait(0.5)
    assert peer.count(ResponseMeasured) == 0
    told = of(ResponseMeasured, peer.wait(0.05))
    assert told == [
        ResponseMeasured(
            response_id=peer.last(ResponseDone).response.id,
            ttfa_ms=250.0,
            chunks_ms=(100.0, 300.0, 500.0),
            generated_ms=900.0,
            sent_ms=900.0,
            played_ms=900.0,
            unheard_ms=0.0,
            lead_min_ms=37.5,
            lead_max_ms=537.5,
            underruns=0,
            gap_ms=0.0,
            continuous=True,
            reported=False,
            interrupted=False,
        )
    ]
    peer.wait(60)
    peer.feed(ev.Detached())
    assert peer.count(ResponseMeasured) == 1


def test_how_long_a_response_was_held_back_is_told() -> None:
    peer = Peer.attached()
    peer.feed(ev.CreateResponse())
    started = peer.last(wx.StartReply)
    times = ReplyTimed(started.response_id, started.epoch, 1.0, 1.25, 2.0, 2.1, admitted_at=1.75)
    peer.feed(times)
    peer.reply_audio(100)
    peer.feed(ev.Detached())
    assert peer.last(ResponseMeasured).waited_ms == 500.0


def test_the_first_audio_is_counted_from_the_end_of_speech() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(500)
    peer.wait(0.2)
    peer.recognize("hello")
    peer.wait(0.1)
    say(peer, 100)
    peer.reply_end()
    peer.wait(1.0)
    assert peer.last(ResponseMeasured).ttfa_ms == 800


@pytest.mark.parametrize(("gap", "continuous"), [(0.0625, True), (0.125, False)])
def test_gaps_in_the_supply_are_underruns(gap: float, continuous: bool) -> None:
    peer = answering()
    say(peer, 500)
    peer.wait(0.5 + gap)
    say(peer, 500)
    peer.reply_end()
    peer.wait(1.0)
    measured = peer.last(ResponseMeasured)
    assert (measured.underruns, measured.gap_ms) == (1, gap * 1000)
    assert (measured.lead_min_ms, measured.lead_max_ms) == (0, 500)
    assert measured.continuous == continuous


def test_an_interrupted_response_is_measured_at_the_cut() -> None:
    peer = answering(VAD)
    say(peer, 2000)
    peer.reply_audio(500)
    told = peer.speech(1000)
    # Cut after 100 ms of speech, in which it went on.
    measured = of(ResponseMeasured, told)
    assert [(m.generated_ms, m.sent_ms, m.played_ms, m.interrupted) for m in measured] == [
        (2500, 2000, 100, True)
    ]


def test_so_is_one_that_was_made_and_still_played() -> None:
    peer = answering(VAD)
    say(peer, 2000)
    peer.reply_end()
    peer.wait(0.5)
    (measured,) = of(ResponseMeasured, peer.speech(1000))
    assert (measured.played_ms, measured.unheard_ms, measured.interrupted) == (600, 1400, True)


@pytest.mark.parametrize("aside", [False, True])
def test_a_cancelled_response_is_measured(aside: bool) -> None:
    peer = answering(out_of_band=aside)
    say(peer, 2000)
    peer.wait(0.5)
    response_id = peer.last(wx.StartReply).response_id
    (measured,) = of(ResponseMeasured, peer.feed(ev.CancelResponse(response_id)))
    assert (measured.played_ms, measured.unheard_ms, measured.interrupted) == (500, 1500, True)


def test_what_is_made_and_never_written_was_made_for_nothing() -> None:
    peer = answering()
    peer.reply_audio(1000)
    peer.feed(ev.CancelResponse())
    measured = peer.last(ResponseMeasured)
    assert measured.ttfa_ms is None
    assert (measured.sent_ms, measured.unheard_ms, measured.lead_max_ms) == (0, 1000, 0)


@pytest.mark.parametrize("running", [True, False])
def test_the_end_of_the_session_is_the_end_of_what_is_heard(running: bool) -> None:
    peer = answering()
    say(peer, 2000)
    if not running:
        peer.reply_end()
    peer.wait(0.5)
    (measured,) = of(ResponseMeasured, peer.feed(ev.Detached()))
    assert (measured.played_ms, measured.unheard_ms, measured.interrupted) == (500, 1500, True)


def test_the_clients_word_replaces_the_estimate() -> None:
    peer = answering()
    say(peer, 2000)
    peer.reply_end()
    for played_ms in range(0, 2000, 200):
        peer.report(played_ms, 2000 - played_ms, 2, 300)
        peer.wait(0.25)
    assert peer.count(ResponseMeasured) == 0
    peer.report(2000, 0, 1, 450)
    peer.wait(0.01)
    measured = peer.last(ResponseMeasured)
    assert measured.reported
    assert (measured.played_ms, measured.gap_ms, measured.continuous) == (2000, 450, False)
    # One chunk can't have been missed twice.
    assert measured.underruns == 1


def test_a_client_that_falls_silent_is_not_waited_for() -> None:
    peer = answering()
    say(peer, 2000)
    peer.reply_end()
    peer.report(200, 1800)
    peer.wait(2.7)
    assert peer.count(ResponseMeasured) == 0
    peer.wait(0.2)
    assert peer.last(ResponseMeasured).played_ms == 800


def test_a_client_that_does_not_read_is_not_waited_for_either() -> None:
    peer = answering()
    peer.reply_audio(2000)
    peer.reply_end()
    peer.wait(299)
    assert peer.count(ResponseMeasured) == 0
    peer.wait(2)
    assert peer.last(ResponseMeasured).sent_ms == 0


def test_what_the_client_cut_was_not_heard() -> None:
    peer = answering()
    peer.reply_text("one two")
    say(peer, 2000)
    peer.reply_end()
    peer.wait(0.5)
    peer.feed(ev.TruncateItem(peer.last(OutputItemDone).item.id, 0, 400))
    peer.wait(5.0)
    measured = peer.last(ResponseMeasured)
    assert (measured.played_ms, measured.unheard_ms, measured.interrupted) == (400, 1600, True)


def test_a_response_that_is_not_spoken_is_not_measured() -> None:
    peer = answering(modality=Modality.TEXT)
    peer.reply_text("Hi.")
    peer.reply_audio(500)
    peer.reply_end()
    peer.wait(10)
    peer.feed(ev.Detached())
    assert peer.count(ResponseMeasured) == 0


def test_only_so_many_chunks_are_told() -> None:
    peer = answering()
    for _ in range(CHUNKS_TOLD + 10):
        say(peer, 50)
    peer.reply_end()
    peer.wait(10)
    measured = peer.last(ResponseMeasured)
    assert len(measured.chunks_ms) == CHUNKS_TOLD
    assert measured.generated_ms == 50 * (CHUNKS_TOLD + 10)
