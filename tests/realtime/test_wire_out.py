"""Server events: the exact JSON of every effect, strict enough for OpenAI's own client."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import fields
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter
from tests.support.fakes import tone

from antiphon.codecs.g711 import alaw_decode, ulaw_decode, ulaw_encode
from antiphon.codecs.pcm import to_float
from antiphon.realtime.audio_format import to_wire
from antiphon.realtime.outbox import Frame, SlowText
from antiphon.realtime.wire_out import BIG_AUDIO, DELTA_BYTES, DELTA_CHARS, WireEncoder
from antiphon.sessions import effects as fx
from antiphon.sessions.errors import ErrorInfo
from antiphon.sessions.events import TokenLogprob
from antiphon.sessions.items import Item, ItemKind, ItemStatus, Part, PartKind, Role
from antiphon.sessions.settings import (
    AudioFormat,
    Modality,
    Settings,
    Transcription,
    TurnDetection,
)

Json = dict[str, Any]
AT = fx.PartAt("resp_1", "item_1", 0, 0)
AT_JSON = {
    "response_id": "resp_1",
    "item_id": "item_1",
    "output_index": 0,
    "content_index": 0,
}
CALL_AT_JSON = {key: value for key, value in AT_JSON.items() if key != "content_index"}
HEARD = Item(id="item_0", role=Role.USER, parts=(Part(PartKind.INPUT_AUDIO, "hi"),))
SPOKEN = Item(id="item_1", role=Role.ASSISTANT, parts=(Part(PartKind.OUTPUT_AUDIO, "hello"),))
SPOKEN_JSON = {
    "id": "item_1",
    "object": "realtime.item",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_audio", "transcript": "hello"}],
}
HEARD_JSON = {
    "id": "item_0",
    "object": "realtime.item",
    "type": "message",
    "status": "completed",
    "role": "user",
    "content": [{"type": "input_audio", "transcript": None}],
}

_server_event: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


def encoder() -> WireEncoder:
    return WireEncoder(
        "seed", session_id="sess_1", conversation_id="conv_1", model="m", voices=("ada", "bob")
    )


def tell(wire: WireEncoder, effect: fx.ClientEffect) -> list[Json]:
    """Return the events, each checked by OpenAI's client unless it is an extension."""
    events: list[Json] = []
    for said in wire.encode(effect):
        text = said.data if isinstance(said, Frame) else said
        text = text.make() if isinstance(text, SlowText) else text
        assert isinstance(text, str)
        event = msgspec.json.decode(text, type=Json)
        if not event["type"].startswith("antiphon."):
            parsed = _server_event.validate_json(text, strict=True)
            assert parsed.type == event["type"]
        events.append(event)
    return events


def one(effect: fx.ClientEffect, wire: WireEncoder | None = None) -> Json:
    """Return the one event of an effect, without its id."""
    (event,) = tell(wire or encoder(), effect)
    assert event.pop("event_id").startswith("event_")
    return event


def view(status: fx.ResponseStatus = fx.ResponseStatus.IN_PROGRESS, **more: Any) -> fx.ResponseView:
    given: dict[str, Any] = {
        "modality": Modality.AUDIO,
        "voice": "ada",
        "output_format": AudioFormat.PCM,
    }
    return fx.ResponseView(id="resp_1", status=status, **{**given, **more})


def speaking(form: AudioFormat = AudioFormat.PCM) -> WireEncoder:
    """Return an encoder that has told of a response in ``form``."""
    wire = encoder()
    one(fx.ResponseCreated(view(output_format=form)), wire)
    return wire


def deltas(events: list[Json]) -> list[bytes]:
    return [b64decode(e["delta"]) for e in events if e["type"] == "response.output_audio.delta"]


# The session.


def session_json(**changed: object) -> Json:
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": "sess_1",
        "model": "m",
        "expires_at": 1234,
        "output_modalities": ["audio"],
        "instructions": "",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 500,
                    "create_response": True,
                    "interrupt_response": True,
                    "idle_timeout_ms": None,
                },
            },
            "output": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "voice": "ada",
                "speed": 1.0,
            },
        },
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "truncation": "auto",
        "tracing": None,
        "prompt": None,
        "include": None,
        **changed,
    }


def test_a_session_is_told_whole() -> None:
    created = one(fx.SessionCreated("sess_1", Settings(voice="ada"), 1234))
    assert created == {"type": "session.created", "session": session_json()}


def test_every_setting_is_told() -> None:
    settings = Settings(
        instructions="Be brief.",
        modality=Modality.TEXT,
        input_format=AudioFormat.PCMU,
        output_format=AudioFormat.PCMA,
        voice="bob",
        speed=1.25,
        turn_detection=TurnDetection(
            threshold=0.7,
            prefix_padding_ms=100,
            silence_duration_ms=200,
            create_response=False,
            interrupt_response=False,
        ),
        transcription=Transcription(model="whisper-1", language="en", prompt="names"),
        max_output_tokens=99,
    )
    told = one(fx.SessionUpdated("sess_1", settings, 1234))
    assert told["type"] == "session.updated"
    audio = {
        "input": {
            "format": {"type": "audio/pcmu"},
            "transcription": {"model": "whisper-1", "language": "en", "prompt": "names"},
            "noise_reduction": None,
            "turn_detection": {
                "type": "server_vad",
                "threshold": 0.7,
                "prefix_padding_ms": 100,
                "silence_duration_ms": 200,
                "create_response": False,
                "interrupt_response": False,
                "idle_timeout_ms": None,
            },
        },
        "output": {"format": {"type": "audio/pcma"}, "voice": "bob", "speed": 1.25},
    }
    assert told["session"] == session_json(
        output_modalities=["text"], instructions="Be brief.", audio=audio, max_output_tokens=99
    )


def test_turn_detection_that_is_off_is_null() -> None:
    told = one(fx.SessionUpdated("sess_1", Settings(turn_detection=None), 0))
    assert told["session"]["audio"]["input"]["turn_detection"] is None


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Transcription(model="w"), {"model": "w"}),
        (Transcription(model="w", language="de"), {"model": "w", "language": "de"}),
        (Transcription(model="w", prompt="p"), {"model": "w", "prompt": "p"}),
    ],
)
def test_transcription_names_only_what_was_set(wanted: Transcription, told: Json) -> None:
    event = one(fx.SessionUpdated("sess_1", Settings(transcription=wanted), 0))
    assert event["session"]["audio"]["input"]["transcription"] == told


def test_extensions_are_told_only_to_who_asked() -> None:
    plain = one(fx.SessionUpdated("sess_1", Settings(), 0))
    asked = one(fx.SessionUpdated("sess_1", Settings(extensions=True), 0))
    assert "antiphon" not in plain["session"]
    assert asked["session"]["antiphon"] == {
        "voices": ["ada", "bob"],
        "binary_audio": False,
        "binary_format": "pcm16",
    }


# Events that are told as they are.


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (
            fx.SpeechStarted(120, "item_0"),
            {
                "type": "input_audio_buffer.speech_started",
                "audio_start_ms": 120,
                "item_id": "item_0",
            },
        ),
        (
            fx.SpeechStopped(900, "item_0"),
            {
                "type": "input_audio_buffer.speech_stopped",
                "audio_end_ms": 900,
                "item_id": "item_0",
            },
        ),
        (
            fx.BufferCommitted("item_0", None),
            {
                "type": "input_audio_buffer.committed",
                "item_id": "item_0",
                "previous_item_id": None,
            },
        ),
        (fx.BufferCleared(), {"type": "input_audio_buffer.cleared"}),
        (
            fx.ItemAdded(HEARD, "item_x"),
            {
                "type": "conversation.item.added",
                "previous_item_id": "item_x",
                "item": HEARD_JSON,
            },
        ),
        (
            fx.ItemDone(SPOKEN, None),
            {"type": "conversation.item.done", "previous_item_id": None, "item": SPOKEN_JSON},
        ),
        (
            fx.ItemTruncated("item_1", 0, 1500),
            {
                "type": "conversation.item.truncated",
                "item_id": "item_1",
                "content_index": 0,
                "audio_end_ms": 1500,
            },
        ),
        (
            fx.ItemDeleted("item_1"),
            {"type": "conversation.item.deleted", "item_id": "item_1"},
        ),
        (
            fx.TranscriptionDone("item_0", "hi", 1540),
            {
                "type": "conversation.item.input_audio_transcription.completed",
                "item_id": "item_0",
                "content_index": 0,
                "transcript": "hi",
                "usage": {"type": "duration", "seconds": 1.54},
            },
        ),
        (
            fx.TranscriptionFailed("item_0", ErrorInfo("code", "words", type="server_error")),
            {
                "type": "conversation.item.input_audio_transcription.failed",
                "item_id": "item_0",
                "content_index": 0,
                "error": {
                    "type": "server_error",
                    "code": "code",
                    "message": "words",
                    "param": None,
                },
            },
        ),
        (
            fx.ErrorRaised(ErrorInfo("code", "words", "a.b", "e1")),
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "code": "code",
                    "message": "words",
                    "param": "a.b",
                    "event_id": "e1",
                },
            },
        ),
        (
            fx.ErrorRaised(ErrorInfo(None, "words", type="server_error", retry_after_ms=1000)),
            {
                "type": "error",
                "error": {
                    "type": "server_error",
                    "code": None,
                    "message": "words",
                    "param": None,
                    "event_id": None,
                    "retry_after_ms": 1000,
                },
            },
        ),
        (
            fx.OutputItemAdded("resp_1", 0, SPOKEN),
            {
                "type": "response.output_item.added",
                "response_id": "resp_1",
                "output_index": 0,
                "item": SPOKEN_JSON,
            },
        ),
        (
            fx.OutputItemDone("resp_1", 0, SPOKEN),
            {
                "type": "response.output_item.done",
                "response_id": "resp_1",
                "output_index": 0,
                "item": SPOKEN_JSON,
            },
        ),
        (
            fx.ContentPartAdded(AT, Modality.AUDIO),
            {
                "type": "response.content_part.added",
                **AT_JSON,
                "part": {"type": "audio", "transcript": ""},
            },
        ),
        (
            fx.ContentPartDone(AT, Modality.TEXT, "hello"),
            {
                "type": "response.content_part.done",
                **AT_JSON,
                "part": {"type": "text", "text": "hello"},
            },
        ),
        (
            fx.TextDelta(AT, "he"),
            {"type": "response.output_text.delta", **AT_JSON, "delta": "he"},
        ),
        (
            fx.TextDone(AT, "hello"),
            {"type": "response.output_text.done", **AT_JSON, "text": "hello"},
        ),
        (
            fx.TranscriptDelta(AT, "he"),
            {"type": "response.output_audio_transcript.delta", **AT_JSON, "delta": "he"},
        ),
        (
            fx.TranscriptDone(AT, "hello"),
            {"type": "response.output_audio_transcript.done", **AT_JSON, "transcript": "hello"},
        ),
        (fx.AudioDone(AT), {"type": "response.output_audio.done", **AT_JSON}),
        (
            fx.IdleTimedOut(10, 5010, "item_0"),
            {
                "type": "input_audio_buffer.timeout_triggered",
                "audio_start_ms": 10,
                "audio_end_ms": 5010,
                "item_id": "item_0",
            },
        ),
        (
            fx.TranscriptionDelta("item_0", "hé", (TokenLogprob("hé", -0.5),)),
            {
                "type": "conversation.item.input_audio_transcription.delta",
                "item_id": "item_0",
                "content_index": 0,
                "delta": "hé",
                "logprobs": [{"token": "hé", "logprob": -0.5, "bytes": [104, 195, 169]}],
            },
        ),
        (
            fx.CallDelta(AT, "call_1", '{"a"'),
            {
                "type": "response.function_call_arguments.delta",
                **CALL_AT_JSON,
                "call_id": "call_1",
                "delta": '{"a"',
            },
        ),
        (
            fx.CallDone(AT, "call_1", "add", '{"a":1}'),
            {
                "type": "response.function_call_arguments.done",
                **CALL_AT_JSON,
                "call_id": "call_1",
                "name": "add",
                "arguments": '{"a":1}',
            },
        ),
        (
            fx.RateLimitsUpdated((fx.RateLimit("requests", 10, 9, 6.5),)),
            {
                "type": "rate_limits.updated",
                "rate_limits": [
                    {"name": "requests", "limit": 10, "remaining": 9, "reset_seconds": 6.5}
                ],
            },
        ),
        (
            fx.WordSpoken(AT, "hello", 0, 420),
            {
                "type": "antiphon.word",
                "response_id": "resp_1",
                "item_id": "item_1",
                "word": "hello",
                "start_ms": 0,
                "end_ms": 420,
            },
        ),
    ],
)
def test_an_effect_is_one_event(effect: fx.ClientEffect, expected: Json) -> None:
    assert one(effect) == expected


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (fx.TurnMeasured, "antiphon.metrics"),
        (fx.ResponseMeasured, "antiphon.response.metrics"),
    ],
)
def test_measurements_are_told_one_for_one_where_asked_for(kind: type[Any], name: str) -> None:
    values: dict[str, Any] = {
        each.name: [1.5, 2.0] if each.name == "chunks_ms" else float(number)
        for number, each in enumerate(fields(kind))
        if each.name != "response_id"
    }
    wire = encoder()
    tell(wire, fx.SessionCreated("sess_1", Settings(), 0))
    assert tell(wire, kind(response_id="resp_1", **values)) == []
    tell(wire, fx.SessionUpdated("sess_1", Settings(extensions=True), 0))
    told = one(kind(response_id="resp_1", **values), wire)
    assert told == {"type": name, "response_id": "resp_1", **values}


def test_event_ids_differ_and_come_from_the_seed() -> None:
    ids = [tell(wire, fx.BufferCleared())[0]["event_id"] for wire in [encoder()] * 50]
    assert len(set(ids)) == 50
    assert ids[0] == tell(encoder(), fx.BufferCleared())[0]["event_id"]


# Items.


@pytest.mark.parametrize("status", list(ItemStatus))
def test_the_status_of_an_item(status: ItemStatus) -> None:
    item = Item(id="i", role=Role.SYSTEM, status=status, parts=(Part(PartKind.INPUT_TEXT, "r"),))
    told = one(fx.ItemAdded(item, None))["item"]
    assert (told["role"], told["status"]) == ("system", status.value)
    assert told["content"] == [{"type": "input_text", "text": "r"}]


def test_a_text_part_without_text_is_empty() -> None:
    item = Item(id="i", role=Role.ASSISTANT, parts=(Part(PartKind.OUTPUT_TEXT),))
    assert one(fx.ItemAdded(item, None))["item"]["content"] == [{"type": "output_text", "text": ""}]


def test_calls_and_their_outputs_are_told_whole() -> None:
    call = Item(
        id="i",
        kind=ItemKind.FUNCTION_CALL,
        status=ItemStatus.IN_PROGRESS,
        call_id="c",
        name="add",
    )
    assert one(fx.OutputItemAdded("resp_1", 1, call))["item"] == {
        "id": "i",
        "object": "realtime.item",
        "type": "function_call",
        "status": "in_progress",
        "name": "add",
        "call_id": "c",
        "arguments": "",
    }
    gave = Item(id="j", kind=ItemKind.FUNCTION_OUTPUT, call_id="c", output="3")
    assert one(fx.ItemAdded(gave, "i"))["item"] == {
        "id": "j",
        "object": "realtime.item",
        "type": "function_call_output",
        "status": "completed",
        "call_id": "c",
        "output": "3",
    }


@pytest.mark.parametrize("form", list(AudioFormat))
def test_long_audio_of_an_item_is_made_later(form: AudioFormat) -> None:
    wire = encoder()
    tell(wire, fx.SessionUpdated("sess_1", Settings(output_format=form), 0))
    pcm = np.arange(3 * BIG_AUDIO // 2, dtype="<i2").tobytes()
    item = Item(id="i", role=Role.ASSISTANT, parts=(Part(PartKind.OUTPUT_AUDIO, '"audio":""'),))
    (frame,) = wire.encode(fx.ItemRetrieved(item, pcm))
    assert isinstance(frame, SlowText)
    text = frame.make()
    _server_event.validate_json(text, strict=True)
    (part,) = msgspec.json.decode(text, type=Json)["item"]["content"]
    assert part["transcript"] == '"audio":""'
    assert b64decode(part["audio"]) == to_wire(pcm, form)
    (short,) = wire.encode(fx.ItemRetrieved(item, pcm[:4800]))
    assert isinstance(short, str)


def test_what_was_heard_is_told_only_to_who_asked_for_transcription() -> None:
    wire = encoder()
    asked = Settings(transcription=Transcription(model="w"))
    for now, shown in ((Settings(), None), (asked, "hi"), (Settings(), None)):
        tell(wire, fx.SessionUpdated("sess_1", now, 0))
        content = one(fx.ItemDone(HEARD, None), wire)["item"]["content"]
        assert content == [{"type": "input_audio", "transcript": shown}]


def test_audio_of_an_item_is_told_only_when_it_was_asked_for() -> None:
    pcm = b"\x01\x00\x02\x00"
    told = one(fx.ItemRetrieved(SPOKEN, pcm))
    assert told["type"] == "conversation.item.retrieved"
    assert b64decode(told["item"]["content"][0]["audio"]) == pcm
    assert one(fx.ItemRetrieved(SPOKEN, b""))["item"]["content"][0]["audio"] == ""


def test_audio_of_an_item_comes_in_the_format_of_its_side() -> None:
    wire = encoder()
    settings = Settings(input_format=AudioFormat.PCMU, output_format=AudioFormat.PCMA)
    tell(wire, fx.SessionUpdated("sess_1", settings, 0))
    heard = one(fx.ItemRetrieved(HEARD, b"\0" * 4800), wire)["item"]["content"][0]
    spoken = one(fx.ItemRetrieved(SPOKEN, b"\0" * 4800), wire)["item"]["content"][0]
    assert b64decode(heard["audio"]) == ulaw_encode(b"\0\0") * 800
    assert alaw_decode(b64decode(spoken["audio"])) == alaw_decode(b"\xd5") * 800


# Responses.


def test_a_response_that_begins() -> None:
    told = one(fx.ResponseCreated(view(max_output_tokens=50, metadata=(("k", "v"),))))
    assert told == {
        "type": "response.created",
        "response": {
            "object": "realtime.response",
            "id": "resp_1",
            "status": "in_progress",
            "status_details": None,
            "output": [],
            "conversation_id": "conv_1",
            "output_modalities": ["audio"],
            "max_output_tokens": 50,
            "audio": {"output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "ada"}},
            "usage": None,
            "metadata": {"k": "v"},
        },
    }


def test_a_response_that_is_done() -> None:
    usage = fx.TokenUsage(input_tokens=10, cached_tokens=4, output_tokens=3)
    told = one(fx.ResponseDone(view(fx.ResponseStatus.COMPLETED, output=(SPOKEN,), usage=usage)))[
        "response"
    ]
    assert told["status_details"] is None
    assert told["output"] == [SPOKEN_JSON]
    assert told["max_output_tokens"] == "inf"
    assert told["metadata"] is None
    assert told["usage"] == {
        "total_tokens": 13,
        "input_tokens": 10,
        "output_tokens": 3,
        "input_token_details": {
            "text_tokens": 10,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": 4,
            "cached_tokens_details": {"text_tokens": 4, "audio_tokens": 0, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": 3, "audio_tokens": 0},
    }


@pytest.mark.parametrize(
    ("status", "more", "details"),
    [
        (
            fx.ResponseStatus.CANCELLED,
            {"reason": "turn_detected"},
            {"type": "cancelled", "reason": "turn_detected"},
        ),
        (
            fx.ResponseStatus.INCOMPLETE,
            {"reason": "max_output_tokens"},
            {"type": "incomplete", "reason": "max_output_tokens"},
        ),
        (
            fx.ResponseStatus.FAILED,
            {"error": ErrorInfo("code", "words", type="server_error")},
            {
                "type": "failed",
                "error": {"type": "server_error", "code": "code", "message": "words"},
            },
        ),
        (
            fx.ResponseStatus.FAILED,
            {"error": ErrorInfo("busy", "words", type="server_error", retry_after_ms=500)},
            {
                "type": "failed",
                "error": {
                    "type": "server_error",
                    "code": "busy",
                    "message": "words",
                    "retry_after_ms": 500,
                },
            },
        ),
    ],
)
def test_why_a_response_is_over(status: fx.ResponseStatus, more: Json, details: Json) -> None:
    told = one(fx.ResponseDone(view(status, usage=fx.TokenUsage(), **more)))["response"]
    assert (told["status"], told["status_details"]) == (status.value, details)


def test_a_response_of_its_own_belongs_to_no_conversation() -> None:
    told = one(fx.ResponseCreated(view(out_of_band=True)))["response"]
    assert told["conversation_id"] is None


def test_audio_counts_beside_text() -> None:
    usage = fx.TokenUsage(
        input_tokens=10, output_tokens=3, input_audio_tokens=7, output_audio_tokens=20
    )
    told = one(fx.ResponseDone(view(fx.ResponseStatus.COMPLETED, usage=usage)))["response"]["usage"]
    assert (told["input_tokens"], told["output_tokens"], told["total_tokens"]) == (17, 23, 40)
    assert told["input_token_details"]["audio_tokens"] == 7
    assert told["output_token_details"] == {"text_tokens": 3, "audio_tokens": 20}


# Deltas.


@pytest.mark.parametrize("kind", [fx.TextDelta, fx.TranscriptDelta])
def test_text_is_split_so_that_no_frame_is_long(kind: type[fx.TextDelta]) -> None:
    text = "\0🙂" * DELTA_CHARS
    frames = [str(frame) for frame in encoder().encode(kind(AT, text))]
    assert max(len(frame.encode()) for frame in frames) < 64 * 1024
    pieces = [msgspec.json.decode(frame, type=Json)["delta"] for frame in frames]
    assert "".join(pieces) == text
    assert len(pieces) == 2


# Audio.


def test_audio_is_split_so_that_no_frame_is_long() -> None:
    pcm = np.arange(35_000, dtype="<i2").tobytes()
    told = tell(speaking(), fx.AudioDelta(AT, 0, pcm))
    assert [len(part) for part in deltas(told)] == [DELTA_BYTES, DELTA_BYTES, 22_000]
    assert b"".join(deltas(told)) == pcm
    assert all(
        event == {**event, "type": "response.output_audio.delta", **AT_JSON} for event in told
    )


@pytest.mark.parametrize(
    ("form", "decode"), [(AudioFormat.PCMU, ulaw_decode), (AudioFormat.PCMA, alaw_decode)]
)
def test_g711_comes_whole_by_the_end(form: AudioFormat, decode: Any) -> None:
    wire = speaking(form)
    told: list[Json] = []
    for _ in range(10):
        told += tell(wire, fx.AudioDelta(AT, 0, tone(20, 8000)))
    tail = tell(wire, fx.AudioDone(AT))
    assert [event["type"] for event in tail] == [
        "response.output_audio.delta",
        "response.output_audio.done",
    ]
    sound = to_float(decode(b"".join(deltas(told + tail))))
    assert abs(len(sound) - 1600) <= 1
    assert np.allclose(sound[200:1400], 8000 / 32768, atol=0.01)


def test_the_format_of_a_response_is_that_of_its_beginning() -> None:
    wire = speaking()
    tell(wire, fx.SessionUpdated("sess_1", Settings(output_format=AudioFormat.PCMU), 0))
    assert deltas(tell(wire, fx.AudioDelta(AT, 0, tone(20)))) == [tone(20)]


@pytest.mark.parametrize("form", list(AudioFormat))
def test_nothing_of_an_aborted_response_is_encoded(form: AudioFormat) -> None:
    wire = speaking(form)
    tell(wire, fx.AudioDelta(AT, 0, tone(200)))
    wire.abort("resp_1")
    assert tell(wire, fx.AudioDelta(AT, 0, tone(200))) == []
    assert [event["type"] for event in tell(wire, fx.AudioDone(AT))] == [
        "response.output_audio.done"
    ]


def test_a_response_that_is_done_has_no_more_audio() -> None:
    wire = speaking()
    tell(wire, fx.ResponseDone(view(fx.ResponseStatus.COMPLETED, usage=fx.TokenUsage())))
    assert tell(wire, fx.AudioDelta(AT, 0, tone(20))) == []


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60_000), max_size=4))
def test_no_delta_is_longer_than_half_a_second(pieces: list[bytes]) -> None:
    wire = speaking()
    told = [event for pcm in pieces for event in tell(wire, fx.AudioDelta(AT, 0, pcm))]
    assert all(0 < len(part) <= DELTA_BYTES for part in deltas(told))
    assert b"".join(deltas(told)) == b"".join(pieces)
