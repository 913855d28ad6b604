"""What the stages of a response are told of its playback, and when nothing is said."""

from __future__ import annotations

import math

import pytest
from tests.support.peer import SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.items import NewItem, Part, PartKind, Role
from antiphon.sessions.playback import GOES_ON_MS
from antiphon.sessions.settings import Modality, TurnDetection

VAD = TurnDetection(silence_duration_ms=500)
HELLO = ev.CreateItem(NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, "hello"),)))


def answering(**options: object) -> Peer:
    """Return a peer whose reply has yet to say something."""
    peer = Peer.attached()
    asked = ev.ResponseOptions(**options)  # type: ignore[arg-type]
    peer.feed(HELLO, ev.CreateResponse(asked))
    return peer


def told(effects: list[fx.Effect]) -> list[tuple[float, float]]:
    return [(round(e.played_ms, 3), e.until_ms) for e in of(wx.ReplyPlayed, effects)]


def say(peer: Peer, ms: int, written_after: float | None = 0.0) -> list[fx.Effect]:
    """Let the reply say something that is written a while later, or not at all."""
    caused = peer.reply_audio(ms)
    if written_after is not None:
        caused += peer.wait(written_after)
        caused += peer.written(ms)
    return caused


# The estimate.


def test_a_client_that_reads_at_once_is_as_the_stages_believe() -> None:
    peer = answering()
    for _ in range(40):
        assert told(say(peer, 100, 0.01)) == []
        peer.wait(0.09)


def test_neither_does_a_gap_in_the_making_have_to_be_told() -> None:
    peer = answering()
    say(peer, 500)
    peer.wait(3.0)
    assert told(say(peer, 500)) == []
    peer.wait(0.4)
    assert told(say(peer, 500)) == []


def test_what_is_not_written_is_told_not_to_be_heard() -> None:
    peer = answering()
    say(peer, 500)
    peer.wait(0.5)
    say(peer, 500, None)
    peer.wait(0.5)
    # What is made next shows that the stages believe it to be heard.
    assert told(say(peer, 500, None)) == [(500, 500)]
    peer.wait(0.5)
    assert told(say(peer, 500, None)) == []
    assert told(peer.written(500)) == [(500, 1000)]
    assert told(peer.written(500)) == [(500, 1500)]
    # All is written: it goes on by itself.
    peer.wait(0.25)
    assert told(peer.written(500)) == [(750, math.inf)]
    assert told(say(peer, 500)) == []


def test_what_is_written_late_is_told_once() -> None:
    peer = answering()
    assert told(say(peer, 500, 0.25)) == [(0, math.inf)]
    peer.wait(0.5)
    assert told(say(peer, 500)) == []


def test_a_chunk_written_in_pieces_is_not_late() -> None:
    peer = answering()
    peer.reply_audio(2000)
    assert told([e for _ in range(4) for e in peer.written(500)]) == []


def test_stages_that_are_done_are_told_nothing() -> None:
    peer = answering()
    say(peer, 3000, None)
    peer.reply_end()
    peer.wait(1.0)
    assert told(peer.written(3000)) == []
    assert told(peer.report(100, 2900)) == []


def test_a_reply_that_is_written_is_not_paced_by_sound() -> None:
    peer = answering(modality=Modality.TEXT)
    peer.reply_text("Hi.")
    assert told(say(peer, 500, None)) == []
    peer.wait(1.0)
    assert told(say(peer, 500, None)) == []


def test_replies_out_of_band_are_paced_as_well() -> None:
    peer = answering(out_of_band=True)
    assert told(say(peer, 500, 0.25)) == [(0, math.inf)]
    assert told(peer.report(100, 400)) == [(100, 100 + GOES_ON_MS)]


# Answers made ahead.


def prepared() -> Peer:
    """Return a peer in a pause, whose answer has been begun."""
    peer = Peer.attached(SPECULATION, VAD)
    peer.speech(600)
    peer.silence(200)
    peer.recognize("hello")
    return peer


def test_nobody_hears_an_answer_that_is_made_ahead() -> None:
    peer = prepared()
    assert told(peer.reply_audio(300)) == [(0, 0)]
    peer.silence(40)
    assert told(peer.reply_audio(300)) == []
    # It is given, and what was made is written one after the other.
    assert told(peer.silence(300)) == []
    assert told(peer.reply_audio(300)) == []
    assert told(peer.written(300)) == [(0, 300)]
    assert told(peer.written(600)) == [(0, math.inf)]
    peer.wait(0.3)
    assert told(say(peer, 300)) == []


def test_of_one_that_has_ended_nothing_is_told() -> None:
    peer = prepared()
    peer.reply_end()
    assert told(peer.reply_audio(300)) == []


def test_one_that_is_dropped_is_never_measured() -> None:
    peer = prepared()
    peer.reply_audio(300)
    assert names(peer.speech(100)) == ["AbortReply"]
    peer.feed(ev.Detached())
    assert peer.count(fx.ResponseMeasured) == 0


# Reports.


def test_a_report_is_passed_on() -> None:
    peer = answering()
    say(peer, 3000)
    peer.wait(0.5)
    assert told(peer.report(400, 2600)) == [(400, 400 + GOES_ON_MS)]
    peer.wait(0.2)
    assert told(peer.report(600, 2400)) == [(600, 600 + GOES_ON_MS)]


def test_a_client_that_pauses_plays_on_no_further() -> None:
    peer = answering()
    say(peer, 3000)
    peer.report(400, 2600)
    peer.wait(0.2)
    assert told(peer.report(400, 2600)) == [(400, 400)]


def test_reports_of_a_client_that_ran_dry_say_that_it_plays_what_comes() -> None:
    peer = answering()
    say(peer, 400)
    peer.report(400, 0)
    peer.wait(0.2)
    assert told(peer.report(400, 0)) == [(400, 400 + GOES_ON_MS)]


def test_once_a_client_reports_nothing_else_is_told() -> None:
    peer = answering()
    say(peer, 500)
    peer.report(0, 500)
    for _ in range(10):
        peer.wait(0.5)
        assert told(say(peer, 500, 0.3)) == []


def test_a_flood_of_reports_does_not_reach_the_stages() -> None:
    peer = answering()
    say(peer, 3000)
    passed_on = 0
    for step in range(1000):
        peer.now += 0.001
        passed_on += len(told(peer.report(step, 3000 - step)))
    assert 18 <= passed_on <= 21


@pytest.mark.parametrize("bad", [(-1, 0), (5, -1), (5, 0, -1), (5, 0, 0, -1)])
def test_what_cannot_be_is_not_passed_on(bad: tuple[int, int]) -> None:
    peer = answering()
    say(peer, 500)
    assert told(peer.report(*bad)) == []


def test_after_an_interruption_nothing_is_told() -> None:
    peer = Peer.attached(turns=VAD)
    peer.feed(HELLO, ev.CreateResponse())
    say(peer, 500)
    peer.speech(100)
    assert told(peer.report(100, 400)) == []
    assert told(peer.written(0)) == []
