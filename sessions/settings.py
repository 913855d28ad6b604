"""What a client may set of its session.

A patch has the same members as the settings; one left ``UNSET`` keeps its value. How a
patch is merged in is in :mod:`.merging`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias, TypeVar

from .tools import Tool, ToolChoice


class Unset(Enum):
    """Type of :data:`UNSET`, a member that an update does not mention."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET

T = TypeVar("T")

Maybe: TypeAlias = T | Literal[Unset.UNSET]
"""A value, or nothing said about it."""


class SessionKind(Enum):
    """What a session is for; never changes."""

    REALTIME = "realtime"
    """A conversation."""

    TRANSCRIPTION = "transcription"
    """The client's speech becomes text, and nothing is answered."""


class AudioFormat(Enum):
    """Audio on the wire; the core itself only sees 24 kHz s16le."""

    PCM = "audio/pcm"
    """s16le, 24 kHz."""

    PCMU = "audio/pcmu"
    """µ-law, 8 kHz."""

    PCMA = "audio/pcma"
    """A-law, 8 kHz."""


class BinaryFormat(Enum):
    """Audio in binary frames, always at 24 kHz."""

    PCM16 = "pcm16"
    OPUS = "opus"


class Modality(Enum):
    """What a response is made of."""

    AUDIO = "audio"
    TEXT = "text"


class TurnKind(Enum):
    """What decides that a turn is over."""

    SERVER_VAD = "server_vad"
    """Silence alone."""

    SEMANTIC_VAD = "semantic_vad"
    """Silence, and whether what was said sounds finished."""


class Eagerness(Enum):
    """How soon ``semantic_vad`` takes a turn for finished."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    AUTO = "auto"
    """As :attr:`MEDIUM`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDetection:
    """When a turn starts and ends, and what follows."""

    kind: TurnKind = TurnKind.SERVER_VAD
    threshold: float = 0.5
    """Speech probability from which a frame counts as speech, 0 to 1."""

    prefix_padding_ms: int = 300
    """Audio before the first speech that belongs to the turn."""

    silence_duration_ms: int = 500
    """Silence that ends the turn; not of ``semantic_vad``."""

    create_response: bool = True
    interrupt_response: bool = True
    idle_timeout_ms: int | None = None
    """Silence after an answer was heard that makes the session speak up; ``server_vad``
    only."""

    eagerness: Eagerness = Eagerness.AUTO
    """Of ``semantic_vad``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDetectionPatch:
    """Changes to :class:`TurnDetection`; another kind starts from that kind's defaults."""

    kind: Maybe[TurnKind] = UNSET
    threshold: Maybe[float] = UNSET
    prefix_padding_ms: Maybe[int] = UNSET
    silence_duration_ms: Maybe[int] = UNSET
    create_response: Maybe[bool] = UNSET
    interrupt_response: Maybe[bool] = UNSET
    idle_timeout_ms: Maybe[int | None] = UNSET
    eagerness: Maybe[Eagerness] = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcription:
    """Whether and how the client is told what was heard; members as it set them."""

    model: str
    language: str | None = None
    """ISO 639-1."""

    prompt: str | None = None
    """Words to expect."""

    keywords: tuple[str, ...] | None = None
    """More words to expect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionPatch:
    """Changes to :class:`Transcription`."""

    model: Maybe[str] = UNSET
    language: Maybe[str | None] = UNSET
    prompt: Maybe[str | None] = UNSET
    keywords: Maybe[tuple[str, ...] | None] = UNSET


class NoiseReduction(Enum):
    """Where the microphone is, for the filter that takes noise away."""

    NEAR_FIELD = "near_field"
    """At the mouth: a headset."""

    FAR_FIELD = "far_field"
    """In the room: a laptop, a conference."""


class TruncationMode(Enum):
    """What happens when a conversation outgrows the model's context."""

    AUTO = "auto"
    """The oldest messages are left out."""

    DISABLED = "disabled"
    """The response fails."""

    RETENTION_RATIO = "retention_ratio"
    """As many of the oldest are left out at once that a share of the room stays filled,
    so that the prompts of several responses begin alike and caches can be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """How a conversation is made to fit."""

    mode: TruncationMode = TruncationMode.AUTO
    retention_ratio: float = 1.0
    """Share of the room that stays filled, 0 to 1; of ``retention_ratio``."""

    post_instructions: int | None = None
    """Tokens that messages may have beside the instructions; ``None`` for what fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The effective configuration of a session."""

    kind: SessionKind = SessionKind.REALTIME
    instructions: str = ""
    modality: Modality = Modality.AUDIO
    input_format: AudioFormat = AudioFormat.PCM
    output_format: AudioFormat = AudioFormat.PCM
    voice: str = "default"
    speed: float = 1.0
    turn_detection: TurnDetection | None = TurnDetection()
    """``None`` is push-to-talk."""

    transcription: Transcription | None = None
    max_output_tokens: int | None = None
    """``None`` is "inf"."""

    temperature: float | None = None
    """Of sampling; ``None`` for the deployment's."""

    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    truncation: Truncation = Truncation()
    noise_reduction: NoiseReduction | None = None
    logprobs: bool = False
    """Whether transcripts come with the log probabilities of their tokens."""

    extensions: bool = False
    """Whether the client asked for our own events (word times, metrics)."""

    binary_audio: bool = False
    """Whether audio goes in binary frames; only where there are :attr:`extensions`."""

    binary_format: BinaryFormat = BinaryFormat.PCM16
    """Of what is sent in them. A client's own frames say what they hold."""

    @property
    def binary(self) -> BinaryFormat | None:
        """What audio is sent as in binary frames; ``None`` where it is sent as JSON."""
        return self.binary_format if self.extensions and self.binary_audio else None

    @property
    def answers_turns(self) -> bool:
        """Whether a turn that has ended is answered without being asked."""
        turns = self.turn_detection
        return self.kind is SessionKind.REALTIME and turns is not None and turns.create_response

    @property
    def looks_ahead(self) -> bool:
        """Whether what was said is of use before the turn is known to be over."""
        turns = self.turn_detection
        if turns is None:
            return False
        by_words = turns.kind is TurnKind.SEMANTIC_VAD
        return by_words or turns.create_response or self.kind is SessionKind.TRANSCRIPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPatch:
    """Changes to :class:`Settings`."""

    instructions: Maybe[str] = UNSET
    modality: Maybe[Modality] = UNSET
    input_format: Maybe[AudioFormat] = UNSET
    output_format: Maybe[AudioFormat] = UNSET
    voice: Maybe[str] = UNSET
    speed: Maybe[float] = UNSET
    turn_detection: Maybe[TurnDetectionPatch | None] = UNSET
    transcription: Maybe[TranscriptionPatch | None] = UNSET
    max_output_tokens: Maybe[int | None] = UNSET
    temperature: Maybe[float] = UNSET
    tools: Maybe[tuple[Tool, ...]] = UNSET
    tool_choice: Maybe[ToolChoice] = UNSET
    truncation: Maybe[Truncation] = UNSET
    noise_reduction: Maybe[NoiseReduction | None] = UNSET
    logprobs: Maybe[bool] = UNSET
    extensions: Maybe[bool] = UNSET
    binary_audio: Maybe[bool] = UNSET
    binary_format: Maybe[BinaryFormat] = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the pipeline behind a session can do, and the bounds of the deployment."""

    voices: tuple[str, ...] = ("default",)
    """Voices a client may name, the default first."""

    sees: bool = False
    """Whether the model can be shown images."""

    max_text_chars: int = 200_000
    max_items: int = 2000
    max_input_ms: int = 600_000
    """Uncommitted audio."""

    max_retained_ms: int = 600_000
    """Committed and spoken audio kept for retrieval."""

    max_session_s: float = 3600.0
    speculate_ms: int = 200
    """Silence after which an answer is prepared in case the turn is over; 0 never."""

    stage_timeout_s: float = 60.0
    """A stage that says nothing for so long has failed."""

    max_paused_s: float = 300.0
    """A response is held back so long for a listener who plays nothing."""

    responses_per_minute: int = 600
    tokens_per_minute: int = 1_000_000
    """Tokens of responses, read and written."""
