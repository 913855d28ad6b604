"""Everything a session asks for: what to tell the client; work is in :mod:`.work_effects`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from .errors import ErrorInfo
from .events import TokenLogprob
from .items import Item
from .measured import ResponseMeasured as ResponseMeasured
from .measured import TurnMeasured as TurnMeasured
from .settings import AudioFormat, Modality, Settings
from .work_effects import WorkEffect

# Told to the client.


@dataclass(frozen=True, slots=True)
class SessionCreated:
    """The session exists; always the first."""

    session_id: str
    settings: Settings
    expires_at: int
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class SessionUpdated:
    """The whole effective configuration, after any update."""

    session_id: str
    settings: Settings
    expires_at: int


@dataclass(frozen=True, slots=True)
class ErrorRaised:
    """Something asked for was refused; the session goes on."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The person began to speak; the item is what the speech will become."""

    audio_start_ms: int
    item_id: str


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The person's turn is over."""

    audio_end_ms: int
    item_id: str


@dataclass(frozen=True, slots=True)
class IdleTimedOut:
    """Nobody has spoken for so long that the session speaks up; the silence is an item."""

    audio_start_ms: int
    audio_end_ms: int
    item_id: str


@dataclass(frozen=True, slots=True)
class BufferCommitted:
    """Appended audio has become an item."""

    item_id: str
    previous_item_id: str | None


@dataclass(frozen=True, slots=True)
class BufferCleared:
    """Appended audio has been forgotten."""


@dataclass(frozen=True, slots=True)
class ItemAdded:
    """An item joined the conversation."""

    item: Item
    previous_item_id: str | None


@dataclass(frozen=True, slots=True)
class ItemDone:
    """An item will not change any more."""

    item: Item
    previous_item_id: str | None


@dataclass(frozen=True, slots=True)
class ItemRetrieved:
    """An item as asked for, with the audio that is kept of it."""

    item: Item
    audio: bytes


@dataclass(frozen=True, slots=True)
class ItemTruncated:
    """A spoken item now ends where it was cut."""

    item_id: str
    content_index: int
    audio_end_ms: int


@dataclass(frozen=True, slots=True)
class ItemDeleted:
    """An item has left the conversation."""

    item_id: str


@dataclass(frozen=True, slots=True)
class TranscriptionDelta:
    """More of what a user item says, which may still be being said."""

    item_id: str
    text: str
    logprobs: tuple[TokenLogprob, ...] | None = None
    """``None`` where the client did not ask for them."""


@dataclass(frozen=True, slots=True)
class TranscriptionDone:
    """What a user item says."""

    item_id: str
    transcript: str
    audio_ms: int
    logprobs: tuple[TokenLogprob, ...] | None = None
    """``None`` where the client did not ask for them."""


@dataclass(frozen=True, slots=True)
class TranscriptionFailed:
    """What a user item says could not be told."""

    item_id: str
    error: ErrorInfo


class ResponseStatus(Enum):
    """How far a response has come."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of one response."""

    input_tokens: int = 0
    """Read by the model, all of them text."""

    cached_tokens: int = 0
    """Of those, how many it had read before."""

    output_tokens: int = 0
    """Written by the model, all of them text."""

    input_audio_tokens: int = 0
    """Audio that became part of what the model read: one for every 100 ms."""

    output_audio_tokens: int = 0
    """Audio that was spoken: one for every 50 ms."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How much of something may still be asked for."""

    name: str
    """``requests`` or ``tokens``."""

    limit: int
    remaining: int
    reset_s: float
    """Until all of the limit is free again."""


@dataclass(frozen=True, slots=True)
class RateLimitsUpdated:
    """What is left of the session's limits."""

    limits: tuple[RateLimit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseView:
    """A response as its events show it."""

    id: str
    status: ResponseStatus
    modality: Modality
    voice: str
    output_format: AudioFormat
    reason: str | None = None
    """``turn_detected``, ``client_cancelled`` or ``max_output_tokens``."""

    error: ErrorInfo | None = None
    output: tuple[Item, ...] = ()
    out_of_band: bool = False
    """Whether it belongs to no conversation."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    metadata: tuple[tuple[str, str], ...] | None = None
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class ResponseCreated:
    """An answer is under way."""

    response: ResponseView


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """The one terminal event of a response."""

    response: ResponseView


@dataclass(frozen=True, slots=True)
class OutputItemAdded:
    """A response began an item."""

    response_id: str
    output_index: int
    item: Item


@dataclass(frozen=True, slots=True)
class OutputItemDone:
    """A response finished an item."""

    response_id: str
    output_index: int
    item: Item


@dataclass(frozen=True, slots=True)
class PartAt:
    """Where in a response something belongs."""

    response_id: str
    item_id: str
    output_index: int = 0
    content_index: int = 0


@dataclass(frozen=True, slots=True)
class ContentPartAdded:
    """An item began a content part."""

    at: PartAt
    modality: Modality


@dataclass(frozen=True, slots=True)
class ContentPartDone:
    """An item finished a content part."""

    at: PartAt
    modality: Modality
    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of a written answer."""

    at: PartAt
    text: str


@dataclass(frozen=True, slots=True)
class TextDone:
    """The whole written answer."""

    at: PartAt
    text: str


@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    """More of what a spoken answer says."""

    at: PartAt
    text: str


@dataclass(frozen=True, slots=True)
class TranscriptDone:
    """All of what a spoken answer says."""

    at: PartAt
    text: str


@dataclass(frozen=True, slots=True)
class AudioDelta:
    """More sound; never written once its response was aborted."""

    at: PartAt
    epoch: int
    pcm: bytes
    """s16le at 24 kHz."""


@dataclass(frozen=True, slots=True)
class AudioDone:
    """No more sound of this part."""

    at: PartAt


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More arguments of a function call."""

    at: PartAt
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class CallDone:
    """A function call is complete."""

    at: PartAt
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class WordSpoken:
    """Extension: a word and when it sounds, ahead of its audio."""

    at: PartAt
    word: str
    start_ms: int
    end_ms: int


ClientEffect: TypeAlias = (
    SessionCreated
    | SessionUpdated
    | ErrorRaised
    | SpeechStarted
    | SpeechStopped
    | IdleTimedOut
    | BufferCommitted
    | BufferCleared
    | ItemAdded
    | ItemDone
    | ItemRetrieved
    | ItemTruncated
    | ItemDeleted
    | TranscriptionDelta
    | TranscriptionDone
    | TranscriptionFailed
    | ResponseCreated
    | ResponseDone
    | OutputItemAdded
    | OutputItemDone
    | ContentPartAdded
    | ContentPartDone
    | TextDelta
    | TextDone
    | TranscriptDelta
    | TranscriptDone
    | AudioDelta
    | AudioDone
    | CallDelta
    | CallDone
    | RateLimitsUpdated
    | WordSpoken
    | TurnMeasured
    | ResponseMeasured
)
Effect: TypeAlias = ClientEffect | WorkEffect
