"""What of a spoken reply is kept: the estimate, the client's word, and which of them wins."""

from __future__ import annotations

import pytest
from tests.support.peer import FRAME, NO_SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.delivery import RECENT, SPOKEN_KEPT
from antiphon.sessions.items import NewItem, Part, PartKind, Role
from antiphon.sessions.settings import Capabilities, TurnDetection


def say(text: str) -> ev.CreateItem:
    return ev.CreateItem(NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, text),)))


def speaking(can: Capabilities = NO_SPECULATION) -> Peer:
    """Return a peer whose reply says four words of 500 ms, the first two of them sent."""
    peer = Peer.attached(can, TurnDetection())
    peer.feed(say("count"), ev.CreateResponse())
    peer.reply_text("one two three four")
    for number, word in enumerate(("one", "two", "three", "four")):
        peer.reply_word(word, number * 500, (number + 1) * 500)
    peer.reply_audio(2000)
    peer.written(1000)
    return peer


def spoken_id(peer: Peer) -> str:
    return peer.last(fx.OutputItemAdded).item.id


def kept(peer: Peer, item_id: str) -> fx.ItemRetrieved:
    return of(fx.ItemRetrieved, peer.feed(ev.RetrieveItem(item_id)))[0]


def context(peer: Peer) -> list[str]:
    peer.feed(say("go on"), ev.CreateResponse())
    return [message.text for message in peer.last(wx.StartReply).messages]


def test_a_later_interruption_does_not_bring_back_what_the_client_cut() -> None:
    peer = speaking()
    peer.feed(ev.TruncateItem(spoken_id(peer), 0, 500))
    peer.wait(2.0)
    peer.speech(100)
    assert context(peer) == ["count", "one", "go on"]


def test_what_the_client_cut_cannot_be_cut_longer() -> None:
    peer = speaking()
    item_id = spoken_id(peer)
    peer.feed(ev.TruncateItem(item_id, 0, 500), ev.TruncateItem(item_id, 0, 1000))
    assert peer.last(fx.ErrorRaised).error.message == (
        "Audio content of 500ms is already shorter than 1000ms"
    )
    assert kept(peer, item_id).item.text == "one"


def test_audio_made_behind_a_cut_is_not_kept() -> None:
    peer = speaking()
    item_id = spoken_id(peer)
    peer.feed(ev.TruncateItem(item_id, 0, 500))
    peer.reply_audio(1000)
    peer.written(2000)
    peer.reply_end()
    after = kept(peer, item_id)
    assert len(after.audio) == 48 * 500
    assert after.item.text == "one"


def test_a_reply_cut_before_its_first_audio_was_not_heard() -> None:
    peer = Peer.attached()
    peer.feed(say("count"), ev.CreateResponse())
    peer.reply_text("one two")
    peer.feed(ev.TruncateItem(spoken_id(peer), 0, 0))
    peer.reply_end()
    assert context(peer) == ["count", "go on"]


def test_cancelled_before_it_said_anything_a_reply_leaves_nothing() -> None:
    peer = Peer.attached()
    peer.feed(say("count"), ev.CreateResponse())
    assert names(peer.feed(ev.CancelResponse())) == ["AbortReply", "ResponseDone"]
    assert context(peer) == ["count", "go on"]


def test_a_stuck_reply_is_remembered_as_far_as_it_was_heard() -> None:
    peer = speaking()
    peer.wait(61)
    assert context(peer) == ["count", "one two", "go on"]
    peer.feed(ev.CancelResponse())
    assert "AbortReply" not in names(peer.speech(100))


def test_speech_that_a_client_brings_along_can_be_cut() -> None:
    peer = Peer.attached()
    parts = (Part(PartKind.OUTPUT_AUDIO, "one two three four"),)
    item = NewItem(role=Role.ASSISTANT, parts=parts, id="old", audio=FRAME * 20)
    peer.feed(ev.CreateItem(item))
    assert names(peer.feed(ev.TruncateItem("old", 0, 600))) == ["ErrorRaised"]
    assert names(peer.feed(ev.TruncateItem("old", 0, 200))) == ["ItemTruncated"]
    assert kept(peer, "old").item.text == "one two"
    assert len(kept(peer, "old").audio) == 48 * 200


def test_a_deleted_reply_is_not_cut_any_more() -> None:
    peer = speaking()
    item_id = spoken_id(peer)
    peer.reply_end()
    peer.feed(ev.DeleteItem(item_id))
    peer.feed(ev.TruncateItem(item_id, 0, 10))
    assert peer.last(fx.ErrorRaised).error.code == "item_truncate_invalid_item_id"
    assert names(peer.speech(100)) == ["SpeechStarted", "AbortReply"]
    assert context(peer) == ["count", "go on"]


@pytest.mark.parametrize("event", [ev.ReportPlayback("none", 5, 5), ev.AudioWritten("none", 5)])
def test_what_is_known_of_no_reply_is_ignored(event: ev.Event) -> None:
    peer = speaking()
    assert peer.feed(event) == []


def test_only_recent_replies_are_followed() -> None:
    peer = Peer.attached(turns=TurnDetection())
    for _ in range(RECENT + 3):
        peer.feed(say("hi"), ev.CreateResponse())
        peer.reply_word("Hi.", 0, 500)
        peer.reply_audio(500)
        peer.reply_end()
    assert names(peer.speech(100)).count("AbortReply") == RECENT


def test_long_ago_replies_are_cut_in_proportion_to_their_audio() -> None:
    peer = Peer.attached(Capabilities(voices=("ada",), max_retained_ms=10**7))
    ids: list[str] = []
    for _ in range(SPOKEN_KEPT + 1):
        peer.feed(say("hi"), ev.CreateResponse())
        peer.reply_text("a b c d")
        peer.reply_word("a", 0, 90)
        peer.reply_audio(100)
        peer.written(100)
        peer.reply_end()
        ids.append(spoken_id(peer))
    peer.feed(ev.TruncateItem(ids[0], 0, 80), ev.TruncateItem(ids[1], 0, 80))
    assert kept(peer, ids[0]).item.text == "a b c"
    assert kept(peer, ids[1]).item.text == ""
