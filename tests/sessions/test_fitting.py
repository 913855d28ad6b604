"""Conversations that outgrow the model's context, and what responses cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.peer import FRAME, NO_SPECULATION, SPECULATION, Peer

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.items import NewItem, Part, PartKind, Role
from antiphon.sessions.settings import (
    Modality,
    SettingsPatch,
    Truncation,
    TruncationMode,
    TurnDetection,
)

RETAIN = Truncation(mode=TruncationMode.RETENTION_RATIO, retention_ratio=0.5)


def say(text: str, *, role: Role = Role.USER, previous: str | None = None) -> ev.CreateItem:
    item = NewItem(role=role, parts=(Part(PartKind.INPUT_TEXT, text),), id=text)
    return ev.CreateItem(item, previous)


def answered(peer: Peer, dropped: int = 0, options: ev.ResponseOptions | None = None) -> list[str]:
    """Answer the conversation; return the context that the model was handed."""
    peer.feed(ev.CreateResponse(options or ev.ResponseOptions()))
    if dropped:
        assert peer.reply_fitted(dropped) == []
    context = [message.text for message in peer.last(wx.StartReply).messages]
    peer.reply_end()
    return context


def long_talk(truncation: Truncation = RETAIN) -> Peer:
    """Return a peer with five items, of which the model had room for three."""
    peer = Peer.attached(instructions="Be brief.", truncation=truncation)
    for text in "abcde":
        peer.feed(say(text))
    assert answered(peer, dropped=2) == ["Be brief.", "a", "b", "c", "d", "e"]
    return peer


@pytest.mark.parametrize("truncation", [RETAIN, Truncation()])
def test_later_contexts_begin_behind_what_the_model_had_no_room_for(
    truncation: Truncation,
) -> None:
    peer = long_talk(truncation)
    assert peer.last(wx.StartReply).truncation == truncation
    peer.feed(say("f"))
    assert answered(peer, dropped=1) == ["Be brief.", "c", "d", "e", "f"]
    assert answered(peer) == ["Be brief.", "d", "e", "f"]
    assert peer.feed(ev.RetrieveItem("a")) != []
    assert peer.count(fx.ErrorRaised) == 0


def test_what_the_system_says_is_always_shown() -> None:
    peer = Peer.attached(truncation=RETAIN)
    for event in (say("a"), say("rules", role=Role.SYSTEM), say("b"), say("c")):
        peer.feed(event)
    answered(peer, dropped=2)
    assert answered(peer) == ["rules", "c"]


@pytest.mark.parametrize(
    ("deleted", "left"),
    [("b", ["c", "d", "e"]), ("a", ["c", "d", "e"]), ("c", ["d", "e"])],
)
def test_deleting_items_brings_no_hidden_ones_back(deleted: str, left: list[str]) -> None:
    peer = long_talk()
    peer.feed(ev.DeleteItem(deleted))
    assert answered(peer) == ["Be brief.", *left]


def test_deleting_all_hidden_items_hides_no_others() -> None:
    peer = long_talk()
    peer.feed(ev.DeleteItem("b"), ev.DeleteItem("a"))
    assert answered(peer) == ["Be brief.", "c", "d", "e"]


def test_an_item_put_among_the_hidden_ones_is_shown_and_they_with_it() -> None:
    peer = long_talk()
    peer.feed(say("x", previous="a"))
    assert answered(peer) == ["Be brief.", "a", "x", "b", "c", "d", "e"]


def test_an_item_put_behind_the_hidden_ones_changes_nothing() -> None:
    peer = long_talk()
    peer.feed(say("x", previous="b"))
    assert answered(peer) == ["Be brief.", "x", "c", "d", "e"]


@pytest.mark.parametrize(
    "truncation", [Truncation(mode=TruncationMode.DISABLED), replace(RETAIN, retention_ratio=0.9)]
)
def test_another_rule_starts_from_the_whole_conversation(truncation: Truncation) -> None:
    peer = long_talk()
    peer.feed(ev.UpdateSession(SettingsPatch(truncation=truncation)))
    assert answered(peer) == ["Be brief.", "a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "options",
    [
        ev.ResponseOptions(out_of_band=True),
        ev.ResponseOptions(instructions="Something much longer."),
        ev.ResponseOptions(tools=()),
        ev.ResponseOptions(input=(ev.ItemReference("a"), ev.ItemReference("b"))),
    ],
)
def test_a_response_of_another_kind_hides_nothing_from_the_usual_ones(
    options: ev.ResponseOptions,
) -> None:
    peer = Peer.attached(truncation=RETAIN)
    peer.feed(say("a"), say("b"), say("c"))
    answered(peer, dropped=1, options=options)
    assert answered(peer) == ["a", "b", "c"]


def test_what_a_person_asked_is_never_hidden() -> None:
    peer = Peer.attached(truncation=RETAIN)
    peer.feed(say("a"), say("b"))
    answered(peer, dropped=7)
    assert answered(peer) == ["b"]


def test_a_conversation_that_may_not_be_cut_fails_its_response() -> None:
    peer = Peer.attached(truncation=Truncation(mode=TruncationMode.DISABLED))
    peer.feed(say("a"), ev.CreateResponse())
    peer.reply_end(ev.ReplyOutcome.FAILED, "context_length_exceeded")
    done = peer.last(fx.ResponseDone).response
    assert done.status is fx.ResponseStatus.FAILED
    assert done.error is not None
    assert done.error.code == "context_length_exceeded"
    assert done.error.type == "invalid_request_error"
    assert answered(peer) == ["a"]


# What a response costs.


def usage(peer: Peer) -> fx.TokenUsage:
    told = peer.last(fx.ResponseDone).response.usage
    assert told is not None
    return told


def heard(peer: Peer, ms: int, text: str) -> None:
    peer.feed(ev.AppendAudio(FRAME * (ms // 20)), ev.CommitAudio())
    peer.recognize(text)


def test_tokens_and_audio_are_counted() -> None:
    peer = Peer.attached()
    heard(peer, 300, "one")
    heard(peer, 320, "two")
    heard(peer, 1000, "")
    peer.feed(say("three"), ev.CreateResponse())
    peer.reply_text("Yes.")
    peer.reply_audio(100)
    peer.reply_audio(1)
    started = peer.last(wx.StartReply)
    peer.feed(
        ev.ReplyEnded(
            started.response_id,
            started.epoch,
            ev.ReplyOutcome.COMPLETED,
            input_tokens=30,
            cached_tokens=20,
            output_tokens=5,
        )
    )
    assert usage(peer) == fx.TokenUsage(
        input_tokens=30,
        cached_tokens=20,
        output_tokens=5,
        input_audio_tokens=3 + 4,
        output_audio_tokens=3,
    )


def test_audio_that_the_model_was_not_shown_costs_nothing() -> None:
    peer = Peer.attached()
    heard(peer, 300, "one")
    heard(peer, 200, "two")
    peer.feed(ev.CreateResponse())
    peer.reply_fitted(1)
    peer.reply_end()
    assert usage(peer).input_audio_tokens == 2


def test_the_turn_that_an_answer_made_ahead_is_given_to_counts_too() -> None:
    peer = Peer.attached(SPECULATION, TurnDetection(prefix_padding_ms=0))
    peer.speech(600)
    peer.silence(200)
    peer.recognize("one")
    peer.reply_end()
    peer.silence(300)
    assert usage(peer).input_audio_tokens == 11


def test_audio_counts_though_it_is_no_longer_kept() -> None:
    peer = Peer.attached(replace(NO_SPECULATION, max_retained_ms=100))
    heard(peer, 300, "one")
    heard(peer, 300, "two")
    peer.feed(ev.CreateResponse())
    peer.reply_end()
    assert usage(peer).input_audio_tokens == 6


@pytest.mark.parametrize("ends", ["cancel", "interrupt", "stuck", "failed"])
def test_what_is_known_is_told_however_it_ends(ends: str) -> None:
    peer = Peer.attached(turns=TurnDetection(create_response=False))
    peer.silence(200)
    peer.feed(ev.CommitAudio())
    peer.recognize("one")
    peer.feed(ev.CreateResponse())
    peer.reply_audio(60)
    match ends:
        case "cancel":
            peer.feed(ev.CancelResponse())
        case "interrupt":
            peer.speech(100)
        case "stuck":
            peer.wait(61)
        case _:
            peer.reply_end(ev.ReplyOutcome.FAILED, "busy")
    assert usage(peer) == fx.TokenUsage(input_audio_tokens=2, output_audio_tokens=2)


def test_a_response_that_never_started_has_a_usage_too() -> None:
    peer = Peer.attached(modality=Modality.TEXT)
    heard(peer, 200, "")
    peer.feed(ev.CreateResponse())
    assert usage(peer) == fx.TokenUsage()
