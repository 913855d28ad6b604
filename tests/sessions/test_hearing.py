"""From audio appended to a user item: nothing is lost, doubled, or left open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.peer import FRAME, FRAME_MS, NO_SPECULATION, SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.settings import (
    Capabilities,
    SessionKind,
    Settings,
    SettingsPatch,
    Transcription,
    TurnDetection,
    TurnDetectionPatch,
    TurnKind,
)

VAD = TurnDetection(silence_duration_ms=300, prefix_padding_ms=0)
POLITE = replace(VAD, interrupt_response=False)
COMMITTED = ["BufferCommitted", "ItemAdded", "ItemDone", "StartRecognition"]


def hints(effects: list[fx.Effect]) -> int:
    return len(of(wx.ExpectTurnEnd, effects))


def frame(number: int) -> bytes:
    """Return a frame that is like no other."""
    return number.to_bytes(2, "little") * (24 * FRAME_MS)


def hear(peer: Peer, script: str, first: int = 1) -> bytes:
    """Send a frame of its own for each letter, ``s`` for speech; return all audio."""
    sent = b""
    for number, letter in enumerate(script, first):
        peer.now += FRAME_MS / 1000
        peer.feed(ev.AppendAudio(frame(number)))
        peer.feed(ev.SpeechScored(1, (float(letter == "s"),), FRAME_MS))
        sent += frame(number)
    return sent


# That a turn may end.


def test_the_end_of_a_turn_is_expected_once_a_pause() -> None:
    peer = Peer.attached(turns=replace(VAD, silence_duration_ms=1000))
    assert hints(peer.speech(600)) == 0
    assert hints(peer.silence(80)) == 0
    assert hints(peer.silence(500)) == 1
    assert hints(peer.speech(200)) == 0
    assert hints(peer.silence(500)) == 1


def test_the_end_is_expected_before_anything_is_recognized() -> None:
    peer = Peer.attached(SPECULATION, VAD)
    peer.speech(600)
    told = peer.silence(200)
    kinds = [type(e) for e in told if not isinstance(e, wx.FeedListening)]
    assert kinds == [wx.ExpectTurnEnd, wx.StartRecognition]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(), True),
        (Settings(turn_detection=TurnDetection(create_response=False)), False),
        (Settings(kind=SessionKind.TRANSCRIPTION), True),
        (
            Settings(
                turn_detection=TurnDetection(kind=TurnKind.SEMANTIC_VAD, create_response=False)
            ),
            True,
        ),
    ],
)
def test_an_end_is_expected_where_words_or_an_answer_will_be_wanted(
    settings: Settings, expected: bool
) -> None:
    peer = Peer.attached(SPECULATION, settings.turn_detection, kind=settings.kind)
    peer.speech(600)
    assert hints(peer.silence(160)) == expected


def test_push_to_talk_is_expected_to_end_from_its_first_audio_on() -> None:
    peer = Peer.attached()
    assert hints(peer.feed(ev.AppendAudio(FRAME))) == 1
    assert hints(peer.feed(*[ev.AppendAudio(FRAME)] * 9)) == 0
    assert hints(peer.feed(ev.CommitAudio())) == 0
    assert hints(peer.feed(ev.AppendAudio(FRAME))) == 1
    peer.feed(ev.ClearAudio())
    assert hints(peer.feed(ev.AppendAudio(FRAME))) == 1


def test_audio_that_is_refused_raises_no_expectation() -> None:
    peer = Peer.attached(replace(NO_SPECULATION, max_input_ms=1000))
    assert hints(peer.feed(ev.AppendAudio(FRAME * 51))) == 0


# Commits and turns.


def test_a_commit_while_the_person_speaks_closes_the_turn() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    told = peer.feed(ev.CommitAudio())
    assert names(told) == ["SpeechStopped", *COMMITTED]
    promised = peer.last(fx.SpeechStarted).item_id
    assert peer.last(fx.SpeechStopped) == fx.SpeechStopped(600, promised)
    assert peer.last(fx.BufferCommitted).item_id == promised


def test_after_a_commit_speech_must_begin_again_to_be_a_turn() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.feed(ev.CommitAudio())
    assert names(peer.silence(1000)) == []
    assert names(peer.speech(80)) == []
    assert names(peer.speech(20)) == ["SpeechStarted"]


@pytest.mark.parametrize("speculates", [NO_SPECULATION, SPECULATION])
def test_a_client_may_commit_behind_every_turn_that_was_committed(
    speculates: Capabilities,
) -> None:
    peer = Peer.attached(speculates, replace(VAD, create_response=False))
    for number in range(3):
        peer.speech(600)
        peer.silence(300)
        assert names(peer.feed(ev.CommitAudio())) == ["ErrorRaised"]
        assert peer.last(fx.ErrorRaised).error.code == "input_audio_buffer_commit_empty"
        peer.recognize(f"turn {number}")
    assert peer.count(fx.BufferCommitted) == 3


def test_an_empty_commit_changes_nothing_and_says_how_much_there_is() -> None:
    peer = Peer.attached()
    peer.feed(ev.AppendAudio(FRAME * 4), ev.CommitAudio("mine"))
    error = peer.last(fx.ErrorRaised).error
    assert error.event_id == "mine"
    assert "80.00ms" in error.message
    assert names(peer.feed(ev.AppendAudio(FRAME), ev.CommitAudio())) == COMMITTED
    assert len(peer.last(wx.StartRecognition).pcm) == 48 * 100


def test_a_commit_is_no_response() -> None:
    peer = Peer.attached()
    for _ in range(2):
        peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
        peer.recognize("hello")
    assert peer.count(fx.ResponseCreated) == 0
    assert names(peer.feed(ev.CreateResponse())) == ["ResponseCreated", "StartReply"]


def test_every_turn_has_its_last_event() -> None:
    told = Transcription(model="whisper-1")
    peer = Peer.attached(turns=POLITE, transcription=told)
    for text in ("one", None, ""):
        peer.speech(600)
        peer.silence(300)
        started = peer.last(wx.StartRecognition)
        peer.feed(ev.RecognitionEnded(started.recognition_id, text))
        ends = of(fx.TranscriptionDone, peer.effects) + of(fx.TranscriptionFailed, peer.effects)
        assert len(ends) == peer.count(fx.BufferCommitted)


# Audio.


def test_the_first_word_is_not_cut() -> None:
    peer = Peer.attached(turns=replace(VAD, prefix_padding_ms=100))
    sent = hear(peer, "." * 10 + "ssssss" + "." * 15)
    # The turn is found five frames into the speech; its audio begins five before it.
    assert peer.last(fx.SpeechStarted).audio_start_ms == 100
    assert peer.last(wx.StartRecognition).pcm == sent[5 * len(FRAME) :]


def test_a_word_at_the_very_start_is_not_cut() -> None:
    peer = Peer.attached(turns=replace(VAD, prefix_padding_ms=300))
    sent = hear(peer, "ssssss" + "." * 15)
    assert peer.last(fx.SpeechStarted).audio_start_ms == 0
    assert peer.last(wx.StartRecognition).pcm == sent


def test_a_chunk_that_spans_two_turns_loses_nothing() -> None:
    peer = Peer.attached(turns=replace(VAD, create_response=False))
    script = "ssssss" + "." * 15 + "ssssss" + "." * 15
    chunk = b"".join(frame(number) for number in range(len(script)))
    peer.feed(ev.AppendAudio(chunk))
    scores = tuple(float(letter == "s") for letter in script)
    peer.feed(ev.SpeechScored(1, scores, FRAME_MS))
    turns = [start.pcm for start in of(wx.StartRecognition, peer.effects)]
    assert b"".join(turns) == chunk
    assert len(turns) == 2


def test_the_buffer_is_bounded_and_can_be_used_again() -> None:
    peer = Peer.attached(replace(NO_SPECULATION, max_input_ms=1000))
    for _ in range(50):
        peer.feed(ev.AppendAudio(FRAME))
    told = peer.feed(ev.AppendAudio(FRAME, "mine"))
    assert names(told) == ["ErrorRaised"]
    error = peer.last(fx.ErrorRaised).error
    assert (error.code, error.param, error.event_id) == (
        "input_audio_buffer_full",
        "audio",
        "mine",
    )
    assert names(peer.feed(ev.CommitAudio())) == COMMITTED
    assert names(peer.feed(ev.AppendAudio(FRAME))) == []


def test_a_microphone_left_open_does_not_fill_the_buffer() -> None:
    peer = Peer.attached(replace(NO_SPECULATION, max_input_ms=2000), VAD)
    assert names(peer.silence(10_000)) == []
    peer.speech(600)
    assert names(peer.silence(300))[:4] == ["SpeechStopped", "BufferCommitted", *COMMITTED[1:3]]


def test_speech_without_end_is_cut_into_turns_that_lose_nothing() -> None:
    peer = Peer.attached(
        replace(NO_SPECULATION, max_input_ms=1000), replace(VAD, create_response=False)
    )
    sent = hear(peer, "s" * 160)
    whole = b"".join(start.pcm for start in of(wx.StartRecognition, peer.effects))
    assert sent.startswith(whole)
    assert len(whole) >= 48 * 2000


def test_speech_behind_the_look_at_a_pause_is_recognized_where_voice_activity_fails() -> None:
    peer = Peer.attached(SPECULATION, VAD)
    peer.speech(600)
    peer.silence(200)
    peer.recognize("hello")
    peer.feed(ev.AppendAudio(FRAME * 20))
    told = peer.feed(ev.ListeningFailed(1, "gone"))
    assert "StartRecognition" in names(told)
    assert len(peer.last(wx.StartRecognition).pcm) == 48 * 1200


def test_the_words_of_an_older_item_are_its_own_also_in_a_pause() -> None:
    peer = Peer.attached(SPECULATION, POLITE, transcription=Transcription(model="whisper-1"))
    peer.speech(600)
    peer.feed(ev.CommitAudio())
    older = peer.last(wx.StartRecognition).recognition_id
    peer.speech(600)
    peer.silence(200)
    peer.feed(ev.RecognitionEnded(older, "one"))
    assert peer.last(fx.TranscriptionDone).item_id == peer.last(fx.BufferCommitted).item_id
    peer.recognize("two")
    peer.silence(100)
    assert [done.transcript for done in of(fx.TranscriptionDone, peer.effects)] == ["one", "two"]


# Cancelled answers.


def test_a_cancel_leaves_the_turn_that_is_being_said() -> None:
    peer = Peer.attached(turns=POLITE)
    peer.speech(600)
    peer.silence(300)
    peer.recognize("one")
    peer.reply_text("Well")
    peer.speech(600)
    peer.feed(ev.CancelResponse())
    told = peer.silence(300)
    assert names(told)[:4] == ["SpeechStopped", "BufferCommitted", *COMMITTED[1:3]]
    peer.recognize("two")
    assert [m.text for m in peer.last(wx.StartReply).messages if m.role == "user"] == ["one", "two"]


def test_a_cancel_leaves_the_recognition_of_what_was_said() -> None:
    peer = Peer.attached(turns=VAD, transcription=Transcription(model="whisper-1"))
    peer.speech(600)
    peer.silence(300)
    told = peer.feed(ev.CancelResponse())
    assert "CancelRecognition" not in names(told)
    assert names(peer.recognize("one")) == ["TranscriptionDelta", "TranscriptionDone"]
    peer.feed(ev.CreateResponse())
    assert [m.text for m in peer.last(wx.StartReply).messages] == ["one"]


def test_speech_that_interrupts_is_a_turn_and_is_answered() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(300)
    peer.recognize("one")
    peer.reply_text("Well")
    assert "ResponseDone" in names(peer.speech(600))
    assert names(peer.silence(300))[-1] == "ResponseCreated"
    assert names(peer.recognize("no, stop")) == ["StartReply"]


# The kind of session.


@pytest.mark.parametrize("turns", [VAD, replace(VAD, kind=TurnKind.SEMANTIC_VAD), None])
def test_a_transcription_session_hears_with_and_without_turns(
    turns: TurnDetection | None,
) -> None:
    peer = Peer.attached(
        SPECULATION, kind=SessionKind.TRANSCRIPTION, transcription=Transcription(model="w")
    )
    patch = TurnDetectionPatch(kind=turns.kind) if turns else None
    peer.feed(ev.UpdateSession(SettingsPatch(turn_detection=patch)))
    if turns is None:
        peer.feed(ev.AppendAudio(FRAME * 20), ev.CommitAudio())
        peer.recognize("Yes.")
    else:
        peer.speech(600)
        peer.silence(200)
        peer.recognize("Yes.")
        peer.silence(300)
    assert peer.last(fx.TranscriptionDone).transcript == "Yes."
    assert peer.count(fx.ResponseCreated) == peer.count(fx.ErrorRaised) == 0
