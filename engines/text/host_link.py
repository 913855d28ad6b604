"""What a server and the process of its language model say to each other.

Two sockets join them. Requests and what is written for them go over one, in both
directions at any time; the other carries questions that are answered at once. A message
is MessagePack behind its length, four bytes.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from ..deployment import VllmConfig
from ..pipeline import Message
from ..speech.tokens.config import TokenModelConfig
from ..tools import Tool

_LENGTH = struct.Struct(">I")

MAX_MESSAGE = 64 * 1024 * 1024
"""Longer ones are a fault: a prompt has a few thousand tokens."""

RECEIVE_BYTES = 65536


class LinkClosed(Exception):
    """The other side is gone."""


# Asked, and answered.


ModelConfig: TypeAlias = VllmConfig | TokenModelConfig
"""Of a model that writes text, which has a tokenizer beside it, or tokens alone."""


class Load(msgspec.Struct, frozen=True, tag=True):
    """The first question: load the model."""

    config: ModelConfig
    folder: str
    work: str


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """It is there."""


class NotLoaded(msgspec.Struct, frozen=True, tag=True):
    """It is not, and the process ends."""

    code: str
    message: str


class Count(msgspec.Struct, frozen=True, tag=True):
    """How many tokens is a text?"""

    text: str


class Render(msgspec.Struct, frozen=True, tag=True):
    """What are the tokens of a conversation?"""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]


class Check(msgspec.Struct, frozen=True, tag=True):
    """Can a structural tag be enforced?"""

    constraint: str


class Answer(msgspec.Struct, frozen=True, tag=True):
    """Answers the last three, each in its member."""

    count: int = 0
    tokens: list[int] = []
    problem: str | None = None


Question: TypeAlias = Load | Count | Render | Check
Reply: TypeAlias = Loaded | NotLoaded | Answer


# Told.


class TokenChoice(msgspec.Struct, frozen=True, kw_only=True):
    """How each token is chosen, where a request says all of it."""

    stop: tuple[int, ...]
    """Tokens that end it; no other does."""

    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    extra: dict[str, Any] = {}
    """For logits processors."""


class Generate(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Write an answer."""

    request_id: str
    tokens: list[int]
    max_tokens: int
    temperature: float
    constraint: str | None = None
    choice: TokenChoice | None = None
    """Of a model of tokens; ``None`` for the deployment's, of one that writes text."""


class Abort(msgspec.Struct, frozen=True, tag=True):
    """Stop writing; :class:`Dropped` says when that is done."""

    request_id: str


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine has generated of a request since the last piece."""

    request_id: str = ""
    text: str
    tokens: int
    prompt_tokens: int
    cached_tokens: int
    finish: str | None
    """``stop``, ``length``, ... with the last piece; before it ``None``."""

    ids: list[int] = []
    """Of a model of tokens: what was generated, the one that stopped it as well."""


class Pieces(msgspec.Struct, frozen=True, tag=True):
    """What one step of the engine made."""

    pieces: list[Piece]


class Dropped(msgspec.Struct, frozen=True, tag=True):
    """The engine does nothing more for a request that was aborted."""

    request_id: str


ToHost: TypeAlias = Generate | Abort
FromHost: TypeAlias = Pieces | Dropped

_encoder = msgspec.msgpack.Encoder()


def frame(message: object) -> bytes:
    """Return a message as it goes over a socket."""
    data = _encoder.encode(message)
    return _LENGTH.pack(len(data)) + data


class Unframer:
    """Cuts what a socket gives into messages."""

    def __init__(self, kind: Any) -> None:
        """``kind``: of the messages, as msgspec wants it."""
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the messages that are complete by now.

        Raises:
            LinkClosed: what came can't be a message.
        """
        self._data += data
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            if length > MAX_MESSAGE:
                raise LinkClosed
            end = _LENGTH.size + length
            if len(self._data) < end:
                return
            body = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            try:
                yield self._decoder.decode(body)
            except msgspec.DecodeError:
                raise LinkClosed from None


class Calls:
    """One end of the socket for questions; blocks."""

    def __init__(self, end: socket.socket, kind: Any) -> None:
        """``kind`` of what is received here."""
        self._socket = end
        self._unframer = Unframer(kind)

    def send(self, message: Question | Reply) -> None:
        """Say something.

        Raises:
            LinkClosed: nobody is there.
        """
        try:
            self._socket.sendall(frame(message))
        except OSError:
            raise LinkClosed from None

    def receive(self) -> Any:
        """Return what the other side says; it says one thing at a time.

        Raises:
            LinkClosed: it says nothing any more.
        """
        while True:
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except OSError:
                raise LinkClosed from None
            if not data:
                raise LinkClosed
            for message in self._unframer.feed(data):
                return message

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
