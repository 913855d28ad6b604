"""The contract of a pipeline: stages joined into what a session needs.

A session needs three things: to learn when someone speaks (:meth:`Pipeline.listen`),
what was said (:meth:`Pipeline.recognize`), and an answer (:meth:`Pipeline.reply`).
How a pipeline makes them of stages is its own file under ``pipelines/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from .chunks import (
    CallDelta,
    Fitted,
    PcmChunk,
    Segment,
    SpeechFrames,
    SpokenWords,
    TextDelta,
    Timings,
    Transcript,
    TranscriptDelta,
    Word,
)
from .stage import StageStream
from .tools import Call, Tool, ToolChoice, Truncation

ReplyChunk: TypeAlias = TextDelta | CallDelta | Fitted | SpokenWords | Timings | PcmChunk
Hearing: TypeAlias = StageStream[PcmChunk, SpeechFrames]
Recognition: TypeAlias = StageStream[PcmChunk, TranscriptDelta | Transcript]


class Reply(StageStream[None, ReplyChunk], Protocol):
    """An answer under way."""

    def played(self, played_ms: float, until_ms: float) -> None:
        """Say how much of its audio was heard, and up to where playback goes on by itself.

        Both ms from its first sample. A reply that nobody tells of its playback reckons
        that its audio is heard as it is made.
        """
        ...


class Speech(StageStream[str, SpokenWords | PcmChunk], Protocol):
    """Text in, in pieces as it is written; speech of it out."""

    def played(self, played_ms: float, until_ms: float) -> None:
        """As :meth:`Reply.played`, where it is paced."""
        ...


VoiceSource: TypeAlias = Literal["files", "recording"]
"""What a voice is made of: the files of a model, or a recording of somebody."""

Transcription: TypeAlias = StageStream[PcmChunk, Segment]
"""A recording in, of any one rate; its segments out, each as soon as it is read."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation as the model is shown it."""

    role: str
    """``system``, ``user``, ``assistant`` or ``tool``."""

    text: str
    images: tuple[str, ...] = ()
    """``data:`` URLs of PNG or JPEG, where the model sees; of a user."""

    calls: tuple[Call, ...] = ()
    """Functions that the assistant called with this message."""

    call_id: str | None = None
    """Of a tool: the call whose output this message is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenRequest:
    """Ask for speech probabilities of everything that is sent."""

    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognizeRequest:
    """Ask what was said in the audio that follows."""

    request_id: str
    language: str | None = None
    """ISO 639-1, or ``None`` to let the recognizer decide."""

    prompt: str = ""
    """Words to expect."""

    logprobs: bool = False
    """Whether the log probabilities of the tokens are wanted."""

    partial: bool = False
    """Whether this is a look at speech that goes on: finished speech is read first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRequest:
    """Ask for an answer, written or spoken."""

    request_id: str
    messages: tuple[Message, ...]
    speak: bool = True
    """Whether audio is wanted beside the text."""

    voice: str | None = None
    """A name out of :attr:`Pipeline.voices`; ``None`` for the default."""

    speed: float = 1.0
    """Rate of speech, 1 is the voice's own."""

    max_tokens: int | None = None
    """Bound on generated tokens; ``None`` for the deployment's."""

    temperature: float | None = None
    """Of sampling; ``None`` for the deployment's."""

    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    truncation: Truncation = Truncation()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakRequest:
    """Ask for a text to be spoken."""

    request_id: str
    voice: str | None = None
    """A name out of :attr:`Pipeline.voices`; ``None`` for the default."""

    speed: float = 1.0
    """Rate of speech, 1 is the voice's own."""

    paced: bool = False
    """Whether somebody hears it as it comes, so that it need not be far ahead of the ear.
    Otherwise it is made as fast as it is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscribeRequest:
    """Ask for what is said in a recording of any length."""

    request_id: str
    language: str | None = None
    """ISO 639-1, or ``None`` to let the recognizer decide."""

    prompt: str = ""
    """Words to expect."""

    translate: bool = False
    """Whether the text shall be English, whatever is spoken."""

    words: bool = False
    """Whether the times of words are wanted."""

    logprobs: bool = False
    temperature: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceCard:
    """A voice that can be asked for."""

    name: str
    """As :attr:`SpeakRequest.voice` names it."""

    language: str
    """ISO 639-1, of the text that it reads."""

    summary: str = ""
    """For people: in a few words, who speaks."""

    model: str = ""
    """What it is loaded from; voices of one model share it."""

    created_at: int | None = None
    """Unix time of when it was added; ``None`` for what the deployment has."""

    source: VoiceSource = "files"
    consent_at: int | None = None
    """Unix time of when the consent of who speaks was given here, of a recording."""

    @property
    def own(self) -> bool:
        """Whether it was added, and can be removed."""
        return self.created_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceFiles:
    """A voice to be added: what Piper exports."""

    name: str
    graph: Path
    """``.onnx``; left as it is."""

    description: Path
    """``.onnx.json``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceRecording:
    """A voice to be added: what somebody says in a recording."""

    name: str
    audio: Path
    """An audio file of any kind that is read; left as it is."""

    text: str
    """What is said in it, every word."""

    consent: str
    """With what who speaks agreed to it; kept beside the voice."""

    words: tuple[Word, ...] = ()
    """Those of :attr:`text` with times, where a recognizer told them."""

    language: str | None = None
    """ISO 639-1; ``None`` for the first that the talker speaks."""


NewVoice: TypeAlias = VoiceFiles | VoiceRecording


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the first request would be served at full speed, stage by stage."""

    stages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Stage name to ``ready``, ``starting``, ``restarting``, ``failed`` or ``closed``."""

    @property
    def ready(self) -> bool:
        """Whether every stage is ready."""
        return bool(self.stages) and all(state == "ready" for state in self.stages.values())


class Pipeline(Protocol):
    """What a deployment serves."""

    @property
    def model(self) -> str:
        """Name under which the whole is listed at ``/v1/models``."""
        ...

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voices, the default one first."""
        ...

    @property
    def voice_cards(self) -> tuple[VoiceCard, ...]:
        """What is known of each of :attr:`voices`, in the same order."""
        ...

    @property
    def voice_source(self) -> VoiceSource:
        """What a new voice is made of here, if any can be added."""
        ...

    async def add_voice(self, new: NewVoice) -> tuple[VoiceCard, ...]:
        """Add the voices of a model, or that of a recording, to stay; they can be asked for on
        return.

        Raises:
            StageFailure: the name is taken (``voice_exists``), it is no voice that can be
                spoken with (``voice_unusable``; of a recording ``recording_unusable``,
                ``text_unusable`` or ``unsupported_language``), or there are as many as may be
                (``voices_full``), or none can be kept here (``voices_fixed``), or none of its
                :data:`VoiceSource` (``recordings_unsupported``, ``files_unsupported``).
        """
        ...

    async def remove_voice(self, name: str) -> None:
        """Remove a model that was added, with its voices; what speaks with one is not stopped.

        ``name``: of any of its voices.

        Raises:
            StageFailure: there is none (``voice_unknown``), or it is the deployment's
                (``voice_fixed``).
        """
        ...

    @property
    def sees(self) -> bool:
        """Whether messages may have images."""
        ...

    @property
    def readiness(self) -> Readiness:
        """State of each stage now."""
        ...

    async def start(self) -> None:
        """Start every stage; on return the pipeline is ready."""
        ...

    async def close(self) -> None:
        """Close every stage. Idempotent."""
        ...

    def expect(self) -> None:
        """Expect a turn to end within a second; returns at once.

        A hint only: a pipeline may use the time to make itself quick.
        """
        ...

    def listen(self, request: ListenRequest) -> Hearing:
        """Judge audio frame by frame; the audio may have any rate, the same throughout."""
        ...

    def recognize(self, request: RecognizeRequest) -> Recognition:
        """Transcribe the audio sent, once :meth:`~.stage.StageStream.end` was called."""
        ...

    def reply(self, request: ReplyRequest) -> Reply:
        """Generate an answer; spoken audio is :data:`OUTPUT_RATE` s16le mono."""
        ...

    def speak(self, request: SpeakRequest) -> Speech:
        """Speak text as it comes; spoken audio is :data:`OUTPUT_RATE` s16le mono.

        Raises:
            StageFailure: there is no such voice (``voice_unknown``).
        """
        ...

    def transcribe(self, request: TranscribeRequest) -> Transcription:
        """Transcribe a recording, behind everything that is live.

        Raises:
            StageFailure: the recognizer does not know the language, or can't translate.
        """
        ...

    def statistics(self) -> Mapping[str, Mapping[str, float]]:
        """Counters and gauges of each stage, for metrics and tests."""
        ...


OUTPUT_RATE = 24_000
"""Samples per second of all spoken audio, whatever the voice's own rate."""
