"""What a client is told of what was said, in both kinds of session."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.peer import FRAME, NO_SPECULATION, SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.events import TokenLogprob
from antiphon.sessions.items import NewItem, Part, PartKind, Role
from antiphon.sessions.partials import LOOK_EVERY_MS, LOOK_MAX_MS
from antiphon.sessions.recognition import expected_words
from antiphon.sessions.settings import (
    Capabilities,
    SessionKind,
    SettingsPatch,
    Transcription,
    TranscriptionPatch,
    TurnDetection,
)

VAD = TurnDetection(silence_duration_ms=500)
TOLD = Transcription(model="whisper-1")
LOGPROBS = (TokenLogprob("hel", -0.5), TokenLogprob("lo", -0.1))


def transcriber(
    can: Capabilities = NO_SPECULATION,
    turns: TurnDetection | None = VAD,
    transcription: Transcription | None = TOLD,
    logprobs: bool = False,
) -> Peer:
    return Peer.attached(
        can,
        turns,
        kind=SessionKind.TRANSCRIPTION,
        transcription=transcription,
        logprobs=logprobs,
    )


def deltas(effects: list[fx.Effect]) -> list[str]:
    return [delta.text for delta in of(fx.TranscriptionDelta, effects)]


def partials(peer: Peer) -> list[wx.StartRecognition]:
    return [start for start in of(wx.StartRecognition, peer.effects) if start.partial]


# A conversation.


def test_in_a_conversation_all_words_come_at_once_before_the_end() -> None:
    peer = Peer.attached(turns=VAD, transcription=TOLD)
    peer.speech(3000)
    peer.silence(500)
    assert [start.partial for start in of(wx.StartRecognition, peer.effects)] == [False]
    told = peer.recognize(" Hello there. ")
    item_id = peer.last(fx.SpeechStarted).item_id
    assert told[:2] == [
        fx.TranscriptionDelta(item_id, "Hello there."),
        fx.TranscriptionDone(item_id, "Hello there.", 3500),
    ]


def test_where_nothing_was_said_there_are_no_words_to_tell() -> None:
    peer = Peer.attached(transcription=TOLD)
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    assert names(peer.recognize("  ")) == ["TranscriptionDone"]
    assert peer.last(fx.TranscriptionDone).transcript == ""


@pytest.mark.parametrize("kind", SessionKind)
def test_nothing_is_told_where_it_was_not_asked_for(kind: SessionKind) -> None:
    peer = Peer.attached(turns=VAD, kind=kind)
    peer.speech(2000)
    peer.silence(500)
    peer.recognize("hello")
    assert not of(fx.TranscriptionDelta, peer.effects)
    assert not of(fx.TranscriptionDone, peer.effects)


def test_audio_that_a_client_brought_is_told_of_too() -> None:
    peer = Peer.attached(transcription=TOLD)
    item = NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_AUDIO),), audio=FRAME, id="mine")
    peer.feed(ev.CreateItem(item))
    assert peer.recognize("hello") == [
        fx.TranscriptionDelta("mine", "hello"),
        fx.TranscriptionDone("mine", "hello", 20),
    ]


# How sure the recognizer is.


def test_log_probabilities_are_asked_for_and_passed_on() -> None:
    peer = Peer.attached(transcription=TOLD, logprobs=True)
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    assert peer.last(wx.StartRecognition).logprobs
    delta, done = peer.feed(ev.RecognitionEnded(1, "hello", logprobs=LOGPROBS))
    assert isinstance(delta, fx.TranscriptionDelta)
    assert isinstance(done, fx.TranscriptionDone)
    assert delta.logprobs == done.logprobs == LOGPROBS


def test_log_probabilities_that_nobody_asked_for_are_not_told() -> None:
    peer = Peer.attached(transcription=TOLD)
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    assert not peer.last(wx.StartRecognition).logprobs
    peer.feed(ev.RecognitionEnded(1, "hello", logprobs=LOGPROBS))
    assert peer.last(fx.TranscriptionDone).logprobs is None
    assert peer.last(fx.TranscriptionDelta).logprobs is None


def test_log_probabilities_that_the_recognizer_does_not_know_are_empty() -> None:
    peer = Peer.attached(transcription=TOLD, logprobs=True)
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    peer.recognize("hello")
    assert peer.last(fx.TranscriptionDone).logprobs == ()


def test_log_probabilities_of_words_known_in_the_pause_are_kept() -> None:
    peer = transcriber(SPECULATION, logprobs=True)
    peer.speech(600)
    peer.silence(200)
    started = peer.last(wx.StartRecognition)
    peer.feed(ev.RecognitionEnded(started.recognition_id, "hello", logprobs=LOGPROBS))
    peer.silence(300)
    assert peer.last(fx.TranscriptionDone).logprobs == LOGPROBS


# What the recognizer is told.


@pytest.mark.parametrize(
    ("transcription", "words"),
    [
        (TOLD, None),
        (replace(TOLD, prompt="A talk."), "A talk."),
        (replace(TOLD, keywords=("Ann", "Bob")), "Ann, Bob"),
        (replace(TOLD, prompt="A talk.", keywords=("Ann",)), "A talk. Ann"),
        (replace(TOLD, prompt="", keywords=()), None),
    ],
)
def test_keywords_join_the_prompt(transcription: Transcription, words: str | None) -> None:
    assert expected_words(transcription) == words
    peer = Peer.attached(transcription=replace(transcription, language="de"))
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    started = peer.last(wx.StartRecognition)
    assert (started.prompt, started.language) == (words, "de")


# A transcription session.


def test_a_transcription_session_answers_nothing() -> None:
    peer = transcriber(SPECULATION)
    peer.speech(600)
    peer.silence(200)
    assert names(peer.recognize("hello")) == []
    assert names(peer.silence(300)) == [
        "SpeechStopped",
        "BufferCommitted",
        "ItemAdded",
        "ItemDone",
        "TranscriptionDelta",
        "TranscriptionDone",
    ]
    assert peer.count(wx.StartReply) == peer.count(fx.ResponseCreated) == 0
    assert peer.session.counters.drafts_started == 0


def test_push_to_talk_transcription_tells_nothing_before_the_commit() -> None:
    peer = transcriber(turns=None)
    for _ in range(10):
        assert names(peer.feed(ev.AppendAudio(FRAME * 20))) == []
    told = peer.feed(ev.CommitAudio())
    assert names(told) == ["BufferCommitted", "ItemAdded", "ItemDone", "StartRecognition"]
    assert names(peer.recognize("hello")) == ["TranscriptionDelta", "TranscriptionDone"]


def test_words_are_told_while_they_are_said() -> None:
    peer = transcriber()
    peer.speech(LOOK_EVERY_MS)
    item_id = peer.last(fx.SpeechStarted).item_id
    assert peer.last(wx.StartRecognition).partial
    assert deltas(peer.recognize("The cat")) == []
    peer.speech(LOOK_EVERY_MS)
    assert deltas(peer.recognize("The cat sat")) == ["The cat"]
    peer.speech(LOOK_EVERY_MS)
    assert deltas(peer.recognize("The cat sat down")) == [" sat"]
    peer.silence(500)
    told = peer.recognize("The cat sat down.")
    assert told == [
        fx.TranscriptionDelta(item_id, " down."),
        fx.TranscriptionDone(item_id, "The cat sat down.", 3500),
    ]
    assert {delta.item_id for delta in of(fx.TranscriptionDelta, peer.effects)} == {item_id}


def test_each_look_begins_where_the_turn_does() -> None:
    peer = transcriber()
    peer.silence(400)
    peer.speech(LOOK_EVERY_MS)
    peer.recognize("a")
    peer.speech(LOOK_EVERY_MS)
    first, second = partials(peer)
    assert second.pcm.startswith(first.pcm)
    assert len(first.pcm) == 48 * LOOK_EVERY_MS
    assert len(second.pcm) - len(first.pcm) >= 48 * LOOK_EVERY_MS
    assert not first.logprobs


def test_at_most_one_look_runs() -> None:
    peer = transcriber()
    peer.speech(5 * LOOK_EVERY_MS)
    assert len(partials(peer)) == 1


def test_looks_that_take_long_are_fewer() -> None:
    peer = transcriber()
    peer.speech(LOOK_EVERY_MS)
    peer.speech(800)
    peer.recognize("one")
    assert len(partials(peer)) == 1
    # The look took 800 ms: the next has twice as much to see.
    peer.speech(700)
    assert len(partials(peer)) == 1
    peer.speech(100)
    assert len(partials(peer)) == 2
    # The next turn begins anew.
    peer.silence(500)
    peer.speech(LOOK_EVERY_MS)
    assert len(partials(peer)) == 3


def test_silence_is_not_looked_at() -> None:
    peer = transcriber(turns=TurnDetection(silence_duration_ms=9000))
    peer.speech(400)
    peer.silence(3000)
    peer.recognize("hello")
    assert len(partials(peer)) == 1
    peer.silence(3000)
    assert len(partials(peer)) == 1


def test_a_long_turn_is_looked_at_up_to_a_bound_and_then_in_its_pauses() -> None:
    peer = transcriber(SPECULATION)
    for _ in range(30):
        peer.speech(LOOK_EVERY_MS)
        peer.recognize("It goes on")
    assert max(len(start.pcm) for start in partials(peer)) <= 48 * LOOK_MAX_MS
    assert len(partials(peer)) == LOOK_MAX_MS // LOOK_EVERY_MS
    peer.silence(200)
    peer.recognize("It goes on and on")
    peer.speech(400)
    peer.silence(200)
    assert deltas(peer.recognize("It goes on and on and")) == [" and on"]


def test_a_pause_puts_an_end_to_the_look_under_way() -> None:
    peer = transcriber(SPECULATION)
    peer.speech(LOOK_EVERY_MS)
    assert names(peer.silence(200)) == ["CancelRecognition", "StartRecognition"]
    assert not peer.last(wx.StartRecognition).partial
    told = peer.recognize("Hello.")
    assert told == []
    assert deltas(peer.silence(300)) == ["Hello."]


def test_words_of_a_pause_are_told_when_the_next_look_agrees() -> None:
    peer = transcriber(SPECULATION)
    peer.speech(600)
    peer.silence(200)
    peer.recognize("Hello.")
    peer.speech(LOOK_EVERY_MS)
    assert peer.last(wx.StartRecognition).partial
    assert deltas(peer.recognize("Hello, how are")) == ["Hello"]


def test_a_final_text_that_changed_its_mind_is_told_whole_only_at_the_end() -> None:
    peer = transcriber()
    for text in ("Nice cream", "Nice cream today"):
        peer.speech(LOOK_EVERY_MS)
        peer.recognize(text)
    peer.silence(500)
    assert names(peer.recognize("I scream and you do")) == ["TranscriptionDone"]
    assert peer.last(fx.TranscriptionDone).transcript == "I scream and you do"


def test_a_look_that_fails_is_no_error_and_another_follows() -> None:
    peer = transcriber()
    peer.speech(LOOK_EVERY_MS)
    started = peer.last(wx.StartRecognition)
    assert peer.feed(ev.RecognitionEnded(started.recognition_id, None, "down")) == []
    peer.speech(LOOK_EVERY_MS)
    assert len(partials(peer)) == 2


def test_a_look_that_is_stuck_is_given_up() -> None:
    can = replace(NO_SPECULATION, stage_timeout_s=0.5)
    peer = transcriber(can)
    peer.speech(LOOK_EVERY_MS)
    assert names(peer.wait(0.5)) == ["CancelRecognition"]
    assert peer.recognize("late") == []


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            ev.CommitAudio(),
            [
                "CancelRecognition",
                "SpeechStopped",
                "BufferCommitted",
                "ItemAdded",
                "ItemDone",
                "StartRecognition",
            ],
        ),
        (ev.ClearAudio(), ["CancelRecognition", "BufferCleared"]),
        (ev.Detached(), ["CancelRecognition", "StopListening"]),
        (
            ev.UpdateSession(SettingsPatch(turn_detection=None)),
            ["SessionUpdated", "CancelRecognition", "StopListening"],
        ),
    ],
)
def test_a_look_ends_with_its_turn(event: ev.Event, told: list[str]) -> None:
    peer = transcriber()
    peer.speech(LOOK_EVERY_MS)
    look = peer.last(wx.StartRecognition)
    assert names(peer.feed(event)) == told
    assert peer.feed(ev.RecognitionEnded(look.recognition_id, "late")) == []


def test_a_commit_in_a_turn_goes_on_with_what_was_told() -> None:
    peer = transcriber()
    for text in ("One two", "One two three"):
        peer.speech(LOOK_EVERY_MS)
        peer.recognize(text)
    peer.feed(ev.CommitAudio())
    assert deltas(peer.recognize("One two three four")) == [" three four"]
    assert peer.last(fx.TranscriptionDone).item_id == peer.last(fx.SpeechStarted).item_id


def test_of_a_turn_that_was_cleared_nothing_more_is_said() -> None:
    peer = transcriber()
    for text in ("One two", "One two three"):
        peer.speech(LOOK_EVERY_MS)
        peer.recognize(text)
    dropped = peer.last(fx.SpeechStarted).item_id
    peer.feed(ev.ClearAudio())
    peer.speech(LOOK_EVERY_MS)
    peer.recognize("One two three four")
    peer.silence(500)
    told = peer.recognize("Four five")
    assert deltas(told) == ["Four five"]
    assert all(e.item_id != dropped for e in of(fx.TranscriptionDelta, told))
    assert peer.last(fx.TranscriptionDone).item_id != dropped


def test_of_an_item_that_was_deleted_nothing_more_is_said() -> None:
    peer = transcriber()
    peer.speech(600)
    peer.silence(500)
    item_id = peer.last(fx.BufferCommitted).item_id
    assert names(peer.feed(ev.DeleteItem(item_id))) == ["ItemDeleted", "CancelRecognition"]
    assert peer.recognize("hello") == []


def test_a_turn_that_could_not_be_recognized_fails_behind_its_words() -> None:
    peer = transcriber()
    for text in ("One two", "One two three"):
        peer.speech(LOOK_EVERY_MS)
        peer.recognize(text)
    peer.silence(500)
    started = peer.last(wx.StartRecognition)
    told = peer.feed(ev.RecognitionEnded(started.recognition_id, None, "down", "It is down."))
    assert names(told) == ["TranscriptionFailed"]
    assert peer.last(fx.TranscriptionFailed).item_id == peer.last(fx.SpeechStarted).item_id


def test_transcription_switched_off_in_a_turn_is_not_told_any_more() -> None:
    peer = transcriber()
    peer.speech(LOOK_EVERY_MS)
    peer.recognize("One two")
    peer.feed(ev.UpdateSession(SettingsPatch(transcription=None)))
    peer.speech(2 * LOOK_EVERY_MS)
    assert len(partials(peer)) == 1
    peer.feed(ev.UpdateSession(SettingsPatch(transcription=TranscriptionPatch())))
    peer.speech(LOOK_EVERY_MS)
    assert deltas(peer.recognize("One two three")) == ["One two"]


@pytest.mark.parametrize("text", ["", "  "])
def test_a_look_that_hears_nothing_tells_nothing(text: str) -> None:
    peer = transcriber()
    for _ in range(3):
        peer.speech(LOOK_EVERY_MS)
        assert peer.recognize(text) == []
