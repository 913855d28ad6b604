"""Whole turns through the core: push-to-talk, turn detection, text."""

from __future__ import annotations

import pytest
from tests.support.peer import FRAME, NO_SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.items import ItemStatus, NewItem, Part, PartKind, Role
from antiphon.sessions.settings import (
    Modality,
    SettingsPatch,
    Transcription,
    TurnDetection,
    TurnDetectionPatch,
)

VAD = TurnDetection(silence_duration_ms=300)


def say(text: str, item_id: str | None = None) -> ev.CreateItem:
    return ev.CreateItem(
        NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, text),), id=item_id)
    )


def test_session_created_is_the_first_thing_told() -> None:
    peer = Peer.attached(turns=VAD)
    assert names(peer.effects) == ["SessionCreated", "StartListening"]


def test_a_spoken_turn_has_the_protocols_order() -> None:
    peer = Peer.attached(turns=VAD, transcription=Transcription(model="whisper-1"))
    told = peer.silence(200) + peer.speech(600) + peer.silence(300)
    assert names(told) == [
        "SpeechStarted",
        "SpeechStopped",
        "BufferCommitted",
        "ItemAdded",
        "ItemDone",
        "StartRecognition",
        "ResponseCreated",
    ]
    told = peer.recognize("hello")
    assert names(told) == ["TranscriptionDelta", "TranscriptionDone", "StartReply"]
    assert peer.last(wx.StartReply).messages == (wx.ContextMessage("user", "hello"),)
    told = peer.reply_text("Hi.") + peer.reply_audio(100) + peer.reply_end()
    assert names(told) == [
        "OutputItemAdded",
        "ItemAdded",
        "ContentPartAdded",
        "TranscriptDelta",
        "AudioDelta",
        "AudioDone",
        "TranscriptDone",
        "ContentPartDone",
        "ItemDone",
        "OutputItemDone",
        "ResponseDone",
    ]
    done = peer.last(fx.ResponseDone).response
    assert done.status is fx.ResponseStatus.COMPLETED
    assert done.output[0].status is ItemStatus.COMPLETED
    assert done.usage is not None


def test_the_items_of_a_spoken_turn_follow_each_other() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(300)
    user = peer.last(fx.ItemAdded)
    assert user.previous_item_id is None
    assert user.item.id == peer.last(fx.SpeechStarted).item_id
    peer.recognize("hello")
    peer.reply_text("Hi.")
    assert peer.last(fx.ItemAdded).previous_item_id == user.item.id


def test_positions_count_all_audio_and_include_padding_and_silence() -> None:
    peer = Peer.attached(turns=TurnDetection(silence_duration_ms=300, prefix_padding_ms=100))
    peer.silence(1000)
    peer.speech(500)
    peer.silence(300)
    assert peer.last(fx.SpeechStarted).audio_start_ms == 900
    assert peer.last(fx.SpeechStopped).audio_end_ms == 1800
    assert len(peer.last(wx.StartRecognition).pcm) == 48 * 900


def test_padding_never_reaches_into_the_turn_before() -> None:
    peer = Peer.attached(turns=TurnDetection(silence_duration_ms=100, prefix_padding_ms=1000))
    peer.speech(200)
    peer.silence(100)
    peer.speech(200)
    assert peer.last(fx.SpeechStarted).audio_start_ms == 300


def test_a_click_starts_no_turn() -> None:
    peer = Peer.attached(turns=VAD)
    assert names(peer.speech(80) + peer.silence(1000)) == []


def test_a_short_noise_does_not_end_a_pause() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(400)
    told = peer.silence(160) + peer.speech(40) + peer.silence(100)
    assert "SpeechStopped" in names(told)


def test_push_to_talk_commits_and_answers_when_told() -> None:
    peer = Peer.attached()
    assert names(peer.feed(ev.AppendAudio(FRAME * 10))) == []
    told = peer.feed(ev.CommitAudio())
    assert names(told) == ["BufferCommitted", "ItemAdded", "ItemDone", "StartRecognition"]
    assert names(peer.feed(ev.CreateResponse())) == ["ResponseCreated"]
    assert names(peer.recognize("hi")) == ["StartReply"]


def test_an_answer_asked_for_after_recognition_starts_at_once() -> None:
    peer = Peer.attached()
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    peer.recognize("hi")
    assert names(peer.feed(ev.CreateResponse())) == ["ResponseCreated", "StartReply"]


def test_a_text_turn_has_no_audio_events() -> None:
    peer = Peer.attached(modality=Modality.TEXT)
    peer.feed(say("hi"))
    peer.feed(ev.CreateResponse())
    assert not peer.last(wx.StartReply).speak
    told = peer.reply_text("Hel") + peer.reply_text("lo") + peer.reply_end()
    assert names(told) == [
        "OutputItemAdded",
        "ItemAdded",
        "ContentPartAdded",
        "TextDelta",
        "TextDelta",
        "TextDone",
        "ContentPartDone",
        "ItemDone",
        "OutputItemDone",
        "ResponseDone",
    ]
    assert peer.last(fx.TextDone).text == "Hello"


def test_the_context_holds_instructions_and_both_sides() -> None:
    peer = Peer.attached(instructions="Be brief.")
    peer.feed(say("one"), ev.CreateResponse())
    peer.reply_text("two")
    peer.reply_end()
    peer.feed(say("three"), ev.CreateResponse())
    assert [(m.role, m.text) for m in peer.last(wx.StartReply).messages] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]


def test_a_second_response_is_refused_while_one_runs() -> None:
    peer = Peer.attached()
    peer.feed(say("one"), ev.CreateResponse())
    peer.feed(ev.CreateResponse(event_id="again"))
    error = peer.last(fx.ErrorRaised).error
    assert error.code == "conversation_already_has_active_response"
    assert error.event_id == "again"
    peer.reply_text("still here")
    assert peer.last(fx.TranscriptDelta).text == "still here"


def test_options_of_a_response_hold_for_it_alone() -> None:
    peer = Peer.attached(instructions="Long.")
    options = ev.ResponseOptions(
        instructions="Short.",
        modality=Modality.TEXT,
        max_output_tokens=7,
        metadata=(("topic", "x"),),
    )
    peer.feed(say("one"), ev.CreateResponse(options))
    started = peer.last(wx.StartReply)
    assert (started.speak, started.max_output_tokens) == (False, 7)
    assert started.messages[0] == wx.ContextMessage("system", "Short.")
    peer.reply_end()
    assert peer.last(fx.ResponseDone).response.metadata == (("topic", "x"),)
    peer.feed(ev.CreateResponse())
    assert peer.last(wx.StartReply).messages[0] == wx.ContextMessage("system", "Long.")


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (ev.ReplyOutcome.LENGTH, fx.ResponseStatus.INCOMPLETE, "max_output_tokens"),
        (ev.ReplyOutcome.FAILED, fx.ResponseStatus.FAILED, None),
    ],
)
def test_every_ending_has_its_full_tail(
    outcome: ev.ReplyOutcome, status: fx.ResponseStatus, reason: str | None
) -> None:
    peer = Peer.attached()
    peer.feed(say("one"), ev.CreateResponse())
    peer.reply_text("two")
    told = peer.reply_end(outcome, "broken")
    assert names(told) == [
        "AudioDone",
        "TranscriptDone",
        "ContentPartDone",
        "ItemDone",
        "OutputItemDone",
        "ResponseDone",
    ]
    done = peer.last(fx.ResponseDone).response
    assert (done.status, done.reason) == (status, reason)
    assert done.usage is not None


def test_a_failed_recognition_fails_the_answer_that_waited_for_it() -> None:
    peer = Peer.attached(turns=VAD, transcription=Transcription(model="whisper-1"))
    peer.speech(600)
    peer.silence(300)
    started = peer.last(wx.StartRecognition)
    told = peer.feed(ev.RecognitionEnded(started.recognition_id, None, "down", "It is down."))
    assert names(told) == ["TranscriptionFailed", "ResponseDone"]
    done = peer.last(fx.ResponseDone).response
    assert done.status is fx.ResponseStatus.FAILED
    assert done.error is not None
    assert done.error.code == "down"


def test_nothing_said_is_answered_with_nothing() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(300)
    assert names(peer.recognize(" ")) == ["ResponseDone"]
    done = peer.last(fx.ResponseDone).response
    assert done.status is fx.ResponseStatus.COMPLETED
    assert done.output == ()


def test_no_transcription_is_told_to_a_client_that_asked_for_none() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(300)
    peer.recognize("hello")
    assert peer.count(fx.TranscriptionDone) == 0


def test_turns_are_only_committed_when_no_answer_is_wanted() -> None:
    peer = Peer.attached(turns=TurnDetection(silence_duration_ms=300, create_response=False))
    peer.speech(600)
    assert names(peer.silence(300)) == [
        "SpeechStopped",
        "BufferCommitted",
        "ItemAdded",
        "ItemDone",
        "StartRecognition",
    ]


def test_a_client_commit_ends_the_turn_that_is_open() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    told = peer.feed(ev.CommitAudio())
    assert names(told) == [
        "SpeechStopped",
        "BufferCommitted",
        "ItemAdded",
        "ItemDone",
        "StartRecognition",
    ]
    assert peer.last(fx.BufferCommitted).item_id == peer.last(fx.SpeechStarted).item_id
    assert names(peer.silence(1000)) == []


def test_too_little_audio_cannot_be_committed() -> None:
    peer = Peer.attached()
    peer.feed(ev.AppendAudio(FRAME * 4), ev.CommitAudio(event_id="c"))
    error = peer.last(fx.ErrorRaised).error
    assert error.code == "input_audio_buffer_commit_empty"
    assert "80.00ms" in error.message
    assert error.event_id == "c"
    peer.feed(ev.AppendAudio(FRAME), ev.CommitAudio())
    assert peer.count(fx.BufferCommitted) == 1


def test_clear_forgets_audio_and_turn() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    assert names(peer.feed(ev.ClearAudio())) == ["BufferCleared"]
    assert names(peer.silence(1000)) == []
    peer.speech(200)
    assert peer.last(fx.SpeechStarted).audio_start_ms == 1600 - 300


def test_audio_that_stops_coming_ends_the_turn() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    told = peer.wait(1.31)
    assert "SpeechStopped" in names(told)
    assert "ResponseCreated" in names(told)


def test_a_full_buffer_is_refused_whole_and_keeps_what_it_has() -> None:
    can = type(NO_SPECULATION)(voices=("ada",), max_input_ms=200, speculate_ms=0)
    peer = Peer.attached(can)
    peer.feed(ev.AppendAudio(FRAME * 10), ev.AppendAudio(FRAME))
    assert peer.last(fx.ErrorRaised).error.code == "input_audio_buffer_full"
    peer.feed(ev.CommitAudio())
    assert peer.last(wx.StartRecognition).pcm == FRAME * 10


def test_a_turn_longer_than_the_buffer_ends_there() -> None:
    can = type(NO_SPECULATION)(voices=("ada",), max_input_ms=1000, speculate_ms=0)
    peer = Peer.attached(can, VAD)
    peer.speech(1500)
    assert peer.count(fx.BufferCommitted) == 1
    assert peer.count(fx.ErrorRaised) == 0


def test_turn_detection_can_be_switched_off_and_on() -> None:
    peer = Peer.attached(turns=VAD)
    off = ev.UpdateSession(SettingsPatch(turn_detection=None))
    assert names(peer.feed(off)) == ["SessionUpdated", "StopListening"]
    assert names(peer.speech(600)) == []
    on = ev.UpdateSession(SettingsPatch(turn_detection=TurnDetectionPatch()))
    assert names(peer.feed(on)) == ["SessionUpdated", "StartListening"]
    peer.speech(200)
    assert peer.last(fx.SpeechStarted).audio_start_ms == 600


def test_scores_of_an_earlier_listening_are_dropped() -> None:
    peer = Peer.attached(turns=VAD)
    old = peer.last(wx.StartListening).listen_id
    for patch in (None, TurnDetectionPatch()):
        peer.feed(ev.UpdateSession(SettingsPatch(turn_detection=patch)))
    assert peer.feed(ev.SpeechScored(old, (1.0,) * 20, 20)) == []


def test_voice_activity_that_fails_is_opened_again_then_given_up() -> None:
    peer = Peer.attached(turns=VAD)
    for _ in range(3):
        told = peer.feed(ev.ListeningFailed(peer.last(wx.StartListening).listen_id, "gone"))
        assert names(told) == ["StartListening"]
    told = peer.feed(ev.ListeningFailed(peer.last(wx.StartListening).listen_id, "gone"))
    assert names(told) == ["ErrorRaised"]


def test_a_reply_that_goes_silent_fails_at_its_deadline() -> None:
    peer = Peer.attached()
    peer.feed(say("one"), ev.CreateResponse())
    peer.reply_text("two")
    assert peer.wait(59) == []
    told = peer.wait(1.1)
    assert names(told)[0] == "AbortReply"
    assert names(told)[-1] == "ResponseDone"
    assert peer.last(fx.ResponseDone).response.status is fx.ResponseStatus.FAILED


def test_a_recognition_that_goes_silent_fails_at_its_deadline() -> None:
    peer = Peer.attached()
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio(), ev.CreateResponse())
    told = peer.wait(61)
    assert names(told) == ["CancelRecognition", "ResponseDone"]


def test_the_session_ends_at_its_limit() -> None:
    peer = Peer.attached()
    peer.feed(say("one"), ev.CreateResponse())
    told = peer.wait(3601)
    assert names(told)[-2:] == ["ErrorRaised", "CloseConnection"] or names(told)[-1] == (
        "CloseConnection"
    )
    assert peer.last(fx.ErrorRaised).error.code == "session_expired"
    assert peer.count(fx.ResponseDone) == 1
    assert peer.feed(say("late")) == []


def test_a_client_that_leaves_ends_everything_once() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(300)
    peer.recognize("hello")
    peer.speech(600)
    told = peer.feed(ev.Detached())
    assert "StopListening" in names(told)
    assert peer.count(fx.ResponseDone) == peer.count(fx.ResponseCreated) == 1
    assert peer.session.deadline is None
    assert peer.feed(ev.Detached()) == []


def test_created_audio_is_recognized_before_it_is_answered() -> None:
    peer = Peer.attached()
    audio = NewItem(
        role=Role.USER, parts=(Part(PartKind.INPUT_AUDIO),), id="mine", audio=FRAME * 10
    )
    told = peer.feed(ev.CreateItem(audio), ev.CreateResponse())
    assert names(told) == ["ItemAdded", "ItemDone", "StartRecognition", "ResponseCreated"]
    peer.recognize("hi")
    assert peer.last(wx.StartReply).messages == (wx.ContextMessage("user", "hi"),)


def test_items_are_placed_retrieved_and_deleted() -> None:
    peer = Peer.attached()
    peer.feed(say("b", "b"))
    first = ev.CreateItem(say("a", "a").item, "root")
    assert of(fx.ItemAdded, peer.feed(first))[0].previous_item_id is None
    second = ev.CreateItem(say("c", "c").item, "a")
    assert of(fx.ItemAdded, peer.feed(second))[0].previous_item_id == "a"
    assert of(fx.ItemRetrieved, peer.feed(ev.RetrieveItem("c")))[0].item.text == "c"
    assert names(peer.feed(ev.DeleteItem("c"))) == ["ItemDeleted"]
    peer.feed(ev.CreateResponse())
    assert [m.text for m in peer.last(wx.StartReply).messages] == ["a", "b"]


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (ev.RetrieveItem("none", "e"), "item_retrieve_invalid_item_id"),
        (ev.DeleteItem("none", "e"), "item_delete_invalid_item_id"),
        (ev.TruncateItem("none", 0, 0, "e"), "item_truncate_invalid_item_id"),
        (ev.TruncateItem("a", 0, 0, "e"), "unsupported_content_type"),
        (
            ev.CreateItem(say("x", "a").item, None, "e"),
            "item_create_duplicate_item_id",
        ),
        (
            ev.CreateItem(say("x", "x").item, "none", "e"),
            "item_create_invalid_previous_item_id",
        ),
        (ev.CancelResponse(None, "e"), "response_cancel_not_active"),
        (ev.CancelResponse("resp_x", "e"), "response_cancel_not_active"),
        (ev.CreateResponse(ev.ResponseOptions(voice="eve"), "e"), "invalid_value"),
        (ev.CreateResponse(ev.ResponseOptions(max_output_tokens=0), "e"), "invalid_value"),
        (ev.AppendAudio(b"\x00", "e"), "invalid_value"),
    ],
)
def test_the_impossible_is_refused_and_the_session_goes_on(event: ev.Event, code: str) -> None:
    peer = Peer.attached()
    peer.feed(say("a", "a"))
    told = peer.feed(event)
    assert names(told) == ["ErrorRaised"]
    error = peer.last(fx.ErrorRaised).error
    assert (error.code, error.event_id) == (code, "e")
    peer.feed(ev.CreateResponse())
    assert peer.count(wx.StartReply) == 1


def test_a_failed_update_changes_nothing() -> None:
    peer = Peer.attached()
    patch = SettingsPatch(instructions="new", speed=9.0)
    peer.feed(ev.UpdateSession(patch, "u"))
    error = peer.last(fx.ErrorRaised).error
    assert error.param == "session.audio.output.speed"
    assert peer.session.settings.instructions == ""


def test_the_voice_is_fixed_once_it_has_spoken() -> None:
    peer = Peer.attached()
    other = ev.UpdateSession(SettingsPatch(voice="bob"))
    same = ev.UpdateSession(SettingsPatch(voice="ada"))
    peer.feed(say("one"), ev.CreateResponse())
    peer.reply_text("two")
    assert names(peer.feed(other)) == ["ErrorRaised"]
    assert peer.last(fx.ErrorRaised).error.code == "cannot_update_voice"
    assert names(peer.feed(same)) == ["SessionUpdated"]


def test_time_that_goes_backwards_is_ignored() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    before = peer.session.deadline
    peer.session.handle(ev.AppendAudio(FRAME), 0.0)
    assert before is not None
    assert peer.session.deadline is not None
    assert peer.session.deadline.at >= before.at


def test_a_failed_reply_says_when_to_ask_again() -> None:
    peer = Peer.attached()
    peer.feed(say("one"), ev.CreateResponse())
    started = peer.last(wx.StartReply)
    peer.feed(
        ev.ReplyEnded(
            started.response_id, started.epoch, ev.ReplyOutcome.FAILED, "busy", "Busy.", 900
        )
    )
    error = peer.last(fx.ResponseDone).response.error
    assert error is not None
    assert (error.code, error.retry_after_ms) == ("busy", 900)


def test_too_many_items_can_not_wait_to_be_recognized() -> None:
    peer = Peer.attached()
    for _ in range(17):
        peer.feed(ev.AppendAudio(FRAME * 5), ev.CommitAudio("c"))
    assert peer.count(wx.StartRecognition) == 16
    assert peer.last(fx.ErrorRaised).error.code == "too_many_recognitions"
    audio = NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_AUDIO),), audio=FRAME * 10)
    assert names(peer.feed(ev.CreateItem(audio))) == ["ErrorRaised"]
    peer.recognize("one of them")
    assert "BufferCommitted" in names(peer.feed(ev.CommitAudio()))


def test_turns_that_nobody_can_recognize_are_refused_as_they_come() -> None:
    peer = Peer.attached(turns=TurnDetection(silence_duration_ms=100, create_response=False))
    for _ in range(17):
        peer.speech(200)
        peer.silence(200)
    assert peer.count(wx.StartRecognition) == 16
    assert peer.last(fx.ErrorRaised).error.code == "too_many_recognitions"
