"""The stages of a cascade: which contract each has, and which class a deployment names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ..chunks import (
    CallDelta,
    Clause,
    Fitted,
    Latents,
    PcmChunk,
    Segment,
    SpeechFrames,
    SpokenWords,
    TextDelta,
    Transcript,
    TranscriptDelta,
)
from ..deployment import (
    NoArConfig,
    NoRecognizerConfig,
    ScriptedArConfig,
    ScriptedRecognizerConfig,
    ScriptedTalkerConfig,
    Stages,
)
from ..pipeline import (
    ListenRequest,
    NewVoice,
    RecognizeRequest,
    TranscribeRequest,
    VoiceCard,
    VoiceSource,
)
from ..speech.code2wav import Code2wavStage, DecodeRequest
from ..speech.recognizer import WhisperStage
from ..speech.scripted_recognizer import ScriptedRecognizerStage
from ..speech.scripted_talker import ScriptedCode2wavStage, ScriptedTalkerStage
from ..speech.talker import TalkerStage, TalkRequest
from ..speech.tokens.settings import CodecTalkerConfig
from ..speech.vad import VadStage
from ..speech.voices.shelf import Shelf
from ..stage import Stage, StageStream
from ..text.request import GenerateRequest
from ..text.scripted_ar import ScriptedArStage
from ..text.vllm_ar import VllmStage
from .absent import Absent, AbsentAr, AbsentRecognizer

Vad: TypeAlias = Stage[ListenRequest, PcmChunk, SpeechFrames]
Ar: TypeAlias = Stage[GenerateRequest, None, TextDelta | CallDelta | Fitted]
Code2wav: TypeAlias = Stage[DecodeRequest, Latents, SpokenWords | PcmChunk]


class Recognizer(Protocol):
    """A stage of utterances to text that can also read recordings of any length."""

    async def start(self) -> None:
        """As :meth:`~..stage.Stage.start`."""
        ...

    def open(
        self, request: RecognizeRequest
    ) -> StageStream[PcmChunk, TranscriptDelta | Transcript]:
        """As :meth:`~..stage.Stage.open`."""
        ...

    def transcribe(self, request: TranscribeRequest) -> StageStream[PcmChunk, Segment]:
        """As :meth:`~..pipeline.Pipeline.transcribe`."""
        ...

    async def close(self) -> None:
        """As :meth:`~..stage.Stage.close`."""
        ...


class Talker(Protocol):
    """A stage of clauses to latents that can tell its voices."""

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voices, the default one first."""
        ...

    def language(self, voice: str | None) -> str:
        """ISO 639-1, of the text that a voice reads; ``None`` for the default one.

        Raises:
            StageFailure: there is no such voice.
        """
        ...

    async def start(self) -> None:
        """As :meth:`~..stage.Stage.start`."""
        ...

    def open(self, request: TalkRequest) -> StageStream[Clause, Latents]:
        """As :meth:`~..stage.Stage.open`."""
        ...

    async def close(self) -> None:
        """As :meth:`~..stage.Stage.close`."""
        ...


@runtime_checkable
class HasState(Protocol):
    """A stage whose state changes by itself, such as one that restarts an engine."""

    @property
    def state(self) -> str:
        """``ready``, ``starting``, ``restarting``, ``failed`` or ``closed``."""
        ...


@runtime_checkable
class CanSee(Protocol):
    """A language model that says whether it can be shown images."""

    @property
    def sees(self) -> bool:
        """Whether the images of a message reach the model."""
        ...


@runtime_checkable
class KeepsVoices(Protocol):
    """A talker with voices that come and go."""

    @property
    def voice_cards(self) -> tuple[VoiceCard, ...]:
        """As :attr:`~..pipeline.Pipeline.voice_cards`."""
        ...

    async def add_voice(self, new: NewVoice, /) -> tuple[VoiceCard, ...]:
        """As :meth:`~..pipeline.Pipeline.add_voice`, of its own source alone."""
        ...

    async def remove_voice(self, name: str) -> None:
        """As :meth:`~..pipeline.Pipeline.remove_voice`."""
        ...


@runtime_checkable
class MakesVoices(Protocol):
    """A talker that says what its new voices are made of; others take the files of a model."""

    @property
    def voice_source(self) -> VoiceSource:
        """As :attr:`~..pipeline.Pipeline.voice_source`."""
        ...


@runtime_checkable
class CanWarm(Protocol):
    """A stage whose model is slow after a rest, and can be woken from it."""

    async def warm(self) -> None:
        """Do a little work so that the next request meets a model in fast memory.

        Does nothing where the stage is at work or was a moment ago.
        """
        ...


@runtime_checkable
class HasStatistics(Protocol):
    """A stage that counts."""

    def statistics(self) -> Mapping[str, float]:
        """Counters and gauges by name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeStages:
    """The five stages, none of them started yet."""

    vad: Vad
    recognizer: Recognizer
    ar: Ar
    talker: Talker
    code2wav: Code2wav

    def named(self) -> Iterator[tuple[str, Stage[Any, Any, Any]]]:
        """Each stage that there is, with its name, in the order in which a turn passes them."""
        for each in fields(self):
            if not isinstance(stage := getattr(self, each.name), Absent):
                yield each.name, stage


def build_stages(config: Stages, cache_root: Path, voices: Path | None = None) -> CascadeStages:
    """The stages that a deployment names; nothing is loaded yet.

    ``voices``: the folder of added voices, if any can be added.
    """
    talker, code2wav = _voicing(config, cache_root, voices)
    return CascadeStages(
        vad=VadStage(config.vad),
        recognizer=_recognizer(config, cache_root),
        ar=_ar(config, cache_root),
        talker=talker,
        code2wav=code2wav,
    )


def _recognizer(config: Stages, cache_root: Path) -> Recognizer:
    if isinstance(config.recognizer, NoRecognizerConfig):
        return AbsentRecognizer()
    if isinstance(config.recognizer, ScriptedRecognizerConfig):
        return ScriptedRecognizerStage(config.recognizer)
    return WhisperStage(config.recognizer, cache_root)


def _ar(config: Stages, cache_root: Path) -> Ar:
    if isinstance(config.ar, NoArConfig):
        return AbsentAr()
    if isinstance(config.ar, ScriptedArConfig):
        return ScriptedArStage(config.ar)
    return VllmStage(config.ar, cache_root)


def _voicing(config: Stages, cache_root: Path, voices: Path | None) -> tuple[Talker, Code2wav]:
    talker, code2wav = config.talker, config.code2wav
    if isinstance(talker, ScriptedTalkerConfig):
        return ScriptedTalkerStage(talker), ScriptedCode2wavStage(talker, code2wav)
    if isinstance(talker, CodecTalkerConfig):
        # Here, not at the top: most deployments have no use for it.
        from ..speech.tokens.loading import codec_lm_stages

        return codec_lm_stages(talker, code2wav, cache_root, voices)
    shelf = Shelf(talker.model, talker.voices, cache_root, voices)
    return (
        TalkerStage(talker, cache_root, shelf=shelf),
        Code2wavStage(code2wav, talker.model, cache_root, shelf=shelf, keep=talker.loaded),
    )
