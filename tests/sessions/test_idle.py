"""A session that speaks up when nobody has spoken for long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.peer import FRAME, NO_SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.items import ItemStatus, PartKind, Role
from antiphon.sessions.settings import (
    SessionKind,
    SettingsPatch,
    Transcription,
    TurnDetection,
    TurnDetectionPatch,
)
from antiphon.sessions.state import DeadlineReason

IDLE = TurnDetection(silence_duration_ms=500, idle_timeout_ms=5000)
FIRED = ["IdleTimedOut", "BufferCommitted", "ItemAdded", "ItemDone"]


def answer(peer: Peer, ms: int = 1000) -> None:
    """Let the running reply say something, and write it to the wire at once."""
    peer.reply_text("Hi.")
    peer.reply_audio(ms)
    peer.written(ms)
    peer.reply_end()


def answered(turns: TurnDetection = IDLE, **settings: object) -> Peer:
    """Return a peer that has just been answered by a second of audio."""
    peer = Peer.attached(NO_SPECULATION, turns, **settings)
    peer.speech(600)
    peer.silence(500)
    peer.recognize("hello")
    answer(peer)
    return peer


def test_quiet_that_lasts_is_an_item_and_is_answered() -> None:
    peer = answered()
    assert names(peer.silence(5980)) == []
    told = peer.silence(20) + peer.wait(0.02)
    assert names(told) == [*FIRED, "ResponseCreated", "StartReply"]
    fired = peer.last(fx.IdleTimedOut)
    # The answer had sounded for a second when the quiet began.
    assert (fired.audio_start_ms, fired.audio_end_ms) == (2100, 7100)
    assert peer.last(fx.BufferCommitted).item_id == fired.item_id
    item = peer.last(fx.ItemDone).item
    assert (item.id, item.role, item.status) == (fired.item_id, Role.USER, ItemStatus.COMPLETED)
    assert [(part.kind, part.text) for part in item.parts] == [(PartKind.INPUT_AUDIO, "")]


def test_the_silence_is_kept_and_not_recognized() -> None:
    peer = answered()
    peer.silence(6000)
    peer.wait(0.1)
    assert peer.count(wx.StartRecognition) == 1
    peer.feed(ev.RetrieveItem(peer.last(fx.IdleTimedOut).item_id))
    assert len(peer.last(fx.ItemRetrieved).audio) == 48 * 5000


def test_the_wait_is_one_of_the_sessions_deadlines() -> None:
    peer = answered()
    peer.wait(1)
    due = peer.session.deadline
    assert due is not None
    assert due.reason is DeadlineReason.IDLE
    assert round(due.at - peer.now, 6) == 5


def test_a_client_that_sends_no_audio_is_idle_too() -> None:
    peer = answered()
    assert names(peer.wait(5.9)) == []
    assert names(peer.wait(0.2))[:4] == FIRED
    fired = peer.last(fx.IdleTimedOut)
    assert fired.audio_start_ms == fired.audio_end_ms == 1100


def test_the_model_is_told_how_long_it_was_quiet() -> None:
    peer = answered()
    peer.wait(6.1)
    assert peer.last(wx.StartReply).messages[-1].role == "system"
    assert "5 seconds" in peer.last(wx.StartReply).messages[-1].text


def test_it_waits_for_what_it_said_to_be_heard_before_it_speaks_up_again() -> None:
    peer = answered()
    peer.wait(6.1)
    assert names(peer.wait(20)) == []
    answer(peer, ms=3000)
    assert names(peer.wait(7.9)) == []
    assert names(peer.wait(0.2))[:4] == FIRED


def test_speech_begins_the_wait_anew() -> None:
    quiet = replace(IDLE, create_response=False, interrupt_response=False)
    peer = Peer.attached(NO_SPECULATION, quiet)
    peer.feed(ev.CreateResponse())
    answer(peer)
    peer.silence(4000)
    peer.speech(3000)
    peer.silence(500)
    assert names(peer.silence(4900)) == []
    # Nothing is answered by itself here, but the client is told.
    assert names(peer.silence(200)) + names(peer.wait(30)) == FIRED


def test_an_open_turn_is_not_idle() -> None:
    peer = Peer.attached(NO_SPECULATION, replace(IDLE, interrupt_response=False))
    peer.feed(ev.CreateResponse())
    answer(peer)
    peer.speech(20_000)
    assert peer.count(fx.IdleTimedOut) == 0


def test_another_answer_begins_the_wait_anew() -> None:
    peer = answered()
    peer.wait(4)
    peer.feed(ev.CreateResponse(ev.ResponseOptions(instructions="Go on.")))
    peer.wait(10)
    assert peer.count(fx.IdleTimedOut) == 0
    answer(peer)
    assert names(peer.wait(5.9)) == []
    assert names(peer.wait(0.2))[:4] == FIRED


@pytest.mark.parametrize("event", [ev.CommitAudio(), ev.ClearAudio()])
def test_a_client_that_does_something_is_not_idle(event: ev.Event) -> None:
    peer = answered()
    peer.silence(4000)
    peer.feed(event)
    assert names(peer.wait(4.9)) == []
    assert names(peer.wait(0.2))[:4] == FIRED


def test_nothing_is_idle_before_the_first_answer() -> None:
    peer = Peer.attached(NO_SPECULATION, IDLE)
    peer.silence(1000)
    assert names(peer.wait(60)) == []


@pytest.mark.parametrize(
    "patch",
    [None, TurnDetectionPatch(idle_timeout_ms=None)],
)
def test_a_wait_that_is_switched_off_is_over(patch: TurnDetectionPatch | None) -> None:
    peer = answered()
    peer.wait(3)
    peer.feed(ev.UpdateSession(SettingsPatch(turn_detection=patch)))
    assert names(peer.wait(60)) == []


def test_a_transcription_session_is_never_idle() -> None:
    peer = Peer.attached(NO_SPECULATION, IDLE, kind=SessionKind.TRANSCRIPTION)
    peer.speech(600)
    peer.silence(500)
    peer.recognize("hello")
    assert names(peer.wait(59)) == []


def test_where_words_are_told_those_of_silence_are_none() -> None:
    peer = answered(transcription=Transcription(model="whisper-1"), logprobs=True)
    told = peer.wait(6.1)
    assert names(told)[:5] == [*FIRED, "TranscriptionDone"]
    done = peer.last(fx.TranscriptionDone)
    assert (done.item_id, done.transcript) == (peer.last(fx.IdleTimedOut).item_id, "")
    assert (done.audio_ms, done.logprobs) == (0, ())


def test_the_first_of_speech_stays_for_its_turn() -> None:
    peer = answered()
    peer.silence(5960)
    # Not yet a turn when the wait is over.
    peer.speech(60)
    peer.wait(0.0)
    fired = peer.last(fx.IdleTimedOut)
    assert fired.audio_end_ms == 1100 + 5960
    peer.speech(40)
    assert peer.last(fx.SpeechStarted).audio_start_ms == fired.audio_end_ms
    # And it interrupts what the session says.
    assert peer.last(fx.ResponseDone).response.status is fx.ResponseStatus.CANCELLED


def test_the_silence_is_not_committed_twice() -> None:
    peer = answered()
    peer.silence(6000)
    peer.wait(0.1)
    assert names(peer.feed(ev.CommitAudio())) == ["ErrorRaised"]
    assert peer.last(fx.ErrorRaised).error.code == "input_audio_buffer_commit_empty"


def test_it_goes_on_hearing_afterwards() -> None:
    peer = answered()
    peer.wait(6.1)
    answer(peer)
    peer.feed(ev.AppendAudio(FRAME))
    peer.speech(600)
    assert names(peer.silence(500))[:4] == [
        "SpeechStopped",
        "BufferCommitted",
        "ItemAdded",
        "ItemDone",
    ]
    assert len(of(fx.IdleTimedOut, peer.effects)) == 1
