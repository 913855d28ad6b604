"""Responses that are given their own input, and their own settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.peer import FRAME, NO_SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import items_in
from antiphon.sessions import work_effects as wx
from antiphon.sessions.items import ItemKind, ItemStatus, NewItem, Part, PartKind, Role
from antiphon.sessions.settings import (
    AudioFormat,
    Capabilities,
    Modality,
    SettingsPatch,
    TurnDetection,
)

SEEING = replace(NO_SPECULATION, sees=True)
URL = "data:image/png;base64,AA=="


def new(*parts: Part, role: Role = Role.USER) -> NewItem:
    return NewItem(role=role, parts=parts)


def text(said: str, item_id: str | None = None) -> NewItem:
    return replace(new(Part(PartKind.INPUT_TEXT, said)), id=item_id)


def asking(*given: NewItem | ev.ItemReference, aside: bool = False) -> ev.CreateResponse:
    return ev.CreateResponse(ev.ResponseOptions(input=given, out_of_band=aside), "e")


def context(peer: Peer) -> list[str]:
    return [message.text for message in peer.last(wx.StartReply).messages]


@pytest.mark.parametrize("aside", [False, True])
def test_input_replaces_the_conversation_but_not_the_instructions(aside: bool) -> None:
    peer = Peer.attached(instructions="Be brief.")
    peer.feed(ev.CreateItem(text("one", "a")), ev.CreateItem(text("two", "b")))
    told = peer.feed(asking(text("three"), ev.ItemReference("a"), aside=aside))
    assert names(told) == ["ResponseCreated", "StartReply"]
    assert context(peer) == ["Be brief.", "three", "one"]
    peer.reply_text("four")
    peer.reply_end()
    peer.feed(ev.CreateResponse())
    assert context(peer) == ["Be brief.", "one", "two"] + ["four"] * (not aside)


def test_an_empty_input_is_an_empty_context() -> None:
    peer = Peer.attached(instructions="Say hello.")
    peer.feed(ev.CreateItem(text("one")), asking())
    assert context(peer) == ["Say hello."]


def test_something_is_said_to_an_input_whatever_the_person_said_last() -> None:
    peer = Peer.attached()
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    peer.recognize("")
    peer.feed(asking(text("one")))
    assert context(peer) == ["one"]


def test_an_input_with_calls_is_shown_as_calls() -> None:
    peer = Peer.attached()
    call = NewItem(kind=ItemKind.FUNCTION_CALL, call_id="c", name="f", arguments="{}")
    output = NewItem(kind=ItemKind.FUNCTION_OUTPUT, call_id="c", output="42")
    peer.feed(asking(text("one"), call, output))
    assert [message.role for message in peer.last(wx.StartReply).messages] == [
        "user",
        "assistant",
        "tool",
    ]


def test_an_unknown_reference_is_refused_by_name() -> None:
    peer = Peer.attached()
    assert names(peer.feed(asking(text("one"), ev.ItemReference("none")))) == ["ErrorRaised"]
    error = peer.last(fx.ErrorRaised).error
    assert error.code == "item_reference_invalid_item_id"
    assert error.param == "response.input[1].id"


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        (new(Part(PartKind.INPUT_AUDIO)), "unsupported_content_type", "content[0]"),
        (
            new(Part(PartKind.INPUT_TEXT, "x"), Part(PartKind.INPUT_IMAGE, image_url=URL)),
            "unsupported_content_type",
            "content[1].type",
        ),
        (text("x" * 11), "string_above_max_length", "content"),
        (NewItem(kind=ItemKind.FUNCTION_OUTPUT), "missing_required_parameter", "call_id"),
    ],
)
def test_an_input_item_that_is_not_allowed_is_refused_by_name(
    item: NewItem, code: str, param: str
) -> None:
    peer = Peer.attached(replace(NO_SPECULATION, max_text_chars=10))
    assert names(peer.feed(asking(text("one"), item))) == ["ErrorRaised"]
    error = peer.last(fx.ErrorRaised).error
    assert (error.code, error.param) == (code, f"response.input[1].{param}")


def test_an_input_has_no_more_items_than_a_conversation() -> None:
    peer = Peer.attached(replace(NO_SPECULATION, max_items=3))
    peer.feed(asking(*[text("x")] * 4))
    assert peer.last(fx.ErrorRaised).error.param == "response.input"
    assert names(peer.feed(asking(*[text("x")] * 3))) == ["ResponseCreated", "StartReply"]


def test_images_of_an_input_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items_in, "MAX_IMAGE_BYTES", 100)
    peer = Peer.attached(SEEING)
    image = new(Part(PartKind.INPUT_IMAGE, image_url="x" * 60))
    peer.feed(asking(image, image))
    error = peer.last(fx.ErrorRaised).error
    assert (error.code, error.param) == ("string_above_max_length", "response.input")
    assert names(peer.feed(asking(image)))[-1] == "StartReply"


def test_audio_with_its_transcript_is_read() -> None:
    peer = Peer.attached()
    peer.feed(asking(new(Part(PartKind.INPUT_AUDIO, "hello"))))
    assert context(peer) == ["hello"]


def test_an_image_is_shown_to_a_model_that_sees() -> None:
    peer = Peer.attached(SEEING)
    peer.feed(asking(new(Part(PartKind.INPUT_IMAGE, image_url=URL))))
    assert peer.last(wx.StartReply).messages == (wx.ContextMessage("user", "", (URL,)),)


def test_a_reference_is_waited_for_and_an_own_text_is_not() -> None:
    peer = Peer.attached()
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    item_id = peer.last(fx.BufferCommitted).item_id
    peer.feed(asking(text("at once"), aside=True))
    assert context(peer) == ["at once"]
    assert names(peer.feed(asking(ev.ItemReference(item_id)))) == ["ResponseCreated"]
    assert names(peer.recognize("hello")) == ["StartReply"]
    assert context(peer) == ["hello"]


def test_a_referenced_item_that_is_deleted_meanwhile_is_left_out() -> None:
    peer = Peer.attached()
    peer.feed(ev.CreateItem(text("one", "a")), ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    item_id = peer.last(fx.BufferCommitted).item_id
    peer.feed(asking(ev.ItemReference("a"), ev.ItemReference(item_id)), ev.DeleteItem(item_id))
    assert context(peer) == ["one"]


def test_a_failed_recognition_does_not_fail_a_response_with_its_own_input() -> None:
    peer = Peer.attached()
    peer.feed(ev.CreateItem(text("one", "a")), ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    peer.feed(asking(ev.ItemReference("a")))
    peer.feed(ev.RecognitionEnded(1, None, "down", "It is down."))
    assert context(peer) == ["one"]


def test_a_turn_that_ends_while_an_input_waits_is_answered_next() -> None:
    polite = TurnDetection(silence_duration_ms=300, interrupt_response=False)
    peer = Peer.attached(turns=polite)
    peer.feed(ev.CreateItem(text("one", "a")), ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    peer.feed(asking(ev.ItemReference("a")))
    peer.speech(600)
    peer.silence(300)
    for started in of(wx.StartRecognition, peer.effects):
        peer.feed(ev.RecognitionEnded(started.recognition_id, f"said {started.recognition_id}"))
    assert context(peer) == ["one"]
    assert names(peer.reply_end())[-2:] == ["ResponseCreated", "StartReply"]
    assert context(peer) == ["one", "said 1", "said 2"]


def test_settings_of_a_response_are_shown_where_it_begins_and_ends_and_hold_for_it_alone() -> None:
    peer = Peer.attached(instructions="Long.")
    options = ev.ResponseOptions(
        instructions="Short.",
        modality=Modality.TEXT,
        voice="bob",
        output_format=AudioFormat.PCMU,
        max_output_tokens=7,
        temperature=0.7,
        metadata=(("client_event_id", "x"),),
    )
    peer.feed(ev.CreateResponse(options))
    started = peer.last(wx.StartReply)
    assert (started.speak, started.voice, started.max_output_tokens) == (False, "bob", 7)
    peer.reply_end()
    for view in (peer.last(fx.ResponseCreated).response, peer.last(fx.ResponseDone).response):
        assert (view.modality, view.voice) == (Modality.TEXT, "bob")
        assert (view.output_format, view.max_output_tokens) == (AudioFormat.PCMU, 7)
        assert (view.temperature, view.metadata) == (0.7, (("client_event_id", "x"),))
    peer.feed(ev.CreateResponse())
    view = peer.last(fx.ResponseCreated).response
    assert (view.modality, view.voice, view.metadata) == (Modality.AUDIO, "ada", None)


def test_a_response_that_reached_its_bound_has_the_whole_tail() -> None:
    peer = Peer.attached()
    peer.feed(ev.CreateResponse(ev.ResponseOptions(max_output_tokens=2)))
    peer.reply_text("one two")
    told = peer.reply_end(ev.ReplyOutcome.LENGTH)
    assert names(told)[-4:] == ["ContentPartDone", "ItemDone", "OutputItemDone", "ResponseDone"]
    done = peer.last(fx.ResponseDone).response
    assert (done.status, done.reason) == (fx.ResponseStatus.INCOMPLETE, "max_output_tokens")
    assert done.output[0].status is ItemStatus.INCOMPLETE
    assert done.usage is not None


def test_new_instructions_hold_for_the_next_response_and_not_for_the_running_one() -> None:
    peer = Peer.attached(instructions="Old.")
    peer.feed(ev.CreateResponse())
    peer.feed(ev.UpdateSession(SettingsPatch(instructions="New.", modality=Modality.TEXT)))
    peer.reply_audio(100)
    assert peer.count(fx.AudioDelta) == 1
    peer.reply_end()
    peer.feed(ev.CreateResponse())
    assert context(peer) == ["New."]
    assert not peer.last(wx.StartReply).speak


def test_a_client_that_asked_for_text_gets_no_sound() -> None:
    peer = Peer.attached(modality=Modality.TEXT)
    peer.feed(ev.CreateResponse())
    peer.reply_text("one")
    assert peer.reply_audio(100) == peer.reply_word("one", 0, 100) == []
    assert "AudioDone" not in names(peer.reply_end())


def test_a_commit_is_no_response_of_its_own() -> None:
    peer = Peer.attached(Capabilities(voices=("ada",)))
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio(), ev.CreateResponse())
    assert peer.count(fx.ErrorRaised) == 0
    assert peer.count(fx.ResponseCreated) == 1
