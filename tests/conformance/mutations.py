"""Client events gone wrong: valid ones of every type and dialect, changed by a seeded chance."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice
from random import Random
from typing import Any, cast

import msgspec

from antiphon.realtime.binary import HEADER

Json = dict[str, Any]

QUIET = b64encode(bytes(960)).decode()
LOUD = b64encode(b"\x10\x27" * 2400).decode()
OPUS_PACKET = bytes.fromhex("08822e92f0434fdb7ab5b6d079c2d66b8805d018e80480")
IMAGE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
TOOL = {
    "type": "function",
    "name": "add",
    "description": "Add.",
    "parameters": {"type": "object", "properties": {"a": {"type": "number"}}},
}

_AUDIO_IN = {
    "format": {"type": "audio/pcm", "rate": 24000},
    "noise_reduction": {"type": "near_field", "strength": 0.5},
    "transcription": {"model": "w", "language": "en", "prompt": "p", "keywords": ["k"]},
    "turn_detection": {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 200,
        "create_response": True,
        "interrupt_response": True,
        "idle_timeout_ms": 6000,
    },
}
_AUDIO_OUT = {"format": {"type": "audio/pcmu"}, "voice": "ada", "speed": 1.0}
_SEMANTIC = {"type": "semantic_vad", "eagerness": "high", "threshold": None}


def _item(**members: Any) -> Json:
    return {"type": "conversation.item.create", "item": members, "previous_item_id": None}


def _message(role: str, *content: Json) -> Json:
    return _item(type="message", role=role, content=list(content))


VALID: tuple[Json, ...] = (
    {
        "type": "session.update",
        "session": {
            "type": "realtime",
            "instructions": "Be brief.",
            "output_modalities": ["audio"],
            "audio": {"input": _AUDIO_IN, "output": _AUDIO_OUT},
            "tools": [TOOL],
            "tool_choice": {"type": "function", "name": "add"},
            "truncation": {
                "type": "retention_ratio",
                "retention_ratio": 0.8,
                "token_limits": {"post_instructions": 900},
            },
            "include": ["item.input_audio_transcription.logprobs"],
            "max_output_tokens": "inf",
            "model": "m",
            "tracing": "auto",
            "antiphon": {},
        },
    },
    {
        "type": "session.update",
        "session": {"type": "realtime", "audio": {"input": {"turn_detection": _SEMANTIC}}},
    },
    {
        "type": "session.update",
        "session": {"type": "transcription", "audio": {"input": _AUDIO_IN}, "include": []},
    },
    {
        "type": "session.update",
        "session": {
            "modalities": ["text", "audio"],
            "voice": "bob",
            "speed": 1.25,
            "input_audio_format": "pcm16",
            "output_audio_format": "g711_alaw",
            "input_audio_transcription": {"model": "w"},
            "input_audio_noise_reduction": None,
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 200},
            "temperature": 0.8,
            "max_response_output_tokens": 100,
            "tool_choice": "auto",
        },
    },
    {"type": "session.update", "session": {"audio": {"input": {"turn_detection": None}}}},
    {
        "type": "session.update",
        "session": {"antiphon": {"binary_audio": True, "binary_format": "opus"}},
    },
    {
        "type": "transcription_session.update",
        "session": {"input_audio_format": "pcm16", "turn_detection": None, "include": []},
    },
    {"type": "input_audio_buffer.append", "audio": QUIET},
    {"type": "input_audio_buffer.append", "audio": LOUD},
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.clear"},
    {"type": "output_audio_buffer.clear"},
    _message("system", {"type": "input_text", "text": "Rules."}),
    _message("user", {"type": "input_text", "text": "hi"}, {"type": "input_audio", "audio": LOUD}),
    _message("user", {"type": "input_image", "image_url": IMAGE, "detail": "low"}),
    _message("assistant", {"type": "output_text", "text": "yes"}),
    _message("assistant", {"type": "audio", "transcript": "yes", "audio": QUIET}),
    _item(type="message", id="a", role="user", content=[{"type": "text", "text": "hi"}]),
    _item(type="function_call", id="b", call_id="c", name="add", arguments="{}"),
    _item(type="function_call_output", call_id="c", output="3"),
    _item(type="mcp_call", id="m"),
    {"type": "conversation.item.retrieve", "item_id": "a"},
    {
        "type": "conversation.item.truncate",
        "item_id": "a",
        "content_index": 0,
        "audio_end_ms": 1500,
    },
    {"type": "conversation.item.delete", "item_id": "a"},
    {"type": "response.create"},
    {
        "type": "response.create",
        "response": {
            "conversation": "none",
            "input": [
                {"type": "item_reference", "id": "a"},
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "hi"}],
                },
            ],
            "instructions": "Sing.",
            "output_modalities": ["text"],
            "audio": {"output": _AUDIO_OUT},
            "tools": [TOOL],
            "tool_choice": "required",
            "max_output_tokens": 12,
            "metadata": {"k": "v"},
        },
    },
    {
        "type": "response.create",
        "response": {
            "modalities": ["audio", "text"],
            "voice": "bob",
            "output_audio_format": "pcm16",
            "temperature": 0.9,
            "max_response_output_tokens": "inf",
        },
    },
    {"type": "response.cancel"},
    {"type": "response.cancel", "response_id": "r"},
    {
        "type": "antiphon.playback.report",
        "response_id": "r",
        "played_ms": 20.5,
        "buffered_ms": 3,
        "underruns": 1,
        "gap_ms": 12.5,
    },
)
"""One of each, and of each way to say it."""

_TYPES = sorted({event["type"] for event in VALID})

_TEXTS = (
    "",
    "\0",
    "\u202e\u200b",
    "é" * 40,
    "🙂" * 20,
    "'; DROP TABLE items; --",
    "../../etc/passwd",
    '"\\',
    "NaN",
    "root",
    "AAA",
    "data:image/png;base64,",
    "audio/pcma",
    "g711_ulaw",
    "semantic_vad",
    "message",
    "mcp",
)
_NUMBERS = (0, -1, 1, 2**31, 2**63 - 1, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308, 5e-324)
_OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"type": None}, {"": ""})

MAX_PATHS = 300
"""Members of an event that may be changed: what has grown large is not looked into."""

MAX_CHARS = 4_000_000
"""Of a message; longer ones only take longer."""

SMALL = 5_000
"""Bytes of a list up to which its entries are repeated many times."""

Path = tuple[Any, Any]
"""A container, and where in it."""


def messages(random: Random) -> Iterator[str | bytes]:
    """Yield messages without end, most of them wrong."""
    while True:
        event = _copied(random.choice(VALID))
        if random.random() < 0.3:
            event["event_id"] = random.choice(["e1", "", "x" * 512, "x" * 513, 3, None])
        for _ in range(random.choice((0, 1, 1, 1, 2, 3, 6))):
            _mutate(event, random)
        text = msgspec.json.encode(event).decode()
        if len(text) > MAX_CHARS:
            continue
        roll = random.random()
        if roll < 0.12:
            yield _garbled(text, random)
        elif roll < 0.14:
            yield text.encode()
        elif roll < 0.18:
            yield _frame(random)
        else:
            yield text


def _frame(random: Random) -> bytes:
    """Return a binary frame, or what looks like one."""
    payload = random.choice((b64decode(LOUD), b64decode(QUIET), b"", b"\0", OPUS_PACKET))
    if random.random() < 0.5:
        payload = random.randbytes(random.choice((1, 2, 40, 41, 900, 70_000)))
    version, kind = random.choice((0, 1, 1, 1, 1, 1, 2)), random.choice((0, 1, 1, 2, 2, 3, 255))
    numbers = (random.choice((0, 1, 2**32 - 1)) for _ in range(3))
    data = HEADER.pack(version, kind, random.choice((0, 1, 0xFFFF)), *numbers) + payload
    return data[: random.choice((1, 15, 16))] if random.random() < 0.1 else data


def _copied(event: Json) -> Json:
    return msgspec.json.decode(msgspec.json.encode(event), type=Json)


def _paths(value: Any) -> Iterator[Path]:
    keys: list[Any] = list(cast(Json, value) if isinstance(value, dict) else range(len(value)))
    for key in keys:
        each: Any = cast(Any, value)[key]
        yield value, key
        if isinstance(each, dict | list):
            yield from _paths(each)


def _mutate(event: Json, random: Random) -> None:
    paths = list(islice(_paths(event), MAX_PATHS))
    if not paths:
        event["type"] = random.choice(_TYPES)
        return
    place, key = random.choice(paths)
    match random.randrange(9):
        case 0:
            del place[key]
        case 1:
            _duplicate(place, key, random)
        case 2:
            place[key] = deepcopy(random.choice(_OTHERS))
        case 3:
            place[key] = random.choice(_TEXTS)
        case 4:
            place[key] = random.choice(_NUMBERS)
        case 5:
            place[key] = _nested(place[key], random)
        case 6:
            place[key] = _huge(random)
        case 7:
            donor, at = random.choice(list(_paths(_copied(random.choice(VALID)))))
            place[key] = donor[at]
        case _:
            event["type"] = random.choice(_TYPES)


def _duplicate(place: Any, key: Any, random: Random) -> None:
    if isinstance(key, int):
        small = len(place) < MAX_PATHS and len(msgspec.json.encode(place)) < SMALL
        times = random.choice((1, 2, 20)) if small else 1
        place.extend([deepcopy(place[key]) for _ in range(times)])
    else:
        name = random.choice((f"{key}_2", key.upper(), "type", "id", ""))
        place[name] = deepcopy(place[key])


def _nested(value: Any, random: Random) -> Any:
    for _ in range(random.choice((1, 2, 60))):
        value = {"type": value} if random.random() < 0.5 else [value]
    return value


def _huge(random: Random) -> Any:
    match random.randrange(4):
        case 0:
            return "x" * random.choice((65, 65, 513, 513, 20_000, 300_000))
        case 1:
            return "A" * 4 * random.choice((1, 1000, 40_000))
        case 2:
            return [None] * random.choice((129, 3000))
        case _:
            return {str(number): "v" for number in range(random.choice((17, 1000)))}


def _garbled(text: str, random: Random) -> str:
    """Return text with bytes flipped, left out, put in or cut off."""
    data = bytearray(text.encode()[:2000])
    for _ in range(random.choice((1, 1, 2, 8))):
        if not data:
            break
        at = random.randrange(len(data))
        match random.randrange(4):
            case 0:
                data[at] ^= 1 << random.randrange(8)
            case 1:
                del data[at : at + random.choice((1, 4))]
            case 2:
                data[at:at] = random.choice(
                    (b"\\ud800", b"\\u0000", b'"', b"{", b"[" * 2000, b"9" * 50)
                )
            case _:
                del data[at:]
    return data.decode(errors="replace")
