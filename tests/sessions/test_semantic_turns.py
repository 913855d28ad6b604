"""Turns that end when what was said sounds finished."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.peer import NO_SPECULATION, SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.settings import (
    Capabilities,
    Eagerness,
    SessionKind,
    SettingsPatch,
    Transcription,
    TurnDetection,
    TurnDetectionPatch,
    TurnKind,
)

SEMANTIC = TurnDetection(kind=TurnKind.SEMANTIC_VAD)
HEAD = ["SpeechStopped", "BufferCommitted", "ItemAdded", "ItemDone"]


def pausing(turns: TurnDetection = SEMANTIC, can: Capabilities = SPECULATION) -> Peer:
    """Return a peer in the pause in which what was said so far is being recognized."""
    peer = Peer.attached(can, turns)
    peer.speech(600)
    assert names(peer.silence(200)) == ["StartRecognition"]
    return peer


def test_a_finished_sentence_ends_the_turn_soon() -> None:
    peer = pausing()
    assert names(peer.recognize("What time is it?")) == ["StartReply"]
    assert names(peer.silence(180)) == []
    assert names(peer.silence(20)) == [*HEAD, "ResponseCreated"]
    assert peer.last(fx.SpeechStopped).audio_end_ms == 1000
    assert peer.count(wx.StartRecognition) == peer.count(wx.StartReply) == 1


def test_an_unfinished_sentence_is_waited_for() -> None:
    peer = pausing()
    assert names(peer.recognize("I would like to")) == []
    assert names(peer.silence(3780)) == []
    assert names(peer.silence(20)) == [*HEAD, "ResponseCreated", "StartReply"]
    assert peer.count(wx.StartRecognition) == 1


def test_speech_that_goes_on_is_the_same_turn_and_judged_anew() -> None:
    peer = pausing()
    peer.recognize("I would like to")
    peer.silence(1000)
    peer.speech(600)
    assert names(peer.silence(200)) == ["StartRecognition"]
    peer.recognize("I would like to go home.")
    assert names(peer.silence(200)) == [*HEAD, "ResponseCreated"]
    assert peer.count(fx.SpeechStarted) == 1
    assert peer.last(wx.StartReply).messages[-1].text == "I would like to go home."


@pytest.mark.parametrize(
    ("eagerness", "wait_ms"),
    [(Eagerness.LOW, 500), (Eagerness.AUTO, 400), (Eagerness.HIGH, 300)],
)
def test_words_that_come_late_end_the_turn_without_more_audio(
    eagerness: Eagerness, wait_ms: int
) -> None:
    peer = pausing(replace(SEMANTIC, eagerness=eagerness))
    assert names(peer.silence(600)) == []
    told = peer.recognize("Yes.")
    assert names(told) == [*HEAD, "ResponseCreated", "StartReply"]
    assert peer.last(fx.SpeechStopped).audio_end_ms == 600 + wait_ms
    assert names(peer.silence(1000)) == []
    assert names(peer.speech(200)) == ["SpeechStarted", "AbortReply", "ResponseDone"]


def test_where_the_recognizer_fails_the_wait_is_the_longest() -> None:
    peer = pausing(replace(SEMANTIC, eagerness=Eagerness.HIGH))
    peer.feed(ev.RecognitionEnded(peer.last(wx.StartRecognition).recognition_id, None, "down"))
    assert names(peer.silence(1780)) == []
    assert names(peer.silence(20)) == [*HEAD, "StartRecognition", "ResponseCreated"]


def test_where_the_recognizer_says_nothing_the_turn_ends_all_the_same() -> None:
    peer = pausing(replace(SEMANTIC, eagerness=Eagerness.HIGH))
    assert names(peer.silence(1800)) == [*HEAD, "ResponseCreated"]
    assert names(peer.recognize("I would")) == ["StartReply"]


def test_the_words_are_looked_for_where_nothing_is_speculated() -> None:
    peer = pausing(can=NO_SPECULATION)
    assert names(peer.recognize("What time is it?")) == []
    assert names(peer.silence(200)) == [*HEAD, "ResponseCreated", "StartReply"]
    assert peer.session.counters.drafts_started == 0


def test_no_answer_is_prepared_to_what_is_not_finished() -> None:
    peer = pausing()
    peer.recognize("I would like to")
    assert peer.session.counters.drafts_started == 0


def test_turns_end_by_their_words_where_no_answer_is_wanted() -> None:
    peer = pausing(replace(SEMANTIC, create_response=False))
    assert names(peer.recognize("Yes.")) == []
    assert names(peer.silence(200)) == HEAD
    peer = pausing(replace(SEMANTIC, create_response=False))
    peer.silence(1000)
    assert names(peer.recognize("Yes.")) == HEAD


def test_turns_of_a_transcription_session_end_by_their_words() -> None:
    peer = Peer.attached(
        SPECULATION,
        SEMANTIC,
        kind=SessionKind.TRANSCRIPTION,
        transcription=Transcription(model="whisper-1"),
    )
    peer.speech(600)
    peer.silence(400)
    told = peer.recognize("Yes.")
    assert names(told) == [*HEAD, "TranscriptionDelta", "TranscriptionDone"]


def test_a_language_that_is_not_english_is_judged_by_punctuation() -> None:
    peer = Peer.attached(
        SPECULATION, SEMANTIC, transcription=Transcription(model="whisper-1", language="de")
    )
    peer.speech(600)
    peer.silence(400)
    assert names(peer.recognize("Ich komme um acht an."))[0] == "SpeechStopped"


def test_a_client_that_stops_sending_has_stopped_talking() -> None:
    peer = pausing()
    peer.recognize("Yes.")
    told = peer.wait(1.4)
    assert names(told)[:4] == HEAD
    peer = pausing()
    assert names(peer.wait(4.9)) == []
    assert names(peer.wait(0.1))[:4] == HEAD


def test_another_eagerness_holds_for_the_pause_that_lasts() -> None:
    peer = pausing(replace(SEMANTIC, eagerness=Eagerness.LOW))
    peer.recognize("turn on the lights")
    peer.silence(800)
    eager = TurnDetectionPatch(eagerness=Eagerness.HIGH)
    peer.feed(ev.UpdateSession(SettingsPatch(turn_detection=eager)))
    assert names(peer.silence(20))[:4] == HEAD


def test_the_other_kind_of_detection_takes_an_open_turn_over() -> None:
    peer = pausing()
    peer.recognize("I would like to")
    silence = TurnDetectionPatch(kind=TurnKind.SERVER_VAD, silence_duration_ms=300)
    peer.feed(ev.UpdateSession(SettingsPatch(turn_detection=silence)))
    assert names(peer.silence(100))[:4] == HEAD
    assert len({e.item_id for e in of(fx.SpeechStarted, peer.effects)}) == 1


def test_a_turn_that_is_taken_over_by_words_uses_those_it_has() -> None:
    peer = pausing(TurnDetection(silence_duration_ms=2000))
    peer.recognize("What time is it?")
    words = TurnDetectionPatch(kind=TurnKind.SEMANTIC_VAD)
    peer.feed(ev.UpdateSession(SettingsPatch(turn_detection=words)))
    assert names(peer.silence(200))[:4] == HEAD
