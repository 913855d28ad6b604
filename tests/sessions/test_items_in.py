"""Items that clients make: where they go, what is allowed, what is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.peer import FRAME, NO_SPECULATION, Peer, names, of

from antiphon.sessions import conversation as conv
from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.items import ItemKind, ItemStatus, NewItem, Part, PartKind, Role
from antiphon.sessions.settings import TurnDetection

SEEING = replace(NO_SPECULATION, sees=True)
URL = "data:image/png;base64,AA=="


def text(said: str, item_id: str | None = None) -> NewItem:
    return NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, said),), id=item_id)


def image(url: str = URL, item_id: str | None = None) -> NewItem:
    part = Part(PartKind.INPUT_IMAGE, image_url=url, detail="low")
    return NewItem(role=Role.USER, parts=(part,), id=item_id)


def order(peer: Peer) -> list[str]:
    peer.feed(ev.CreateResponse())
    said = [message.text for message in peer.last(wx.StartReply).messages]
    peer.reply_end()
    return said


def test_an_item_goes_where_the_client_wants_it() -> None:
    peer = Peer.attached()
    for said, previous in (("b", None), ("d", None), ("a", "root"), ("c", "b")):
        peer.feed(ev.CreateItem(text(said, said), previous))
    assert [each.previous_item_id for each in of(fx.ItemAdded, peer.effects)] == [
        None,
        "b",
        None,
        "b",
    ]
    assert order(peer) == ["a", "b", "c", "d"]


def test_an_unknown_place_is_refused_and_nothing_is_added() -> None:
    peer = Peer.attached()
    assert names(peer.feed(ev.CreateItem(text("a"), "none", "e"))) == ["ErrorRaised"]
    error = peer.last(fx.ErrorRaised).error
    assert (error.param, error.event_id) == ("previous_item_id", "e")
    assert order(peer) == []


def test_speech_of_ours_can_be_brought_along_as_a_transcript_alone() -> None:
    peer = Peer.attached()
    said = NewItem(role=Role.ASSISTANT, parts=(Part(PartKind.OUTPUT_AUDIO, "Hello."),), id="a")
    assert names(peer.feed(ev.CreateItem(said))) == ["ItemAdded", "ItemDone"]
    assert order(peer) == ["Hello."]


def test_audio_beside_a_text_is_understood_too() -> None:
    peer = Peer.attached()
    parts = (Part(PartKind.INPUT_TEXT, "Listen:"), Part(PartKind.INPUT_AUDIO))
    peer.feed(ev.CreateItem(NewItem(role=Role.USER, parts=parts, audio=FRAME * 10)))
    peer.recognize("hello")
    assert order(peer) == ["Listen: hello"]


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        (image(), "unsupported_content_type", "item.content[0].type"),
        (text("x" * 11), "string_above_max_length", "item.content"),
        (NewItem(kind=ItemKind.FUNCTION_CALL), "invalid_value", "item.name"),
        (NewItem(kind=ItemKind.FUNCTION_CALL, name="n" * 65), "invalid_value", "item.name"),
        (
            NewItem(kind=ItemKind.FUNCTION_CALL, name="n", arguments="x" * 11),
            "string_above_max_length",
            "item.arguments",
        ),
        (
            NewItem(kind=ItemKind.FUNCTION_OUTPUT, call_id="c", output="x" * 11),
            "string_above_max_length",
            "item.output",
        ),
        (
            NewItem(kind=ItemKind.FUNCTION_OUTPUT, output="x"),
            "missing_required_parameter",
            "item.call_id",
        ),
        (NewItem(kind=ItemKind.FUNCTION_OUTPUT, call_id=""), "invalid_value", "item.call_id"),
        (
            NewItem(kind=ItemKind.FUNCTION_OUTPUT, call_id="c" * 257),
            "invalid_value",
            "item.call_id",
        ),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(item: NewItem, code: str, param: str) -> None:
    peer = Peer.attached(replace(NO_SPECULATION, max_text_chars=10))
    assert names(peer.feed(ev.CreateItem(item, None, "e"))) == ["ErrorRaised"]
    error = peer.last(fx.ErrorRaised).error
    assert (error.code, error.param, error.event_id) == (code, param, "e")
    assert names(peer.feed(ev.CreateItem(text("fine")))) == ["ItemAdded", "ItemDone"]


def test_items_that_a_client_made_are_complete() -> None:
    peer = Peer.attached(SEEING)
    call = NewItem(kind=ItemKind.FUNCTION_CALL, call_id="c", name="f")
    peer.feed(ev.CreateItem(text("a")), ev.CreateItem(image()), ev.CreateItem(call))
    assert {each.item.status for each in of(fx.ItemDone, peer.effects)} == {ItemStatus.COMPLETED}


# Images.


def test_an_image_is_shown_to_a_model_that_sees_however_long_it_is() -> None:
    peer = Peer.attached(replace(SEEING, max_text_chars=10))
    peer.feed(ev.CreateItem(image()), ev.CreateItem(text("this?")), ev.CreateResponse())
    assert peer.last(wx.StartReply).messages == (
        wx.ContextMessage("user", "", (URL,)),
        wx.ContextMessage("user", "this?"),
    )


def test_the_oldest_images_are_let_go_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "MAX_IMAGE_BYTES", 100)
    peer = Peer.attached(SEEING)
    both = replace(image("a" * 60, "a"), parts=(*image("a" * 60).parts, *text("look").parts))
    for item in (both, image("b" * 40, "b"), image("c" * 40, "c")):
        peer.feed(ev.CreateItem(item))
    peer.feed(ev.CreateResponse())
    shown = [(message.text, message.images) for message in peer.last(wx.StartReply).messages]
    assert shown == [("look", ()), ("", ("b" * 40,)), ("", ("c" * 40,))]
    kept = of(fx.ItemRetrieved, peer.feed(ev.RetrieveItem("a")))[0].item
    assert [part.kind for part in kept.parts] == [PartKind.INPUT_IMAGE, PartKind.INPUT_TEXT]
    assert kept.images == ()


def test_an_image_that_is_deleted_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "MAX_IMAGE_BYTES", 100)
    peer = Peer.attached(SEEING)
    peer.feed(ev.CreateItem(image("a" * 60, "a")), ev.CreateItem(image("b" * 40, "b")))
    peer.feed(ev.DeleteItem("b"), ev.CreateItem(image("c" * 40)), ev.CreateResponse())
    assert len(peer.last(wx.StartReply).messages) == 2


def test_an_image_that_could_never_be_kept_is_refused() -> None:
    peer = Peer.attached(SEEING)
    peer.feed(ev.CreateItem(image("x" * (conv.MAX_IMAGE_BYTES + 1))))
    error = peer.last(fx.ErrorRaised).error
    assert (error.code, error.param) == ("string_above_max_length", "item.content")


# Room.


def test_what_makes_room_is_told() -> None:
    peer = Peer.attached(replace(NO_SPECULATION, max_items=2))
    peer.feed(ev.CreateItem(text("a", "a")), ev.CreateItem(text("b", "b")))
    told = peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    assert [each.item_id for each in of(fx.ItemDeleted, told)] == ["a"]
    assert of(fx.ItemAdded, told)[0].previous_item_id == "b"


def test_what_is_being_written_never_makes_room() -> None:
    peer = Peer.attached(
        replace(NO_SPECULATION, max_items=3),
        TurnDetection(silence_duration_ms=100, interrupt_response=False),
    )
    peer.feed(ev.CreateItem(text("a", "a")), ev.CreateResponse())
    peer.reply_text("one")
    mine = peer.last(fx.ItemAdded).item.id
    for _ in range(4):
        peer.speech(200)
        peer.silence(100)
    assert mine not in [each.item_id for each in of(fx.ItemDeleted, peer.effects)]
    assert peer.count(fx.ItemDeleted) == 3
    told = peer.reply_end()
    assert of(fx.ItemDone, told)[0].item.id == mine
    assert names(peer.feed(ev.RetrieveItem(mine))) == ["ItemRetrieved"]
