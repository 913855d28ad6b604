"""When a response is given up: silent stages, and listeners who have enough."""

from __future__ import annotations

from tests.support.peer import Peer, names

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.errors import ErrorInfo
from antiphon.sessions.settings import Capabilities, TurnDetection
from antiphon.sessions.state import DeadlineReason

CAN = Capabilities(voices=("ada",), stage_timeout_s=10.0, max_paused_s=100.0)


def speaking(ms: int, written: bool = True, *, aside: bool = False) -> Peer:
    """Return a peer whose reply has made so much audio and then falls silent."""
    peer = Peer.attached(CAN, TurnDetection())
    peer.feed(ev.CreateResponse(ev.ResponseOptions(instructions="Talk.", out_of_band=aside)))
    peer.reply_audio(ms)
    if written:
        peer.written(ms)
    return peer


def ended(peer: Peer) -> str | None:
    """Return the code with which the reply failed, or ``None`` while it runs."""
    if not peer.count(fx.ResponseDone):
        return None
    error = peer.last(fx.ResponseDone).response.error
    return error.code if error else "completed"


def test_silent_stages_have_failed() -> None:
    peer = speaking(0)
    peer.wait(9.9)
    assert ended(peer) is None
    peer.wait(0.2)
    assert ended(peer) == "response_timeout"


def test_while_the_listener_has_enough_stages_may_be_silent() -> None:
    peer = speaking(30_000)
    peer.wait(38.9)
    assert ended(peer) is None
    due = peer.session.deadline
    assert due is not None
    assert due.reason is DeadlineReason.REPLY_STALLED
    # A second before its end the listener begins to want for more.
    assert round(due.at - peer.now, 6) == 0.1
    peer.wait(0.2)
    assert ended(peer) == "response_timeout"


def test_what_is_not_written_holds_the_stages_back() -> None:
    peer = speaking(4000, written=False)
    peer.wait(99.9)
    assert ended(peer) is None
    due = peer.session.deadline
    assert due is not None
    assert due.reason is DeadlineReason.PLAYBACK_STALLED
    told = peer.wait(0.2)
    assert ended(peer) == "playback_stalled"
    # The stages are freed, and it is measured.
    assert names(told)[0] == "AbortReply"
    assert peer.last(fx.ResponseMeasured).unheard_ms == 4000
    assert "100 s" in (peer.last(fx.ResponseDone).response.error or ErrorInfo("", "")).message


def test_a_listener_who_pauses_holds_the_stages_back_and_not_for_ever() -> None:
    peer = speaking(8000)
    for step in range(5):
        peer.report(step * 200, 8000 - step * 200)
        peer.wait(0.2)
    for _ in range(90):
        peer.report(800, 7200)
        peer.wait(1.0)
    assert ended(peer) is None
    # It plays on: all of the time there is again.
    peer.report(900, 7100)
    peer.wait(99.9)
    assert ended(peer) is None
    peer.wait(0.2)
    assert ended(peer) == "playback_stalled"
    measured = peer.last(fx.ResponseMeasured)
    assert (measured.reported, measured.interrupted) == (True, True)
    assert measured.played_ms + measured.unheard_ms == 8000


def test_a_listener_who_plays_on_is_waited_for() -> None:
    peer = speaking(60_000)
    for step in range(280):
        peer.report(step * 200, 60_000 - step * 200)
        peer.wait(0.2)
    assert ended(peer) is None
    peer.reply_audio(1000)
    peer.reply_end()
    assert ended(peer) == "completed"


def test_a_model_that_writes_on_behind_what_was_heard_is_not_held_back() -> None:
    peer = speaking(2000)
    for _ in range(30):
        peer.wait(5.0)
        peer.reply_text(" and")
    assert ended(peer) is None


def test_replies_out_of_band_are_held_back_in_the_same_way() -> None:
    peer = speaking(30_000, aside=True)
    peer.wait(38.9)
    assert ended(peer) is None
    peer.wait(0.2)
    assert ended(peer) == "response_timeout"
    assert peer.last(fx.ResponseMeasured).played_ms == 30_000
    assert peer.count(wx.AbortReply) == 1
