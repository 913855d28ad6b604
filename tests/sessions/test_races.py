"""What crosses on its way: clients, turns, recognition and answers that overtake each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.peer import FRAME, NO_SPECULATION, SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.errors import ErrorInfo
from antiphon.sessions.items import NewItem, Part, PartKind, Role
from antiphon.sessions.settings import (
    Capabilities,
    Modality,
    SettingsPatch,
    Transcription,
    TurnDetection,
    TurnDetectionPatch,
)

VAD = TurnDetection(silence_duration_ms=500)
POLITE = TurnDetection(silence_duration_ms=500, interrupt_response=False)
TOLD = Transcription(model="whisper-1")


def say(text: str, item_id: str | None = None) -> ev.CreateItem:
    parts = (Part(PartKind.INPUT_TEXT, text),)
    return ev.CreateItem(NewItem(role=Role.USER, parts=parts, id=item_id))


def update(**turns: bool | int) -> ev.UpdateSession:
    return ev.UpdateSession(SettingsPatch(turn_detection=TurnDetectionPatch(**turns)))  # type: ignore[arg-type]


def drafting() -> Peer:
    """Return a peer in a pause, with an answer to "hello" being made ahead."""
    peer = Peer.attached(SPECULATION, VAD)
    peer.speech(600)
    peer.silence(200)
    peer.recognize("hello")
    return peer


def two_commits(peer: Peer) -> tuple[int, int]:
    """Commit twice; return the ids of both recognitions."""
    for _ in range(2):
        peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    first, second = of(wx.StartRecognition, peer.effects)[-2:]
    return first.recognition_id, second.recognition_id


def context(peer: Peer) -> list[str]:
    return [message.text for message in peer.last(wx.StartReply).messages]


# Commit and clear.


def test_a_commit_in_a_pause_takes_all_audio_and_leaves_no_draft() -> None:
    peer = drafting()
    peer.reply_text("Hi.")
    told = peer.feed(ev.CommitAudio())
    assert names(told) == [
        "AbortReply",
        "SpeechStopped",
        "BufferCommitted",
        "ItemAdded",
        "ItemDone",
        "StartRecognition",
    ]
    assert len(peer.last(wx.StartRecognition).pcm) == 48 * 800
    assert peer.last(fx.SpeechStopped).audio_end_ms == 800
    assert names(peer.silence(1000)) == []
    assert peer.count(fx.ResponseCreated) == 0


def test_a_commit_right_after_the_turn_was_committed_has_nothing_to_commit() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(500)
    assert names(peer.feed(ev.CommitAudio())) == ["ErrorRaised"]
    assert peer.last(fx.ErrorRaised).error.code == "input_audio_buffer_commit_empty"


def test_speech_that_goes_on_behind_a_commit_is_a_turn_of_its_own() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.feed(ev.CommitAudio())
    peer.speech(200)
    assert peer.last(fx.SpeechStarted).audio_start_ms == 600
    assert len({s.item_id for s in of(fx.SpeechStarted, peer.effects)}) == 2


def test_clear_in_a_pause_leaves_neither_turn_nor_draft() -> None:
    peer = drafting()
    assert names(peer.feed(ev.ClearAudio())) == ["AbortReply", "BufferCleared"]
    assert names(peer.silence(1000)) == []


def test_a_recognition_that_ends_behind_a_clear_says_nothing() -> None:
    peer = Peer.attached(SPECULATION, VAD, transcription=TOLD)
    peer.speech(600)
    peer.silence(200)
    assert names(peer.feed(ev.ClearAudio())) == ["CancelRecognition", "BufferCleared"]
    assert peer.recognize("hello") == []
    assert peer.session.counters.stale_dropped == 1


def test_clear_does_not_touch_what_is_committed() -> None:
    peer = Peer.attached(transcription=TOLD)
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio(), ev.ClearAudio())
    assert names(peer.recognize("hello")) == ["TranscriptionDelta", "TranscriptionDone"]


def test_two_commits_are_answered_together_once_both_are_recognized() -> None:
    peer = Peer.attached()
    first, second = two_commits(peer)
    peer.feed(ev.CreateResponse())
    assert names(peer.feed(ev.RecognitionEnded(second, "two"))) == []
    assert names(peer.feed(ev.RecognitionEnded(first, "one"))) == ["StartReply"]
    assert context(peer) == ["one", "two"]


def test_an_older_commit_that_fails_is_left_out_of_the_answer() -> None:
    peer = Peer.attached()
    first, second = two_commits(peer)
    peer.feed(ev.CreateResponse(), ev.RecognitionEnded(first, None))
    peer.feed(ev.RecognitionEnded(second, "two"))
    assert context(peer) == ["two"]


def test_two_recognitions_stuck_at_once_fail_the_answer_and_are_both_told() -> None:
    peer = Peer.attached(transcription=TOLD)
    two_commits(peer)
    peer.feed(ev.CreateResponse())
    told = peer.wait(61)
    assert names(told) == [
        "CancelRecognition",
        "TranscriptionFailed",
        "CancelRecognition",
        "TranscriptionFailed",
        "ResponseDone",
    ]
    error = peer.last(fx.ResponseDone).response.error
    assert error is not None
    assert error.code == "recognition_timeout"


# Recognition that fails or comes twice.


@pytest.mark.parametrize("first", [ev.CreateResponse(), None])
def test_a_failed_recognition_fails_the_answer_whichever_comes_first(
    first: ev.CreateResponse | None,
) -> None:
    peer = Peer.attached()
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    failed = ev.RecognitionEnded(1, None, "down", "It is down.")
    peer.feed(*((first, failed) if first else (failed, ev.CreateResponse())))
    done = peer.last(fx.ResponseDone).response
    assert done.status is fx.ResponseStatus.FAILED
    assert done.error is not None
    assert done.error.code == "down"


def test_a_later_turn_of_silence_is_no_failure_of_the_one_before() -> None:
    peer = Peer.attached()
    first, second = two_commits(peer)
    peer.feed(ev.RecognitionEnded(second, ""), ev.RecognitionEnded(first, None))
    peer.feed(ev.CreateResponse())
    assert peer.last(fx.ResponseDone).response.status is fx.ResponseStatus.COMPLETED


def test_own_instructions_are_followed_even_where_nothing_was_understood() -> None:
    peer = Peer.attached()
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio(), ev.RecognitionEnded(1, None))
    options = ev.ResponseOptions(instructions="Ask them to say it again.")
    assert names(peer.feed(ev.CreateResponse(options))) == ["ResponseCreated", "StartReply"]


def test_a_recognition_counts_once() -> None:
    peer = drafting()
    draft = peer.last(wx.StartReply).response_id
    peer.feed(ev.RecognitionEnded(1, "something else"), ev.RecognitionEnded(1, None))
    told = peer.silence(300)
    assert of(fx.ResponseCreated, told)[0].response.id == draft
    assert peer.count(wx.StartReply) == peer.count(wx.StartRecognition) == 1


# Items that go while they are needed.


def test_a_deleted_item_is_not_recognized_any_more_and_not_waited_for() -> None:
    peer = Peer.attached(transcription=TOLD)
    peer.feed(say("one"), ev.AppendAudio(FRAME * 10), ev.CommitAudio(), ev.CreateResponse())
    item_id = peer.last(fx.BufferCommitted).item_id
    told = peer.feed(ev.DeleteItem(item_id))
    assert names(told) == ["ItemDeleted", "CancelRecognition", "StartReply"]
    assert context(peer) == ["one"]
    assert peer.feed(ev.RecognitionEnded(1, "late")) == []


@pytest.mark.parametrize("text", ["late", None])
def test_an_item_that_made_room_is_not_told_of_any_more(text: str | None) -> None:
    can = replace(NO_SPECULATION, max_items=2)
    peer = Peer.attached(can, transcription=TOLD)
    two_commits(peer)
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    assert names(peer.feed(ev.RecognitionEnded(1, text))) == []
    assert names(peer.feed(ev.RecognitionEnded(2, text))) != []


@pytest.mark.parametrize("stalls", [False, True])
def test_the_id_of_an_open_turn_is_taken(stalls: bool) -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    promised = peer.last(fx.SpeechStarted).item_id
    peer.feed(say("mine", promised))
    assert peer.last(fx.ErrorRaised).error.code == "item_create_duplicate_item_id"
    told = peer.wait(2) if stalls else peer.silence(500)
    assert of(fx.ItemAdded, told)[0].item.id == promised


# Settings that change under a turn.


def test_turn_detection_switched_off_in_a_turn_leaves_its_audio_to_the_client() -> None:
    peer = drafting()
    off = ev.UpdateSession(SettingsPatch(turn_detection=None))
    assert names(peer.feed(off)) == ["SessionUpdated", "AbortReply", "StopListening"]
    told = peer.feed(ev.CommitAudio())
    assert names(told) == ["BufferCommitted", "ItemAdded", "ItemDone", "StartRecognition"]
    assert len(peer.last(wx.StartRecognition).pcm) == 48 * 800


def test_a_shorter_silence_holds_for_the_turn_that_is_open() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(300)
    assert names(peer.feed(update(silence_duration_ms=200))) == ["SessionUpdated"]
    assert names(peer.silence(20))[0] == "SpeechStopped"
    assert peer.last(fx.SpeechStopped).audio_end_ms == 800


def test_no_answer_is_given_when_answers_are_switched_off_in_a_pause() -> None:
    peer = drafting()
    assert names(peer.feed(update(create_response=False))) == ["SessionUpdated", "AbortReply"]
    assert names(peer.silence(1000)) == [
        "SpeechStopped",
        "BufferCommitted",
        "ItemAdded",
        "ItemDone",
    ]
    peer.feed(ev.CreateResponse())
    assert context(peer) == ["hello"]


def test_nothing_is_recognized_ahead_where_no_answer_is_wanted() -> None:
    peer = Peer.attached(SPECULATION, replace(VAD, create_response=False))
    peer.speech(600)
    assert names(peer.silence(480)) == []
    assert names(peer.silence(20))[-1] == "StartRecognition"


# Answers asked for while turns go on.


def test_an_answer_asked_for_in_a_pause_takes_the_place_of_the_draft() -> None:
    peer = drafting()
    told = peer.feed(ev.CreateResponse())
    assert names(told) == ["AbortReply", "ResponseCreated", "StartReply"]
    assert context(peer) == []
    peer.reply_text("Yes?")
    told = peer.silence(300)
    assert "ResponseCreated" not in names(told)
    told = peer.reply_end()
    assert names(told)[-2:] == ["ResponseCreated", "StartReply"]
    assert context(peer) == ["Yes?", "hello"]


def test_a_turn_that_ends_while_an_answer_waits_is_part_of_what_it_answers() -> None:
    peer = Peer.attached(turns=POLITE)
    peer.speech(600)
    peer.silence(500)
    peer.speech(600)
    peer.silence(500)
    first, second = of(wx.StartRecognition, peer.effects)
    peer.feed(ev.RecognitionEnded(first.recognition_id, "one"))
    peer.feed(ev.RecognitionEnded(second.recognition_id, "two"))
    assert context(peer) == ["one", "two"]
    peer.reply_text("Both.")
    assert names(peer.reply_end())[-1] == "ResponseDone"
    assert peer.count(fx.ResponseCreated) == 1


def queued() -> Peer:
    """Return a peer whose second turn waits until the first is answered."""
    peer = Peer.attached(turns=POLITE)
    peer.speech(600)
    peer.silence(500)
    peer.recognize("one")
    peer.reply_text("First.")
    peer.speech(600)
    peer.silence(500)
    return peer


def test_a_queued_turn_is_answered_when_the_client_cancels() -> None:
    peer = queued()
    peer.recognize("two")
    assert names(peer.feed(ev.CancelResponse()))[-2:] == ["ResponseCreated", "StartReply"]


def test_a_queued_turn_is_answered_when_the_reply_gets_stuck() -> None:
    peer = queued()
    peer.recognize("two")
    told = peer.wait(61)
    assert names(told)[-2:] == ["ResponseCreated", "StartReply"]


def test_a_queued_turn_that_is_not_recognized_fails_its_answer() -> None:
    peer = queued()
    peer.feed(ev.RecognitionEnded(2, None, "down", "It is down."))
    told = peer.reply_end()
    assert names(told)[-2:] == ["ResponseCreated", "ResponseDone"]
    assert peer.last(fx.ResponseDone).response.status is fx.ResponseStatus.FAILED


def test_a_queued_turn_is_forgotten_when_the_client_leaves() -> None:
    peer = queued()
    told = peer.feed(ev.Detached())
    assert "ResponseCreated" not in names(told)
    assert peer.count(fx.ResponseDone) == 1


def test_an_interruption_while_waiting_keeps_what_was_said_for_the_next_answer() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(500)
    peer.speech(200)
    peer.feed(ev.RecognitionEnded(1, "one"))
    peer.silence(500)
    peer.feed(ev.RecognitionEnded(2, "two"))
    assert context(peer) == ["one", "two"]
    statuses = [done.response.status for done in of(fx.ResponseDone, peer.effects)]
    assert statuses == [fx.ResponseStatus.CANCELLED]


def test_speech_stops_every_reply_that_is_still_played() -> None:
    peer = Peer.attached(turns=VAD)
    ids: list[str] = []
    for number in range(2):
        peer.feed(say(str(number)), ev.CreateResponse())
        ids.append(peer.last(wx.StartReply).response_id)
        peer.reply_text("one two")
        peer.reply_word("one", 0, 1000)
        peer.reply_word("two", 1000, 2000)
        peer.reply_audio(2000)
        peer.written(2000)
        peer.reply_end()
    epoch = peer.session.epoch
    told = peer.speech(100)
    assert [abort.response_id for abort in of(wx.AbortReply, told)] == ids
    assert peer.session.epoch == epoch + 1
    assert peer.session.counters.interruptions == 1
    assert names(peer.silence(600) + peer.speech(100)).count("AbortReply") == 1


def test_a_written_answer_is_not_played() -> None:
    peer = Peer.attached(turns=VAD, modality=Modality.TEXT)
    peer.feed(say("hi"), ev.CreateResponse())
    peer.reply_text("Hello there.")
    peer.reply_end()
    assert names(peer.speech(100)) == ["SpeechStarted"]


# Drafts.


def test_a_draft_that_failed_is_made_again_when_the_turn_is_over() -> None:
    peer = drafting()
    assert names(peer.reply_end(ev.ReplyOutcome.FAILED, "overloaded")) == ["AbortReply"]
    assert names(peer.silence(300))[-2:] == ["ResponseCreated", "StartReply"]
    assert context(peer) == ["hello"]


def test_a_draft_that_goes_silent_is_dropped_at_its_deadline() -> None:
    can = replace(SPECULATION, stage_timeout_s=1.0)
    peer = Peer.attached(can, TurnDetection(silence_duration_ms=5000))
    peer.speech(600)
    peer.silence(200)
    peer.recognize("hello")
    assert names(peer.wait(1.1)) == ["AbortReply"]


def test_a_second_pause_makes_a_second_draft() -> None:
    peer = drafting()
    peer.speech(100)
    peer.silence(200)
    peer.recognize("hello you")
    aborted = [abort.response_id for abort in of(wx.AbortReply, peer.effects)]
    assert aborted == [of(wx.StartReply, peer.effects)[0].response_id]
    peer.silence(300)
    assert context(peer) == ["hello you"]
    assert peer.count(wx.StartReply) == 2


def test_nothing_is_prepared_while_a_commit_is_being_recognized() -> None:
    peer = Peer.attached(SPECULATION, VAD)
    peer.silence(200)
    peer.feed(ev.CommitAudio())
    peer.speech(600)
    peer.silence(200)
    assert names(peer.recognize("hello")) == []
    peer.feed(ev.RecognitionEnded(1, "before"))
    peer.silence(300)
    assert context(peer) == ["before", "hello"]


# Audio that comes in bursts, and voice activity that lags or fails.


def test_a_turn_is_not_over_because_its_audio_is_judged_late() -> None:
    peer = Peer.attached(turns=VAD)
    peer.feed(ev.AppendAudio(FRAME * 200))
    for _ in range(4):
        peer.wait(1.0)
        peer.feed(ev.SpeechScored(1, (1.0,) * 40, 20))
    assert peer.count(fx.SpeechStopped) == 0
    assert names(peer.wait(1.51))[0] == "SpeechStopped"


def test_silence_is_let_go_only_once_it_is_judged() -> None:
    can = replace(NO_SPECULATION, max_input_ms=2000)
    peer = Peer.attached(can, VAD)
    peer.silence(10_000)
    assert peer.count(fx.ErrorRaised) == 0
    peer.speech(600)
    peer.silence(500)
    assert len(peer.last(wx.StartRecognition).pcm) == 48 * (300 + 600 + 500)
    peer.feed(*[ev.AppendAudio(FRAME * 50)] * 3)
    assert peer.last(fx.ErrorRaised).error.code == "input_audio_buffer_full"


def test_an_append_that_could_never_fit_does_not_end_the_turn() -> None:
    can = replace(NO_SPECULATION, max_input_ms=1000)
    peer = Peer.attached(can, VAD)
    peer.speech(400)
    assert names(peer.feed(ev.AppendAudio(FRAME * 51))) == ["ErrorRaised"]
    assert peer.count(fx.SpeechStopped) == 0


def test_a_turn_open_when_voice_activity_fails_is_answered() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    told = peer.feed(ev.ListeningFailed(1, "gone"))
    assert names(told) == [
        "SpeechStopped",
        "BufferCommitted",
        "ItemAdded",
        "ItemDone",
        "StartRecognition",
        "ResponseCreated",
        "StartListening",
    ]
    assert peer.feed(ev.ListeningFailed(1, "gone")) == []
    peer.speech(200)
    assert peer.last(fx.SpeechStarted).audio_start_ms == 600


def test_voice_activity_that_was_given_up_is_tried_when_the_client_asks_again() -> None:
    peer = Peer.attached(turns=VAD)
    for listen_id in range(1, 5):
        peer.feed(ev.ListeningFailed(listen_id, "gone"))
    assert names(peer.speech(600)) == []
    assert names(peer.feed(update(threshold=1))) == ["SessionUpdated", "StartListening"]


# Bounds.


def test_a_response_may_not_have_endless_instructions() -> None:
    peer = Peer.attached(Capabilities(voices=("ada",), max_text_chars=10))
    peer.feed(ev.CreateResponse(ev.ResponseOptions(instructions="x" * 11)))
    assert peer.last(fx.ErrorRaised).error.param == "response.instructions"
    peer.feed(say("x" * 11))
    assert peer.last(fx.ErrorRaised).error.param == "item.content"
    assert peer.count(fx.ItemAdded) == peer.count(fx.ResponseCreated) == 0


def test_a_message_that_is_not_understood_is_told_and_changes_nothing() -> None:
    peer = Peer.attached()
    error = ErrorInfo("invalid_value", "What?")
    assert peer.feed(ev.RejectMessage(error)) == [fx.ErrorRaised(error)]


def test_a_deadline_that_comes_early_changes_nothing() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.session.handle_deadline(peer.now)
    assert peer.session.next_effect() is None
    assert peer.session.conversation_id.startswith("conv_")


@pytest.mark.parametrize("asked", [True, False])
def test_where_the_time_of_a_turn_went_is_always_measured_and_words_told_where_asked(
    asked: bool,
) -> None:
    peer = Peer.attached(turns=VAD, extensions=asked)
    peer.speech(600)
    peer.silence(500)
    peer.wait(0.2)
    peer.recognize("hello")
    started = peer.last(wx.StartReply)
    key = (started.response_id, started.epoch)
    peer.feed(ev.ReplyTimed(*key, peer.now, peer.now + 0.1, peer.now + 0.1, peer.now + 0.2))
    peer.reply_word("Hi.", 0, 100)
    peer.reply_audio(100)
    peer.wait(0.3)
    told = of(fx.TurnMeasured, peer.written(50) + peer.written(50))
    times = [(m.endpointing_ms, m.recognition_ms, m.total_ms) for m in told]
    assert times == [(500.0, 200.0, 1000.0)]
    assert [spoken.word for spoken in of(fx.WordSpoken, peer.effects)] == ["Hi."] * asked
