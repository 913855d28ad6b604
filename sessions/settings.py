"""What a client may set of its session, and how an update is merged in.

A patch has the same members as the settings; one left ``UNSET`` keeps its value. A
merge either gives new settings or raises :class:`~.errors.Refusal`: nothing is half done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, TypeAlias, TypeVar

from .errors import Refusal


class Unset(Enum):
    """Type of :data:`UNSET`, a member that an update does not mention."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET

T = TypeVar("T")
N = TypeVar("N", int, float)

Maybe: TypeAlias = T | Literal[Unset.UNSET]
"""A value, or nothing said about it."""


class AudioFormat(Enum):
    """Audio on the wire; the core itself only sees 24 kHz s16le."""

    PCM = "audio/pcm"
    """s16le, 24 kHz."""

    PCMU = "audio/pcmu"
    """µ-law, 8 kHz."""

    PCMA = "audio/pcma"
    """A-law, 8 kHz."""


class Modality(Enum):
    """What a response is made of."""

    AUDIO = "audio"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDetection:
    """``server_vad``: when a turn starts and ends, and what follows."""

    threshold: float = 0.5
    """Speech probability from which a frame counts as speech, 0 to 1."""

    prefix_padding_ms: int = 300
    """Audio before the first speech that belongs to the turn."""

    silence_duration_ms: int = 500
    """Silence that ends the turn."""

    create_response: bool = True
    interrupt_response: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDetectionPatch:
    """Changes to :class:`TurnDetection`."""

    threshold: Maybe[float] = UNSET
    prefix_padding_ms: Maybe[int] = UNSET
    silence_duration_ms: Maybe[int] = UNSET
    create_response: Maybe[bool] = UNSET
    interrupt_response: Maybe[bool] = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcription:
    """Whether and how the client is told what was heard; members as it set them."""

    model: str
    language: str | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionPatch:
    """Changes to :class:`Transcription`."""

    model: Maybe[str] = UNSET
    language: Maybe[str | None] = UNSET
    prompt: Maybe[str | None] = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The effective configuration of a session."""

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

    extensions: bool = False
    """Whether the client asked for our own events (word times, metrics)."""


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
    extensions: Maybe[bool] = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the pipeline behind a session can do, and the bounds of the deployment."""

    voices: tuple[str, ...] = ("default",)
    """Voices a client may name, the default first."""

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


MAX_OUTPUT_TOKENS = 4096
"""Upper bound that the protocol allows a client to name."""

MAX_SILENCE_MS = 10_000
MAX_PREFIX_MS = 5_000


def merge(now: Settings, patch: SettingsPatch, can: Capabilities) -> Settings:
    """Return ``now`` with ``patch`` applied.

    Raises:
        Refusal: a value is not allowed; its ``param`` names it.
    """
    at = "session.audio.output"
    tokens = _keep(patch.max_output_tokens, now.max_output_tokens)
    return Settings(
        instructions=check_text(
            _keep(patch.instructions, now.instructions), can, "session.instructions"
        ),
        modality=_keep(patch.modality, now.modality),
        input_format=_keep(patch.input_format, now.input_format),
        output_format=_keep(patch.output_format, now.output_format),
        voice=check_voice(_keep(patch.voice, now.voice), can, f"{at}.voice"),
        speed=_within(_keep(patch.speed, now.speed), 0.25, 1.5, f"{at}.speed"),
        turn_detection=_merge_turns(now.turn_detection, patch.turn_detection),
        transcription=_merge_transcription(now.transcription, patch.transcription),
        max_output_tokens=check_tokens(tokens, "session.max_output_tokens"),
        extensions=_keep(patch.extensions, now.extensions),
    )


def _keep(new: Maybe[T], old: T) -> T:
    return old if new is UNSET else new


def _merge_turns(
    old: TurnDetection | None, patch: Maybe[TurnDetectionPatch | None]
) -> TurnDetection | None:
    if patch is UNSET:
        return old
    if patch is None:
        return None
    base = old or TurnDetection()
    at = "session.audio.input.turn_detection"
    return TurnDetection(
        threshold=_within(_keep(patch.threshold, base.threshold), 0, 1, f"{at}.threshold"),
        prefix_padding_ms=_within(
            _keep(patch.prefix_padding_ms, base.prefix_padding_ms),
            0,
            MAX_PREFIX_MS,
            f"{at}.prefix_padding_ms",
        ),
        silence_duration_ms=_within(
            _keep(patch.silence_duration_ms, base.silence_duration_ms),
            20,
            MAX_SILENCE_MS,
            f"{at}.silence_duration_ms",
        ),
        create_response=_keep(patch.create_response, base.create_response),
        interrupt_response=_keep(patch.interrupt_response, base.interrupt_response),
    )


def _merge_transcription(
    old: Transcription | None, patch: Maybe[TranscriptionPatch | None]
) -> Transcription | None:
    if patch is UNSET:
        return old
    if patch is None:
        return None
    base = old or Transcription(model="whisper-1")
    return replace(
        base,
        model=_keep(patch.model, base.model),
        language=_keep(patch.language, base.language),
        prompt=_keep(patch.prompt, base.prompt),
    )


def _within(value: N, low: float, high: float, param: str) -> N:
    if not low <= value <= high:
        raise Refusal("invalid_value", f"{param} must be from {low} to {high}.", param)
    return value


def check_tokens(value: int | None, param: str) -> int | None:
    """Return a bound on output tokens that is allowed; ``None`` is "inf".

    Raises:
        Refusal: it is not; the error names ``param``.
    """
    if value is not None and not 1 <= value <= MAX_OUTPUT_TOKENS:
        raise Refusal(
            "invalid_value", f"{param} must be from 1 to {MAX_OUTPUT_TOKENS}, or 'inf'.", param
        )
    return value


def check_text(value: str, can: Capabilities, param: str) -> str:
    """Return instructions that are not too long.

    Raises:
        Refusal: they are; the error names ``param``.
    """
    if len(value) > can.max_text_chars:
        raise Refusal(
            "string_above_max_length",
            f"{param} may have at most {can.max_text_chars} characters.",
            param,
        )
    return value


def check_voice(value: str, can: Capabilities, param: str) -> str:
    """Return a voice that there is.

    Raises:
        Refusal: there is none of this name; the error names ``param``.
    """
    if value not in can.voices:
        allowed = ", ".join(can.voices)
        raise Refusal("invalid_value", f"{param} must be one of: {allowed}.", param)
    return value
