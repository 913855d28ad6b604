"""Everything a session is told: by the client, by the stages, by the shell.

Frozen and flat, each with scalar members or plain dataclasses, so that a recording of
them can be written down and read back without loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from .errors import ErrorInfo
from .items import NewItem
from .settings import AudioFormat, Modality, SettingsPatch
from .tools import Tool, ToolChoice

# From the client.


@dataclass(frozen=True, slots=True)
class UpdateSession:
    """Change settings."""

    patch: SettingsPatch
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class AppendAudio:
    """Audio heard, s16le at 24 kHz, any length."""

    pcm: bytes
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommitAudio:
    """Make a user item of what was appended."""

    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClearAudio:
    """Forget what was appended and not committed."""

    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class CreateItem:
    """Add an item."""

    item: NewItem
    previous_item_id: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class RetrieveItem:
    """Ask for an item with its audio."""

    item_id: str
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class TruncateItem:
    """Say how much of a spoken item was heard."""

    item_id: str
    content_index: int
    audio_end_ms: int
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteItem:
    """Remove an item."""

    item_id: str
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class ItemReference:
    """An item of the conversation, by its id, as part of a response's own input."""

    item_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseOptions:
    """What differs from the session's settings in one response; ``None`` is as there."""

    instructions: str | None = None
    modality: Modality | None = None
    voice: str | None = None
    output_format: AudioFormat | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    metadata: tuple[tuple[str, str], ...] | None = None
    tools: tuple[Tool, ...] | None = None
    tool_choice: ToolChoice | None = None
    out_of_band: bool = False
    """``conversation: none``: neither its items nor its input join the conversation."""

    input: tuple[NewItem | ItemReference, ...] | None = None
    """What is answered instead of the conversation; empty answers the instructions alone."""


@dataclass(frozen=True, slots=True)
class CreateResponse:
    """Ask for an answer to the conversation so far."""

    options: ResponseOptions = ResponseOptions()
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class CancelResponse:
    """Stop the running answer."""

    response_id: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReportPlayback:
    """How far the client has played a response."""

    response_id: str
    played_ms: int
    buffered_ms: int
    underruns: int = 0
    """How often it had nothing to play although more was to come, so far in this response."""

    gap_ms: int = 0
    """How long that was in all."""

    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class RejectMessage:
    """A message that could not be understood at all."""

    error: ErrorInfo


# From the stages. Those of a response carry its epoch; what is stale is dropped.


@dataclass(frozen=True, slots=True)
class SpeechScored:
    """Speech probabilities of the next frames of listening ``listen_id``."""

    listen_id: int
    probabilities: tuple[float, ...]
    frame_ms: int


@dataclass(frozen=True, slots=True)
class ListeningFailed:
    """Voice activity can't be told any more."""

    listen_id: int
    message: str


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of a transcript and how probable the recognizer found it."""

    token: str
    logprob: float
    """Natural logarithm of the probability, at most 0."""


@dataclass(frozen=True, slots=True)
class RecognitionEnded:
    """What was said, or why that is not known."""

    recognition_id: int
    text: str | None
    error_code: str | None = None
    error_message: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    """Of the text's tokens, where they were asked for and the recognizer knows them."""


@dataclass(frozen=True, slots=True)
class ReplyText:
    """More text of a response."""

    response_id: str
    epoch: int
    text: str


@dataclass(frozen=True, slots=True)
class WordTime:
    """A word and when it sounds, ms from the first sample of the response."""

    text: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class ReplyWords:
    """Word times of audio about to come."""

    response_id: str
    epoch: int
    words: tuple[WordTime, ...]


@dataclass(frozen=True, slots=True)
class ReplyAudio:
    """More audio of a response, s16le at 24 kHz."""

    response_id: str
    epoch: int
    pcm: bytes


@dataclass(frozen=True, slots=True)
class ReplyCall:
    """More of a function call of a response; the calls of one come one after another."""

    response_id: str
    epoch: int
    index: int
    """Counts the calls of the response, from 0."""

    name: str
    arguments: str
    """JSON text; the pieces of a call concatenate to the whole."""

    done: bool
    """Whether this is the call's last piece."""


@dataclass(frozen=True, slots=True)
class ReplyFitted:
    """How the context was made to fit, ahead of everything else of a response.

    Told only where something was left out.
    """

    response_id: str
    epoch: int
    dropped: int
    """How many of the oldest messages, system messages not counted, the model was not shown."""


@dataclass(frozen=True, slots=True)
class ReplyTimed:
    """When a response passed the stages, on the same clock as ``now``."""

    response_id: str
    epoch: int
    first_token_at: float | None
    first_clause_at: float | None
    talker_at: float | None
    code2wav_at: float | None
    admitted_at: float | None = None
    """When there was time to speak it, where it was told."""


class ReplyOutcome(Enum):
    """How generation ended."""

    COMPLETED = "completed"
    LENGTH = "length"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """Nothing more comes of a response."""

    response_id: str
    epoch: int
    outcome: ReplyOutcome
    error_code: str | None = None
    error_message: str | None = None
    retry_after_ms: int | None = None
    """Set where asking again helps."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


# From the shell.


@dataclass(frozen=True, slots=True)
class Attached:
    """A client is there; the first event of every session."""

    epoch_s: int
    """Wall clock, seconds since 1970: only to tell the client when the session ends."""


@dataclass(frozen=True, slots=True)
class AudioWritten:
    """Audio of a response went onto the wire."""

    response_id: str
    ms: float


@dataclass(frozen=True, slots=True)
class Detached:
    """The client is gone; the last event of every session."""


ClientEvent: TypeAlias = (
    UpdateSession
    | AppendAudio
    | CommitAudio
    | ClearAudio
    | CreateItem
    | RetrieveItem
    | TruncateItem
    | DeleteItem
    | CreateResponse
    | CancelResponse
    | ReportPlayback
    | RejectMessage
)
ReplyEvent: TypeAlias = (
    ReplyText | ReplyWords | ReplyAudio | ReplyCall | ReplyFitted | ReplyTimed | ReplyEnded
)
StageEvent: TypeAlias = SpeechScored | ListeningFailed | RecognitionEnded | ReplyEvent
Event: TypeAlias = ClientEvent | StageEvent | Attached | AudioWritten | Detached
