"""What a session asks to be done: the work of stages, and the end of the connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .settings import Truncation
from .tools import Tool, ToolChoice


@dataclass(frozen=True, slots=True)
class ExpectTurnEnd:
    """A turn may end shortly: what answers it may get ready."""


@dataclass(frozen=True, slots=True)
class StartListening:
    """Begin a voice activity stream."""

    listen_id: int


@dataclass(frozen=True, slots=True)
class FeedListening:
    """Audio for the stream, s16le at 24 kHz."""

    listen_id: int
    pcm: bytes


@dataclass(frozen=True, slots=True)
class StopListening:
    """End the stream; its results no longer matter."""

    listen_id: int


@dataclass(frozen=True, slots=True)
class StartRecognition:
    """Find out what was said."""

    recognition_id: int
    pcm: bytes
    """s16le at 24 kHz."""

    language: str | None
    prompt: str | None
    logprobs: bool = False
    """Whether the log probabilities of the tokens are wanted."""

    partial: bool = False
    """Whether this is a look at speech that goes on: what is finished comes first."""


@dataclass(frozen=True, slots=True)
class CancelRecognition:
    """What was said is not needed any more."""

    recognition_id: int


@dataclass(frozen=True, slots=True)
class ContextCall:
    """A call of a function in the model's context."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message of the model's context."""

    role: str
    """``system``, ``user``, ``assistant`` or ``tool``."""

    text: str
    images: tuple[str, ...] = ()
    """``data:`` URLs, of a user's message."""

    calls: tuple[ContextCall, ...] = ()
    """Functions that the assistant called with this message."""

    call_id: str | None = None
    """Of a tool's message: the call that it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReply:
    """Generate an answer."""

    response_id: str
    epoch: int
    messages: tuple[ContextMessage, ...]
    speak: bool
    voice: str
    speed: float
    max_output_tokens: int | None
    temperature: float | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    truncation: Truncation = Truncation()


@dataclass(frozen=True, slots=True)
class ReplyPlayed:
    """How far the listener of a running response is, for its stages to pace themselves."""

    response_id: str
    epoch: int
    played_ms: float
    until_ms: float
    """Up to where it plays on by itself, at real-time speed; infinite where that is as far as
    there is audio."""


@dataclass(frozen=True, slots=True)
class AbortReply:
    """Stop generating, and write no more audio of this response."""

    response_id: str
    epoch: int
    """The epoch that the response belonged to."""


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """End the connection once everything before this is written."""

    code: int
    reason: str


WorkEffect: TypeAlias = (
    ExpectTurnEnd
    | StartListening
    | FeedListening
    | StopListening
    | StartRecognition
    | CancelRecognition
    | StartReply
    | ReplyPlayed
    | AbortReply
    | CloseConnection
)
