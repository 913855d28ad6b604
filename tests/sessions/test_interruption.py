"""Cutting in: what stops, what is told, and what of the reply is remembered."""

from __future__ import annotations

from tests.support.peer import Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.items import ItemStatus
from antiphon.sessions.settings import TurnDetection

VAD = TurnDetection(silence_duration_ms=300)
WORDS = ("one", "two", "three", "four")


def speaking(turns: TurnDetection = VAD) -> Peer:
    """Return a peer whose reply says four words of 500 ms, all of it sent at once."""
    peer = Peer.attached(turns=turns)
    peer.speech(600)
    peer.silence(300)
    peer.recognize("count")
    peer.reply_text("one two three four")
    for number, word in enumerate(WORDS):
        peer.reply_word(word, number * 500, (number + 1) * 500)
    peer.reply_audio(2000)
    peer.written(2000)
    return peer


def context_of_next(peer: Peer) -> list[str]:
    peer.silence(300)
    peer.recognize("stop")
    return [m.text for m in peer.last(wx.StartReply).messages]


def test_speech_stops_the_reply_in_the_protocols_order() -> None:
    peer = speaking()
    told = peer.speech(100)
    assert names(told) == [
        "SpeechStarted",
        "AbortReply",
        "AudioDone",
        "TranscriptDone",
        "ContentPartDone",
        "ItemDone",
        "OutputItemDone",
        "ResponseDone",
    ]
    done = peer.last(fx.ResponseDone).response
    assert done.status is fx.ResponseStatus.CANCELLED
    assert done.reason == "turn_detected"
    assert done.output[0].status is ItemStatus.INCOMPLETE


def test_only_what_was_heard_is_remembered() -> None:
    peer = speaking()
    peer.wait(1.0)
    peer.speech(100)
    assert context_of_next(peer) == ["count", "one two", "stop"]


def test_a_reply_that_is_generated_but_still_played_is_interrupted_too() -> None:
    peer = speaking()
    peer.reply_end()
    peer.wait(0.6)
    told = peer.speech(100)
    assert names(told) == ["SpeechStarted", "AbortReply"]
    assert peer.count(fx.ResponseDone) == 1
    assert context_of_next(peer) == ["count", "one", "stop"]


def test_a_reply_heard_to_its_end_is_kept_whole() -> None:
    peer = speaking()
    peer.reply_end()
    peer.wait(3.0)
    assert names(peer.speech(100)) == ["SpeechStarted"]
    assert context_of_next(peer) == ["count", "one two three four", "stop"]


def test_audio_not_written_counts_as_not_heard() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(300)
    peer.recognize("count")
    peer.reply_text("one two")
    peer.reply_word("one", 0, 500)
    peer.reply_audio(1000)
    peer.wait(5.0)
    peer.speech(100)
    assert context_of_next(peer) == ["count", "stop"]


def test_reports_of_the_client_replace_the_estimate() -> None:
    peer = speaking()
    response_id = peer.last(wx.StartReply).response_id
    peer.feed(ev.ReportPlayback(response_id, 0, 2000))
    peer.wait(1.7)
    peer.feed(ev.ReportPlayback(response_id, 1020, 980))
    peer.speech(100)
    assert context_of_next(peer) == ["count", "one two", "stop"]


def test_late_output_of_the_old_epoch_is_dropped() -> None:
    peer = speaking()
    peer.speech(100)
    stale = peer.session.counters.stale_dropped
    assert peer.reply_audio(100) == []
    assert peer.reply_end() == []
    assert peer.session.counters.stale_dropped == stale + 2


def test_every_interruption_advances_the_epoch() -> None:
    peer = speaking()
    before = peer.session.epoch
    peer.speech(100)
    assert peer.session.epoch == before + 1
    assert peer.last(wx.AbortReply).epoch == before


def test_an_answer_still_waiting_for_recognition_is_cancelled_by_speech() -> None:
    peer = Peer.attached(turns=VAD)
    peer.speech(600)
    peer.silence(300)
    told = peer.speech(200)
    assert names(told)[0] == "SpeechStarted"
    assert peer.last(fx.ResponseDone).response.output == ()


def test_cancel_by_the_client_has_the_same_tail() -> None:
    peer = speaking()
    told = peer.feed(ev.CancelResponse())
    assert names(told)[0] == "AbortReply"
    assert names(told)[-1] == "ResponseDone"
    assert peer.last(fx.ResponseDone).response.reason == "client_cancelled"
    peer.feed(ev.CancelResponse())
    assert peer.last(fx.ErrorRaised).error.message == (
        "Cancellation failed: no active response found"
    )


def test_a_turn_whose_answer_is_cancelled_stays_in_the_conversation() -> None:
    peer = speaking()
    peer.feed(ev.CancelResponse(), ev.CreateResponse())
    assert peer.last(wx.StartReply).messages[0] == wx.ContextMessage("user", "count")


def test_speech_does_not_interrupt_where_it_shall_not_and_is_answered_next() -> None:
    peer = speaking(TurnDetection(silence_duration_ms=300, interrupt_response=False))
    told = peer.speech(400) + peer.silence(300)
    assert "ResponseDone" not in names(told)
    assert peer.count(fx.ResponseCreated) == 1
    peer.recognize("and five")
    told = peer.reply_end()
    assert names(told)[-2:] == ["ResponseCreated", "StartReply"]
    assert [m.text for m in peer.last(wx.StartReply).messages][-1] == "and five"


def test_the_client_says_how_much_was_heard() -> None:
    peer = speaking()
    peer.reply_end()
    item_id = peer.last(fx.OutputItemDone).item.id
    told = peer.feed(ev.TruncateItem(item_id, 0, 1600))
    assert told == [fx.ItemTruncated(item_id, 0, 1600)]
    kept = of(fx.ItemRetrieved, peer.feed(ev.RetrieveItem(item_id)))[0]
    assert kept.item.text == "one two three"
    assert len(kept.audio) == 48 * 1600


def test_a_truncation_by_the_client_corrects_the_estimate() -> None:
    peer = speaking()
    peer.wait(0.5)
    peer.speech(100)
    item_id = peer.last(fx.OutputItemDone).item.id
    peer.feed(ev.TruncateItem(item_id, 0, 1500))
    assert context_of_next(peer) == ["count", "one two three", "stop"]


def test_a_truncation_while_the_reply_runs_outlasts_its_end() -> None:
    peer = speaking()
    item_id = peer.last(fx.OutputItemAdded).item.id
    peer.feed(ev.TruncateItem(item_id, 0, 500))
    peer.reply_end()
    kept = of(fx.ItemRetrieved, peer.feed(ev.RetrieveItem(item_id)))[0]
    assert kept.item.text == "one"


def test_more_cannot_be_heard_than_was_sent_but_clients_round() -> None:
    peer = speaking()
    peer.reply_end()
    item_id = peer.last(fx.OutputItemDone).item.id
    peer.feed(ev.TruncateItem(item_id, 0, 57_340))
    error = peer.last(fx.ErrorRaised).error
    assert error.message == "Audio content of 2000ms is already shorter than 57340ms"
    assert error.param == "audio_end_ms"
    assert names(peer.feed(ev.TruncateItem(item_id, 0, 2085))) == ["ItemTruncated"]


def test_only_the_first_content_part_can_be_truncated() -> None:
    peer = speaking()
    peer.reply_end()
    item_id = peer.last(fx.OutputItemDone).item.id
    peer.feed(ev.TruncateItem(item_id, 1, 100))
    assert peer.last(fx.ErrorRaised).error.param == "content_index"


def test_an_item_being_written_cannot_be_deleted() -> None:
    peer = speaking()
    item_id = peer.last(fx.OutputItemAdded).item.id
    peer.feed(ev.DeleteItem(item_id))
    assert peer.last(fx.ErrorRaised).error.code == "item_delete_in_progress"
