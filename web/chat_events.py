"""Answers of a chat as they are on the wire, whole or in chunks: pure."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..engines.chunks import CallDelta, Usage
from ..engines.pipeline import OUTPUT_RATE
from ..sessions.response import HEARD_TOKEN_MS, SPOKEN_TOKEN_MS

Json = dict[str, Any]

TIER = "default"

DONE = b"data: [DONE]\n\n"

_WHOLE = 6
"""Bytes of audio of which each piece has a multiple: whole samples, and base64 without padding,
so that pieces can be decoded one by one or all joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What an answer took."""

    tokens: Usage
    heard_ms: float = 0.0
    """Of recordings in the messages."""

    spoken_ms: float = 0.0

    def json(self) -> Json:
        """As OpenAI has it; audio counts as in sessions."""
        heard = -(-round(self.heard_ms) // HEARD_TOKEN_MS)
        spoken = -(-round(self.spoken_ms) // SPOKEN_TOKEN_MS)
        read = self.tokens.input_tokens + heard
        written = self.tokens.output_tokens + spoken
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {
                "text_tokens": self.tokens.input_tokens,
                "audio_tokens": heard,
                "cached_tokens": self.tokens.cached_tokens,
            },
            "completion_tokens_details": {
                "text_tokens": self.tokens.output_tokens,
                "audio_tokens": spoken,
                "reasoning_tokens": 0,
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What all chunks of an answer have in common."""

    id: str
    created: int
    """Unix seconds."""

    model: str
    include_usage: bool = False
    """Whether chunks have a place for usage, which only the last one fills."""

    def first(self, *, aloud: bool) -> bytes:
        """The chunk that says whose answer it is."""
        content: Json = {} if aloud else {"content": ""}
        return self.delta({"role": "assistant", **content, "refusal": None})

    def delta(self, delta: Json, finish: str | None = None) -> bytes:
        """One more piece, or why there are no more."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._chunk([choice], None)

    def used(self, used: Used) -> bytes:
        """The last chunk."""
        return self._chunk([], used.json())

    def whole(self, message: Json, finish: str, used: Used) -> bytes:
        """The answer in one object."""
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        head = self._head("chat.completion")
        return msgspec.json.encode({**head, "choices": [choice], "usage": used.json()})

    def _chunk(self, choices: list[Json], usage: Json | None) -> bytes:
        told = {"usage": usage} if self.include_usage else {}
        return event({**self._head("chat.completion.chunk"), "choices": choices, **told})

    def _head(self, kind: str) -> Json:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "service_tier": TIER,
            "system_fingerprint": None,
        }


def event(body: Json) -> bytes:
    """A server-sent event with data alone."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


class Pieces:
    """Cuts a file into pieces of base64."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes, *, last: bool = False) -> str:
        """What can be sent; up to five bytes are held back until the last."""
        data = self._rest + data
        end = len(data) if last else len(data) - len(data) % _WHOLE
        self._rest = data[end:]
        return b64encode(data[:end]).decode()


@dataclass(slots=True)
class _Call:
    call_id: str
    name: str
    arguments: list[str] = field(default_factory=list[str])


class Calls:
    """The calls of an answer while they are written."""

    def __init__(self, prefix: str) -> None:
        """``prefix``: what makes their ids differ from those of other answers."""
        self._prefix = prefix
        self._calls: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._calls)

    def take(self, piece: CallDelta) -> Json:
        """Take in a piece; what a stream tells of it."""
        told: Json = {"index": piece.index}
        call = self._calls.get(piece.index)
        if call is None:
            call = self._calls[piece.index] = _Call(f"{self._prefix}{piece.index}", piece.name)
            told |= {"id": call.call_id, "type": "function"}
            function: Json = {"name": call.name}
        else:
            function = {}
        call.arguments.append(piece.arguments)
        return {**told, "function": {**function, "arguments": piece.arguments}}

    def json(self) -> list[Json]:
        """All of them, whole."""
        return [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": "".join(call.arguments)},
            }
            for call in self._calls.values()
        ]


def spoken_ms(samples: int) -> float:
    """Length of audio of an answer."""
    return samples * 1000 / OUTPUT_RATE
