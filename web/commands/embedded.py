"""Speech and text made in this process, without a server: only the stages that it takes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from ...codecs.loudness import Leveller
from ...codecs.media import RATE, AudioSource, open_audio
from ...codecs.pcm import SAMPLE_BYTES
from ...engines.catalog import card, cards, is_present
from ...engines.chunks import End, EndReason, PcmChunk, Segment, SpokenWords, StageError
from ...engines.deployment import (
    Deployment,
    ScriptedArConfig,
    ScriptedRecognizerConfig,
    ScriptedTalkerConfig,
    Stages,
    VadConfig,
    WhisperConfig,
)
from ...engines.fetch import fetch
from ...engines.pipeline import (
    Pipeline,
    SpeakRequest,
    Speech,
    TranscribeRequest,
    Transcription,
    VoiceCard,
)
from ...engines.pipelines.cascade import CascadePipeline
from ...engines.stage import StageFailure
from ...realtime.voice_levels import VoiceLevels
from ..transcripts import Transcribed
from .errors import CommandError
from .status import Status

TEXT_PIECE = 2000
"""Characters that are handed to the voice at once."""

THREADS = 4
"""Most threads that read a recording; each takes memory of its own."""


def speaking_alone(deployment: Deployment) -> Deployment:
    """The deployment with its voice, and nothing else that is a model."""
    stages = replace(
        deployment.stages,
        vad=VadConfig(),
        recognizer=ScriptedRecognizerConfig(),
        ar=ScriptedArConfig(),
    )
    return replace(deployment, stages=stages)


def hearing_alone(model: str) -> Deployment:
    """A deployment of a recognizer, and nothing else that is a model.

    Raises:
        UnknownModel: the catalogue has no such model.
        CommandError: it is no recognizer.
    """
    if card(model).kind != "recognizer":
        known = ", ".join(each.name for each in cards() if each.kind == "recognizer")
        raise CommandError(f"--model: expected one of {known}, got {model!r}", misused=True)
    threads = min(THREADS, os.cpu_count() or 1)
    stages = Stages(
        recognizer=WhisperConfig(model=model, recordings=threads),
        ar=ScriptedArConfig(),
        talker=ScriptedTalkerConfig(),
    )
    return Deployment(stages=stages)


def fetch_models(names: Iterable[str], cache_root: Path, status: Status) -> None:
    """Fetch the models that are not here yet.

    Raises:
        UnknownModel: the catalogue lacks one.
        FetchError: one can't be fetched.
    """
    for name in names:
        if not is_present(card(name), cache_root):
            fetch(card(name), cache_root, _Lines(status))


class _Lines:
    """The steps of a fetch: minutes, so they stay on the screen."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def step(self, text: str) -> None:
        self._status.line(text)


@asynccontextmanager
async def running(
    deployment: Deployment, cache_root: Path, status: Status, *, voices: Path | None = None
) -> AsyncGenerator[Pipeline]:
    """Run a deployment in this process; ``voices``: the folder of added voices.

    Raises:
        CommandError: a model or a package is missing; the message says what to run.
    """
    pipeline = CascadePipeline(deployment, cache_root, status.step, voices=voices)
    try:
        await pipeline.start()
        status.clear()
        yield pipeline
    except StageFailure as failure:
        raise CommandError(failure.error.message) from None
    finally:
        status.clear()
        await pipeline.close()


class EmbeddedVoice:
    """Speaks with a pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    async def voices(self) -> list[VoiceCard]:
        """What can be asked for, the default one first."""
        return list(self._pipeline.voice_cards)

    async def speak(
        self, text: str, voice: str | None, speed: float, loudness: float | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield speech as it is made: s16le mono, 24 kHz. ``loudness``: LUFS.

        Raises:
            CommandError: there is no such voice.
            StageFailure: a stage failed.
        """
        if voice is not None and voice not in self._pipeline.voices:
            known = ", ".join(self._pipeline.voices) or "none"
            raise CommandError(f"--voice: expected one of {known}, got {voice!r}", misused=True)
        asked = SpeakRequest(request_id="say", voice=voice, speed=speed)
        leveller: Leveller | None = None
        if loudness is not None:
            leveller = Leveller(loudness, await VoiceLevels(self._pipeline).of(voice))
        stream = self._pipeline.speak(asked)
        feeding = asyncio.ensure_future(_feed(stream, text))
        try:
            async for item in stream:
                match item:
                    case PcmChunk():
                        yield leveller.feed(item.pcm) if leveller else item.pcm
                    case End():
                        _require_completed(item)
                        if leveller:
                            yield leveller.flush()
                    case SpokenWords():
                        pass
            await feeding
        finally:
            stream.cancel()
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


class EmbeddedEar:
    """Reads recordings with a pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    async def segments(
        self,
        path: Path,
        request: TranscribeRequest,
        done: Transcribed,
        on_read: Callable[[float, float | None], None],
    ) -> AsyncGenerator[Segment]:
        """Yield what is said in a file while it is decoded; ``done`` is told how long it is.

        ``on_read`` is told where in the recording reading is, and how long that seems to be.

        Raises:
            CommandError: the file can't be read, or is not what the recognizer can do.
            MediaError, MediaMissing: there is no audio in it, or none can be decoded.
            StageFailure: the recognizer failed.
        """
        recording = Recording(path)
        await asyncio.to_thread(recording.open)
        try:
            stream = self._pipeline.transcribe(request)
            feeding = asyncio.ensure_future(_decode(recording, stream, done))
            try:
                async for item in stream:
                    if isinstance(item, Segment):
                        yield item
                        on_read(item.end_ms / 1000, recording.duration_s)
                    elif item.reason is not EndReason.COMPLETED and not feeding.done():
                        _require_completed(item)
                    else:
                        await feeding
                        _require_completed(item)
            finally:
                stream.cancel()
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
        finally:
            recording.close()


class Recording:
    """A file of sound, decoded piece by piece; :meth:`close` may come at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._source: AudioSource | None = None

    @property
    def duration_s(self) -> float | None:
        """What the file says; it may be wrong."""
        return None if self._source is None else self._source.duration_s

    def open(self) -> None:
        """Begin to decode.

        Raises:
            CommandError: the file can't be read.
            MediaError, MediaMissing: there is no audio in it, or none can be decoded.
        """
        with self._lock:
            self._file = open_file(self._path)
            try:
                self._source = open_audio(self._file)
            except BaseException:
                self._file.close()
                raise

    def read(self) -> bytes:
        """The next piece, s16le mono at :data:`RATE`; empty at the end.

        Raises:
            MediaError: the file is broken, or too long.
        """
        with self._lock:
            return b"" if self._source is None else self._source.read()

    def close(self) -> None:
        """Let go of it, after what a thread is still reading. Idempotent."""
        with self._lock:
            source, self._source = self._source, None
            if source is not None:
                source.close()
            if self._file is not None:
                self._file.close()


def open_file(path: Path) -> BinaryIO:
    """Open a file to be transcribed.

    Raises:
        CommandError: it can't be read.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None


async def _feed(speech: Speech, text: str) -> None:
    for at in range(0, len(text), TEXT_PIECE):
        await speech.send(text[at : at + TEXT_PIECE])
    await speech.end()


async def _decode(recording: Recording, stream: Transcription, done: Transcribed) -> None:
    """Hand the audio on; the recognizer, when it is behind, makes it wait."""
    try:
        while piece := await asyncio.to_thread(recording.read):
            done.seconds += len(piece) / SAMPLE_BYTES / RATE
            await stream.send(PcmChunk(piece, RATE))
        await stream.end()
    except BaseException:
        stream.cancel()
        raise


def _require_completed(end: End) -> None:
    if end.reason not in (EndReason.COMPLETED, EndReason.LENGTH):
        raise StageFailure(end.error or StageError("stopped", "it was stopped"))
