"""What the core of a speech stream is told, and what it wants done: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ..sessions.errors import ErrorInfo


@dataclass(frozen=True, slots=True)
class SpeechSettings:
    """How an utterance is spoken and sent; fixed when its first text comes."""

    voice: str
    response_format: str = "pcm"
    speed: float = 1.0
    word_timestamps: bool = False
    """Whether audio is sent as JSON, with the words that begin in it."""

    stream_audio: bool = True
    """Whether audio is sent as it is made; else all of an utterance at once."""

    loudness: float | None = None
    """LUFS; ``None`` for the voice as it is."""


@dataclass(frozen=True, slots=True)
class WordTime:
    """A word and when it sounds, ms from the utterance's first sample."""

    word: str
    start_ms: float
    end_ms: float


# From the client.


@dataclass(frozen=True, slots=True)
class Configure:
    """Speak like this from the next utterance on."""

    settings: SpeechSettings
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class AddText:
    """More of the utterance's text."""

    text: str
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Flush:
    """The utterance's text is complete."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop whatever is not yet finished."""


@dataclass(frozen=True, slots=True)
class Close:
    """Nothing more is coming; the connection ends behind what was flushed."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A message that could not be understood."""

    error: ErrorInfo


FromClient: TypeAlias = Configure | AddText | Flush | Cancel | Close | Reject

# From the work on an utterance, and from the writer.


@dataclass(frozen=True, slots=True)
class WordsKnown:
    """Words of audio that is still to come."""

    index: int
    words: tuple[WordTime, ...]


@dataclass(frozen=True, slots=True)
class AudioMade:
    """More audio in the utterance's format, which may be none yet, up to an instant."""

    index: int
    data: bytes
    until_ms: float
    """Length of the utterance so far, as a decoder of its format gives it back."""


@dataclass(frozen=True, slots=True)
class WorkEnded:
    """All audio was made, or why not."""

    index: int
    error: ErrorInfo | None = None
    truncated: bool = False
    """Whether the voice had to stop before it came to an end."""


@dataclass(frozen=True, slots=True)
class AudioWritten:
    """A frame of audio went out to the client."""

    index: int


FromWork: TypeAlias = WordsKnown | AudioMade | WorkEnded | AudioWritten
Event: TypeAlias = FromClient | FromWork


class Status(Enum):
    """How an utterance ended."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


# For the client.


@dataclass(frozen=True, slots=True)
class Ready:
    """The settings of the next utterance."""

    settings: SpeechSettings


@dataclass(frozen=True, slots=True)
class AudioStarted:
    """The utterance's audio follows."""

    index: int
    settings: SpeechSettings


@dataclass(frozen=True, slots=True)
class SendAudio:
    """A frame of audio; told as :class:`AudioWritten` once it is out."""

    index: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SendChunk:
    """A frame of audio with its words; told as :class:`AudioWritten` once it is out."""

    index: int
    number: int
    """Counts those of the utterance, from 0."""

    data: bytes
    start_ms: float
    end_ms: float
    words: tuple[WordTime, ...]


@dataclass(frozen=True, slots=True)
class AudioDone:
    """That was all audio of the utterance."""

    index: int
    total_bytes: int
    duration_ms: float
    failed: bool
    """Whether some is missing."""

    truncated: bool = False
    """Whether the voice had to stop before it came to an end."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Nothing more of the utterance follows; ``None`` where there was none to cancel."""

    index: int | None


@dataclass(frozen=True, slots=True)
class UtteranceDone:
    """The one end of every utterance."""

    index: int
    sentences: int
    """1, or 0 where no audio was sent."""

    status: Status


@dataclass(frozen=True, slots=True)
class Complained:
    """Something went wrong; the connection goes on."""

    error: ErrorInfo
    index: int | None = None
    """The utterance that it is about."""


ForClient: TypeAlias = (
    Ready
    | AudioStarted
    | SendAudio
    | SendChunk
    | AudioDone
    | Cancelled
    | UtteranceDone
    | Complained
)

# For the work on an utterance, and for the connection.


@dataclass(frozen=True, slots=True)
class StartSpeaking:
    """Open a stream of the pipeline."""

    index: int
    settings: SpeechSettings


@dataclass(frozen=True, slots=True)
class HandText:
    """Hand it text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class EndText:
    """Tell it that there is no more text."""

    index: int


@dataclass(frozen=True, slots=True)
class StopSpeaking:
    """Stop it, and drop what is queued of its audio, ahead of anything that follows."""

    index: int


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Write what is queued, then close."""

    code: int
    reason: str


ForShell: TypeAlias = StartSpeaking | HandText | EndText | StopSpeaking | CloseConnection
Effect: TypeAlias = ForClient | ForShell
