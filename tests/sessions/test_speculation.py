"""Answers made ahead in a pause: used when the turn is over, traceless when it is not."""

from __future__ import annotations

from tests.support.peer import SPECULATION, Peer, names

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.items import NewItem, Part, PartKind, Role
from antiphon.sessions.settings import Capabilities, SettingsPatch, TurnDetection

VAD = TurnDetection(silence_duration_ms=500)
CLIENT_EVENTS = (fx.ResponseCreated, fx.ItemAdded, fx.TranscriptDelta, fx.AudioDelta)


def in_pause(can: Capabilities = SPECULATION) -> Peer:
    """Return a peer in a pause whose words so far are recognized and being answered."""
    peer = Peer.attached(can, VAD)
    peer.speech(600)
    assert names(peer.silence(200)) == ["StartRecognition"]
    assert names(peer.recognize("hello")) == ["StartReply"]
    return peer


def test_a_draft_is_told_only_once_the_turn_is_over() -> None:
    peer = in_pause()
    assert names(peer.reply_text("Hi.") + peer.reply_audio(100)) == []
    told = peer.silence(300)
    assert names(told) == [
        "SpeechStopped",
        "BufferCommitted",
        "ItemAdded",
        "ItemDone",
        "ResponseCreated",
        "OutputItemAdded",
        "ItemAdded",
        "ContentPartAdded",
        "TranscriptDelta",
        "AudioDelta",
    ]
    assert peer.count(wx.StartRecognition) == peer.count(wx.StartReply) == 1
    assert peer.last(wx.StartReply).messages == (wx.ContextMessage("user", "hello"),)


def test_a_draft_that_is_already_whole_is_told_whole() -> None:
    peer = in_pause()
    peer.reply_text("Hi.")
    peer.reply_audio(100)
    peer.reply_end()
    told = peer.silence(300)
    assert names(told)[-1] == "ResponseDone"
    assert peer.last(fx.ResponseDone).response.status is fx.ResponseStatus.COMPLETED


def test_going_on_leaves_no_trace_of_the_draft() -> None:
    peer = in_pause()
    peer.reply_text("Hi.")
    told = peer.speech(200)
    assert names(told) == ["AbortReply"]
    assert not any(isinstance(effect, CLIENT_EVENTS) for effect in peer.effects)
    peer.silence(200)
    peer.recognize("hello there")
    peer.silence(300)
    assert peer.last(wx.StartReply).messages == (wx.ContextMessage("user", "hello there"),)
    assert peer.count(fx.ResponseCreated) == 1


def test_going_on_cancels_a_recognition_under_way() -> None:
    peer = Peer.attached(SPECULATION, VAD)
    peer.speech(600)
    peer.silence(200)
    assert names(peer.speech(200)) == ["CancelRecognition"]


def test_a_recognition_under_way_serves_the_turn_that_ended() -> None:
    peer = Peer.attached(SPECULATION, VAD)
    peer.speech(600)
    told = peer.silence(500)
    assert names(told).count("StartRecognition") == 1
    assert names(peer.recognize("hello")) == ["StartReply"]


def test_a_draft_of_nothing_said_answers_nothing() -> None:
    peer = Peer.attached(SPECULATION, VAD)
    peer.speech(600)
    peer.silence(200)
    assert peer.recognize("") == []
    assert names(peer.silence(300))[-1] == "ResponseDone"


def test_a_failed_recognition_in_the_pause_is_tried_again_at_the_end() -> None:
    peer = Peer.attached(SPECULATION, VAD)
    peer.speech(600)
    peer.silence(200)
    peer.feed(ev.RecognitionEnded(peer.last(wx.StartRecognition).recognition_id, None))
    told = peer.silence(300)
    assert "StartRecognition" in names(told)


def test_a_change_of_instructions_makes_the_draft_worthless() -> None:
    peer = in_pause()
    patch = SettingsPatch(instructions="Speak like a pirate.")
    assert names(peer.feed(ev.UpdateSession(patch))) == ["SessionUpdated", "AbortReply"]
    told = peer.silence(300)
    assert names(told)[-2:] == ["ResponseCreated", "StartReply"]
    assert peer.last(wx.StartReply).messages[0].text == "Speak like a pirate."


def test_a_new_item_makes_the_draft_worthless() -> None:
    peer = in_pause()
    item = NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, "wait"),))
    assert names(peer.feed(ev.CreateItem(item)))[-1] == "AbortReply"


def test_a_draft_is_bounded() -> None:
    peer = in_pause()
    told = [effect for _ in range(12) for effect in peer.reply_audio(1000)]
    assert names(told) == ["AbortReply"]
    assert names(peer.silence(300))[-1] == "StartReply"


def test_nothing_is_prepared_while_a_reply_runs() -> None:
    peer = Peer.attached(
        SPECULATION, TurnDetection(silence_duration_ms=500, interrupt_response=False)
    )
    peer.speech(600)
    peer.silence(500)
    peer.recognize("one")
    peer.speech(600)
    peer.silence(200)
    assert peer.recognize("two") == []


def test_no_speculation_where_it_is_switched_off() -> None:
    peer = Peer.attached(Capabilities(voices=("ada",), speculate_ms=0), VAD)
    peer.speech(600)
    assert names(peer.silence(480)) == []


def test_counts_what_speculation_saves_and_wastes() -> None:
    peer = in_pause()
    peer.speech(200)
    peer.silence(200)
    peer.recognize("hello again")
    peer.silence(300)
    counters = peer.session.counters
    assert (counters.drafts_started, counters.drafts_used) == (2, 1)
