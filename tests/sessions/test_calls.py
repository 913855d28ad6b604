"""Functions that a response wants to be called, and what comes back."""

from __future__ import annotations

import pytest
from tests.support.peer import SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.items import ItemKind, ItemStatus, NewItem, Part, PartKind, Role
from antiphon.sessions.response import MAX_CALLS
from antiphon.sessions.settings import SettingsPatch, TurnDetection
from antiphon.sessions.tools import Tool, ToolChoice, ToolMode

WEATHER = Tool(name="weather", parameters='{"type":"object"}')
TIME = Tool(name="time")
MUST = ToolChoice(mode=ToolMode.REQUIRED)


def say(text: str) -> ev.CreateItem:
    return ev.CreateItem(NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, text),)))


def gave(call_id: str, output: str = "42") -> ev.CreateItem:
    item = NewItem(kind=ItemKind.FUNCTION_OUTPUT, call_id=call_id, output=output)
    return ev.CreateItem(item)


def named(name: str) -> ToolChoice:
    return ToolChoice(mode=ToolMode.FUNCTION, name=name)


def asked() -> Peer:
    peer = Peer.attached(tools=(WEATHER, TIME))
    peer.feed(say("how is it?"), ev.CreateResponse())
    return peer


def test_a_call_has_the_protocols_order() -> None:
    peer = asked()
    told = peer.reply_call("weather", '{"place":', done=False)
    told += peer.reply_call("weather", '"Oslo"}')
    # Not told to be done before its response is: a client answers a call at once.
    told += peer.reply_end()
    assert names(told) == [
        "OutputItemAdded",
        "ItemAdded",
        "CallDelta",
        "CallDelta",
        "CallDone",
        "ItemDone",
        "OutputItemDone",
        "ResponseDone",
    ]
    added = of(fx.OutputItemAdded, told)[0].item
    assert (added.kind, added.status) == (ItemKind.FUNCTION_CALL, ItemStatus.IN_PROGRESS)
    assert (added.name, added.arguments) == ("weather", "")
    done = of(fx.CallDone, told)[0]
    assert (done.name, done.arguments) == ("weather", '{"place":"Oslo"}')
    assert done.call_id == added.call_id
    assert done.call_id.startswith("call_")
    assert len(done.call_id) <= 32
    finished = of(fx.OutputItemDone, told)[0].item
    assert (finished.status, finished.arguments) == (ItemStatus.COMPLETED, '{"place":"Oslo"}')
    assert peer.last(fx.ResponseDone).response.output == (finished,)


def test_a_call_is_done_when_something_follows_it() -> None:
    peer = asked()
    assert "CallDone" not in names(peer.reply_call("weather", "{}"))
    assert names(peer.reply_call("time", "", index=1, done=False))[:3] == [
        "CallDone",
        "ItemDone",
        "OutputItemDone",
    ]


def test_a_call_that_was_whole_is_done_even_when_its_response_is_cancelled() -> None:
    peer = asked()
    peer.reply_call("weather", "{}")
    peer.feed(ev.CancelResponse())
    assert peer.last(fx.CallDone).name == "weather"
    assert peer.last(fx.OutputItemDone).item.status is ItemStatus.COMPLETED


def test_a_message_stays_open_while_calls_come_and_go() -> None:
    peer = asked()
    peer.reply_text("One moment.")
    peer.reply_call("weather", "{}")
    peer.reply_call("time", "{}", index=1)
    assert names(peer.reply_audio(100)) == ["AudioDelta"]
    told = peer.reply_end()
    assert names(told)[-3:] == ["ItemDone", "OutputItemDone", "ResponseDone"]
    assert [each.output_index for each in of(fx.OutputItemAdded, peer.effects)] == [0, 1, 2]
    assert [each.at.output_index for each in of(fx.CallDone, peer.effects)] == [1, 2]
    assert peer.last(fx.AudioDone).at.output_index == 0
    kinds = [item.kind for item in peer.last(fx.ResponseDone).response.output]
    assert kinds == [ItemKind.MESSAGE, ItemKind.FUNCTION_CALL, ItemKind.FUNCTION_CALL]


def test_a_message_behind_a_call_has_the_later_index() -> None:
    peer = asked()
    peer.reply_call("weather", "{}")
    peer.reply_text("I am looking.")
    peer.reply_end()
    assert peer.last(fx.TranscriptDelta).at.output_index == 1
    assert peer.last(fx.ContentPartAdded).at.output_index == 1
    output = peer.last(fx.ResponseDone).response.output
    assert [item.kind for item in output] == [ItemKind.FUNCTION_CALL, ItemKind.MESSAGE]


def test_a_call_and_what_it_gave_are_shown_to_the_model() -> None:
    peer = asked()
    peer.reply_text("One moment.")
    peer.reply_call("weather", "{}")
    peer.reply_call("time", "{}", index=1)
    peer.reply_end()
    first, second = (done.call_id for done in of(fx.CallDone, peer.effects))
    told = peer.feed(gave(first), gave(second, "noon"))
    assert names(told) == ["ItemAdded", "ItemDone"] * 2, "it does not go on by itself"
    peer.feed(ev.CreateResponse())
    calls = (wx.ContextCall(first, "weather", "{}"), wx.ContextCall(second, "time", "{}"))
    assert peer.last(wx.StartReply).messages == (
        wx.ContextMessage("user", "how is it?"),
        wx.ContextMessage("assistant", "One moment.", calls=calls),
        wx.ContextMessage("tool", "42", call_id=first),
        wx.ContextMessage("tool", "noon", call_id=second),
    )


def test_a_history_that_a_client_replays_is_taken_as_it_is() -> None:
    peer = Peer.attached()
    call = NewItem(
        kind=ItemKind.FUNCTION_CALL, call_id="mine", name="weather", arguments="{}", id="c"
    )
    peer.feed(gave("of long ago"), say("how is it?"), ev.CreateItem(call), gave("mine"))
    assert peer.count(fx.ErrorRaised) == 0
    peer.feed(ev.CreateResponse())
    assert peer.last(wx.StartReply).messages[1:] == (
        wx.ContextMessage("assistant", "", calls=(wx.ContextCall("mine", "weather", "{}"),)),
        wx.ContextMessage("tool", "42", call_id="mine"),
    )


def test_a_call_that_a_client_made_without_an_id_gets_one() -> None:
    peer = Peer.attached()
    peer.feed(ev.CreateItem(NewItem(kind=ItemKind.FUNCTION_CALL, name="weather")))
    assert str(peer.last(fx.ItemAdded).item.call_id).startswith("call_")


@pytest.mark.parametrize("ends", ["cancel", "length", "failed", "completed"])
def test_a_call_that_is_cut_short_is_never_told_to_be_whole(ends: str) -> None:
    peer = asked()
    peer.reply_call("time", "{}")
    peer.reply_call("weather", '{"pl', index=1, done=False)
    told = (
        peer.feed(ev.CancelResponse())
        if ends == "cancel"
        else peer.reply_end(ev.ReplyOutcome(ends))
    )
    assert [name for name in names(told) if name != "AbortReply"] == [
        "ItemDone",
        "OutputItemDone",
        "ResponseDone",
    ]
    output = peer.last(fx.ResponseDone).response.output
    assert [item.status for item in output] == [ItemStatus.COMPLETED, ItemStatus.INCOMPLETE]
    assert output[1].arguments == '{"pl'
    peer.feed(gave(str(output[1].call_id)), ev.CreateResponse())
    shown = peer.last(wx.StartReply).messages
    assert [[call.name for call in message.calls] for message in shown] == [[], ["time"]]


def test_pieces_of_a_call_that_is_done_are_dropped() -> None:
    peer = asked()
    peer.reply_call("time", "{}")
    assert peer.reply_call("time", "more") == []
    peer.reply_end()
    assert peer.last(fx.ResponseDone).response.output[0].arguments == "{}"


def test_calls_of_one_response_are_bounded() -> None:
    peer = asked()
    for index in range(MAX_CALLS + 1):
        peer.reply_call("time", "{}", index=index)
    assert peer.count(fx.CallDone) == MAX_CALLS
    peer.reply_end()
    assert len(peer.last(fx.ResponseDone).response.output) == MAX_CALLS


def test_a_call_that_is_done_can_be_deleted_and_one_that_is_not_can_not() -> None:
    peer = asked()
    peer.reply_call("time", "{}")
    done = peer.last(fx.ItemDone).item.id
    peer.reply_call("weather", "", index=1, done=False)
    going = peer.last(fx.ItemAdded).item.id
    assert names(peer.feed(ev.DeleteItem(done))) == ["ItemDeleted"]
    assert names(peer.feed(ev.DeleteItem(going))) == ["ErrorRaised"]
    assert peer.last(fx.ErrorRaised).error.code == "item_delete_in_progress"


def test_speech_cuts_what_is_said_and_leaves_a_call_that_is_done() -> None:
    peer = Peer.attached(turns=TurnDetection(), tools=(WEATHER,))
    peer.feed(say("how is it?"), ev.CreateResponse())
    peer.reply_text("one two")
    peer.reply_word("one", 0, 1000)
    peer.reply_word("two", 1000, 2000)
    peer.reply_audio(2000)
    peer.written(2000)
    peer.reply_call("weather", "{}")
    peer.wait(1.0)
    peer.speech(100)
    peer.feed(ev.CreateResponse())
    message = peer.last(wx.StartReply).messages[1]
    assert (message.text, message.calls[0].name) == ("one", "weather")


# What a model may call.


def test_functions_of_the_session_and_of_a_response_are_offered() -> None:
    peer = Peer.attached(tools=(WEATHER,), tool_choice=MUST, temperature=0.5)
    peer.feed(ev.CreateResponse())
    started = peer.last(wx.StartReply)
    assert (started.tools, started.tool_choice) == ((WEATHER,), MUST)
    assert started.temperature == 0.5
    peer.reply_end()
    options = ev.ResponseOptions(tools=(TIME,), tool_choice=named("time"), temperature=0.9)
    peer.feed(ev.CreateResponse(options))
    started = peer.last(wx.StartReply)
    assert (started.tools, started.tool_choice) == ((TIME,), named("time"))
    assert started.temperature == peer.last(fx.ResponseCreated).response.temperature == 0.9
    peer.reply_end()
    peer.feed(ev.CreateResponse())
    assert peer.last(wx.StartReply).tools == (WEATHER,)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        (ev.ResponseOptions(tool_choice=named("time")), "response.tool_choice.name"),
        (ev.ResponseOptions(tools=(), tool_choice=MUST), "response.tool_choice"),
        (ev.ResponseOptions(tools=(TIME, TIME)), "response.tools[1].name"),
        (ev.ResponseOptions(temperature=2.5), "response.temperature"),
        (ev.ResponseOptions(temperature=float("nan")), "response.temperature"),
    ],
)
def test_what_can_not_be_followed_is_refused_by_name(
    options: ev.ResponseOptions, param: str
) -> None:
    peer = Peer.attached(tools=(WEATHER,))
    assert names(peer.feed(ev.CreateResponse(options, "e"))) == ["ErrorRaised"]
    error = peer.last(fx.ErrorRaised).error
    assert (error.code, error.param, error.event_id) == ("invalid_value", param, "e")


def test_a_turn_is_answered_even_where_a_call_is_demanded_and_nothing_is_offered() -> None:
    peer = Peer.attached(turns=TurnDetection(silence_duration_ms=300), tool_choice=MUST)
    peer.speech(600)
    peer.silence(300)
    peer.recognize("hello")
    assert peer.last(wx.StartReply).tool_choice == ToolChoice()


# Calls made ahead.


def drafting() -> Peer:
    peer = Peer.attached(SPECULATION, TurnDetection(), tools=(WEATHER,))
    peer.speech(600)
    peer.silence(200)
    peer.recognize("how is it?")
    return peer


def test_a_call_made_ahead_is_told_once_the_turn_is_over() -> None:
    peer = drafting()
    assert peer.reply_call("weather", "{}") == []
    peer.reply_end()
    told = peer.silence(300)
    assert names(told)[-6:] == [
        "ItemAdded",
        "CallDelta",
        "CallDone",
        "ItemDone",
        "OutputItemDone",
        "ResponseDone",
    ]


def test_a_call_made_ahead_in_vain_is_never_told() -> None:
    peer = drafting()
    peer.reply_call("weather", "{}")
    peer.reply_end()
    peer.speech(200)
    assert peer.count(fx.OutputItemAdded) == peer.count(fx.CallDone) == 0


def test_functions_that_change_make_a_draft_worthless() -> None:
    peer = drafting()
    told = peer.feed(ev.UpdateSession(SettingsPatch(tools=(TIME,))))
    assert names(told) == ["SessionUpdated", "AbortReply"]
