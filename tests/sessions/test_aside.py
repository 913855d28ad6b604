"""Responses out of band: beside the conversation, and nothing of them in it."""

from __future__ import annotations

import pytest
from tests.support.peer import FRAME, NO_SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.aside import MAX_ASIDES
from antiphon.sessions.items import ItemStatus, NewItem, Part, PartKind, Role
from antiphon.sessions.settings import Capabilities, Modality, TurnDetection

ASIDE = ev.CreateResponse(ev.ResponseOptions(out_of_band=True), "aside")


def say(text: str) -> ev.CreateItem:
    return ev.CreateItem(NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, text),)))


def start(peer: Peer, event: ev.CreateResponse = ASIDE) -> tuple[str, int]:
    """Begin a response; return what its stages are known by."""
    peer.feed(event)
    started = peer.last(wx.StartReply)
    return started.response_id, started.epoch


def end(peer: Peer, key: tuple[str, int]) -> list[fx.Effect]:
    return peer.feed(ev.ReplyEnded(*key, ev.ReplyOutcome.COMPLETED))


def context(peer: Peer) -> list[str]:
    return [message.text for message in peer.last(wx.StartReply).messages]


def test_it_writes_items_that_do_not_join_the_conversation() -> None:
    peer = Peer.attached()
    peer.feed(say("hello"))
    key = start(peer)
    told = peer.reply_text("Hi.") + peer.reply_audio(100) + peer.reply_call("f", "{}")
    told += end(peer, key)
    assert names(told) == [
        "OutputItemAdded",
        "ContentPartAdded",
        "TranscriptDelta",
        "AudioDelta",
        "OutputItemAdded",
        "CallDelta",
        "AudioDone",
        "TranscriptDone",
        "ContentPartDone",
        "OutputItemDone",
        "CallDone",
        "OutputItemDone",
        "ResponseDone",
    ]
    done = peer.last(fx.ResponseDone).response
    assert done.out_of_band
    assert done.usage is not None
    assert [item.status for item in done.output] == [ItemStatus.COMPLETED] * 2
    peer.feed(ev.RetrieveItem(done.output[0].id))
    assert peer.last(fx.ErrorRaised).error.code == "item_retrieve_invalid_item_id"
    start(peer, ev.CreateResponse())
    assert context(peer) == ["hello"]


def test_it_runs_beside_the_conversation_and_others_like_it() -> None:
    peer = Peer.attached()
    peer.feed(say("hello"))
    first = start(peer)
    main = start(peer, ev.CreateResponse())
    second = start(peer)
    for number, key in enumerate((second, main, first)):
        peer.feed(ev.ReplyText(*key, f"text {number}"))
    for key in (main, first, second):
        end(peer, key)
    done = {each.response.id: each.response for each in of(fx.ResponseDone, peer.effects)}
    said = [done[key[0]].output[0].text for key in (second, main, first)]
    assert said == ["text 0", "text 1", "text 2"]
    assert [done[key[0]].out_of_band for key in (second, main, first)] == [True, False, True]
    assert peer.count(fx.ErrorRaised) == 0


def test_only_so_many_run_at_once() -> None:
    peer = Peer.attached()
    keys = [start(peer) for _ in range(MAX_ASIDES)]
    peer.feed(ASIDE)
    error = peer.last(fx.ErrorRaised).error
    assert (error.code, error.event_id) == ("too_many_responses", "aside")
    end(peer, keys[3])
    peer.feed(ASIDE)
    assert peer.count(fx.ResponseCreated) == MAX_ASIDES + 1


def test_speech_does_not_interrupt_it() -> None:
    peer = Peer.attached(turns=TurnDetection())
    key = start(peer)
    peer.feed(ev.ReplyText(*key, "one"), ev.ReplyAudio(*key, FRAME))
    told = peer.speech(200)
    assert names(told) == ["SpeechStarted"]
    peer.feed(ev.ReplyText(*key, " two"))
    end(peer, key)
    assert names(peer.speech(20)) == []
    done = peer.last(fx.ResponseDone).response
    assert (done.status, done.output[0].text) == (fx.ResponseStatus.COMPLETED, "one two")


def test_an_interruption_of_the_conversation_leaves_it_alone() -> None:
    peer = Peer.attached(turns=TurnDetection())
    key = start(peer)
    peer.feed(say("hello"))
    start(peer, ev.CreateResponse())
    peer.reply_text("Hi.")
    peer.speech(200)
    assert peer.last(fx.ResponseDone).response.reason == "turn_detected"
    assert names(peer.feed(ev.ReplyText(*key, "still here")))[-1] == "TranscriptDelta"


def test_a_turn_is_answered_while_it_runs() -> None:
    peer = Peer.attached(turns=TurnDetection(silence_duration_ms=300))
    start(peer)
    peer.speech(600)
    peer.silence(300)
    assert names(peer.recognize("hello")) == ["StartReply"]


def test_it_is_cancelled_by_its_id_alone() -> None:
    peer = Peer.attached()
    first, second = start(peer), start(peer)
    assert names(peer.feed(ev.CancelResponse())) == ["ErrorRaised"]
    assert peer.last(fx.ErrorRaised).error.code == "response_cancel_not_active"
    peer.feed(ev.ReplyText(*first, "one"))
    told = peer.feed(ev.CancelResponse(first[0]))
    assert names(told)[0] == "AbortReply"
    done = peer.last(fx.ResponseDone).response
    assert (done.id, done.status) == (first[0], fx.ResponseStatus.CANCELLED)
    assert done.reason == "client_cancelled"
    assert done.output[0].status is ItemStatus.INCOMPLETE
    assert peer.feed(ev.ReplyText(*first, "late")) == []
    assert names(peer.feed(ev.ReplyText(*second, "two")))[-1] == "TranscriptDelta"
    peer.feed(ev.CancelResponse(first[0], "late"))
    assert peer.last(fx.ErrorRaised).error.event_id == "late"


def test_a_cancel_without_an_id_means_the_response_of_the_conversation() -> None:
    peer = Peer.attached()
    aside = start(peer)
    main = start(peer, ev.CreateResponse())
    start(peer)
    peer.feed(ev.CancelResponse())
    assert [each.response.id for each in of(fx.ResponseDone, peer.effects)] == [main[0]]
    assert names(peer.feed(ev.ReplyText(*aside, "still here")))[-1] == "TranscriptDelta"


def test_all_end_when_the_client_leaves() -> None:
    peer = Peer.attached()
    for event in (ASIDE, ev.CreateResponse(), ASIDE):
        start(peer, event)
    told = peer.feed(ev.Detached())
    statuses = [each.response.status for each in of(fx.ResponseDone, told)]
    assert statuses == [fx.ResponseStatus.CANCELLED] * 3
    assert len(of(wx.AbortReply, told)) == 3


def test_each_has_its_own_deadline() -> None:
    peer = Peer.attached(Capabilities(voices=("ada",), stage_timeout_s=10.0))
    first = start(peer)
    peer.wait(6)
    second = start(peer)
    peer.wait(3)
    peer.feed(ev.ReplyText(*second, "here"))
    told = peer.wait(1.5)
    done = of(fx.ResponseDone, told)
    assert [each.response.id for each in done] == [first[0]]
    assert done[0].response.error is not None
    assert done[0].response.error.code == "response_timeout"
    assert [each.response.id for each in of(fx.ResponseDone, peer.wait(9))] == [second[0]]


def test_it_waits_for_what_was_said_and_fails_with_it() -> None:
    peer = Peer.attached()
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio(), ASIDE, ASIDE)
    assert peer.count(wx.StartReply) == 0
    told = peer.feed(ev.RecognitionEnded(1, None, "down", "It is down."))
    assert names(told) == ["ResponseDone"] * 2
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio(), ASIDE)
    assert names(peer.recognize("hello")) == ["StartReply"]
    assert context(peer) == ["hello"]


def test_what_fails_beside_the_conversation_is_no_failure_of_it() -> None:
    peer = Peer.attached(modality=Modality.TEXT)
    key = start(peer)
    main = start(peer, ev.CreateResponse())
    peer.feed(ev.ReplyEnded(*key, ev.ReplyOutcome.FAILED, "busy", "Busy."))
    assert peer.last(fx.ResponseDone).response.status is fx.ResponseStatus.FAILED
    peer.feed(ev.ReplyText(*main, "fine"))
    end(peer, main)
    assert peer.last(fx.ResponseDone).response.status is fx.ResponseStatus.COMPLETED


@pytest.mark.parametrize("epochs", [1, -1])
def test_what_is_of_another_epoch_is_dropped(epochs: int) -> None:
    peer = Peer.attached(NO_SPECULATION)
    response_id, epoch = start(peer)
    stale = peer.session.counters.stale_dropped
    assert peer.feed(ev.ReplyText(response_id, epoch + epochs, "late")) == []
    assert peer.session.counters.stale_dropped == stale + 1
