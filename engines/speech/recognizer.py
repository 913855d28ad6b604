"""The recognizer stage: an utterance in, what was said out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...codecs.pcm import to_float
from ...codecs.resample import resample
from ..catalog import require
from ..chunks import End, PcmChunk, StageError, Transcript, TranscriptDelta
from ..deployment import WhisperConfig
from ..pipeline import RecognizeRequest
from ..stage import StageFailure, StageStream
from ..streams import INPUT_BOUND, Inbox
from .hearing.guess import Guess, collapse, is_doubtful, is_runaway, is_silence
from .hearing.levels import frame_levels
from .hearing.whisper import Whisper
from .hearing.windows import (
    FULL_SECONDS,
    RATE,
    SHORTEST_SECONDS,
    pieces,
    sound_span,
    window_seconds,
)
from .worker import Worker

MAX_SECONDS = 600
"""Of one utterance; a longer one is refused."""

SILENCE_DB = -60.0
"""Where nothing is louder, nobody spoke: the softest speech of a usable microphone peaks
20 dB above."""

WARM_UP_SECONDS = (SHORTEST_SECONDS, 10, FULL_SECONDS)
"""Windows read once at start: the first of each size allocates its memory."""


@dataclass(slots=True)
class Utterance:
    """The audio of one request, as it comes in."""

    rate: int = 0
    parts: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    """Bytes of s16le."""

    def add(self, chunk: PcmChunk) -> None:
        """Append audio.

        Raises:
            StageFailure: it is too long, or its rate is not that of the chunks before.
        """
        self.rate = self.rate or chunk.rate
        if chunk.rate != self.rate:
            what = f"audio of {self.rate} Hz continued with {chunk.rate} Hz"
            raise StageFailure(StageError("invalid_audio", what))
        self.size += len(chunk.pcm)
        if self.size > MAX_SECONDS * 2 * self.rate:
            what = f"the audio is longer than {MAX_SECONDS} s"
            raise StageFailure(StageError("audio_too_long", what))
        self.parts.append(chunk.pcm)

    @property
    def duration_ms(self) -> int:
        """Length of the audio so far."""
        return round(500 * self.size / self.rate) if self.rate else 0

    def samples(self) -> NDArray[np.float32]:
        """All of it at 16 kHz, shape ``(n,)``."""
        if not self.rate:
            return np.zeros(0, np.float32)
        pcm = b"".join(self.parts)
        return to_float(resample(pcm[: len(pcm) & ~1], self.rate, RATE))


class WhisperStage:
    """Transcribes whole utterances, first come first served, in threads of its own."""

    def __init__(self, config: WhisperConfig, cache_root: Path) -> None:
        """``cache_root``: where fetched models lie. Loads nothing yet."""
        self._config = config
        self._cache_root = cache_root
        self._worker = Worker("recognizer", config.concurrency)
        self._model: Whisper | None = None
        self._counted = {"audio_seconds": 0.0, "busy_seconds": 0.0, "second_tries": 0.0}

    async def start(self) -> None:
        """Load and warm up.

        Raises:
            StageFailure: the model (``model_missing``) or a package is missing; the message
                says what to run.
        """
        self._model = model = await self._worker.start(self._load)
        warm = [self._worker.run(_warm_up, model) for _ in range(self._config.concurrency)]
        await asyncio.gather(*warm)

    def open(
        self, request: RecognizeRequest
    ) -> StageStream[PcmChunk, TranscriptDelta | Transcript]:
        """Begin one utterance, of any one rate; its one ``Transcript`` follows its end.

        Raises:
            StageClosed: the stage is not running.
        """

        def work(
            inbox: Inbox[PcmChunk],
        ) -> AsyncGenerator[TranscriptDelta | Transcript | End, None]:
            return self._recognize(request, inbox)

        return self._worker.open(f"recognizer {request.request_id}", work, input_bound=INPUT_BOUND)

    async def warm(self) -> None:
        """Make the next utterance as quick as if another had just been read."""
        if (model := self._model) is not None:
            await self._worker.warm(lambda: _warm_up(model, WARM_UP_SECONDS[:1]))

    async def close(self) -> None:
        """End every stream with an error and free the model. Idempotent."""
        await self._worker.close()
        self._model = None

    def statistics(self) -> Mapping[str, float]:
        """Streams open and ended, seconds of audio read and of work, and windows read twice."""
        return self._worker.statistics() | self._counted

    def _load(self) -> Whisper:
        card, folder = require(self._config.model, self._cache_root)
        return Whisper(
            folder,
            card.settings,
            threads=self._config.threads,
            concurrency=self._config.concurrency,
        )

    async def _recognize(
        self, request: RecognizeRequest, inbox: Inbox[PcmChunk]
    ) -> AsyncGenerator[TranscriptDelta | Transcript | End, None]:
        assert self._model is not None, "a stream was opened before the stage started"
        self._model.check_language(request.language)
        utterance = Utterance()
        async for chunk in inbox:
            utterance.add(chunk)
        reading = await self._worker.run(_transcribe, self._model, request, utterance)
        self._counted["audio_seconds"] += utterance.duration_ms / 1000
        self._counted["busy_seconds"] += reading.busy_seconds
        self._counted["second_tries"] += reading.second_tries
        yield Transcript(reading.text, utterance.duration_ms)


@dataclass(slots=True)
class Reading:
    """What was understood, and what that took."""

    text: str = ""
    second_tries: int = 0
    busy_seconds: float = 0.0


def _transcribe(model: Whisper, request: RecognizeRequest, utterance: Utterance) -> Reading:
    started = time.perf_counter()
    reading = Reading()
    for piece in pieces(utterance.samples()):
        said = _read(model, request, piece, reading)
        reading.text = f"{reading.text} {said}".strip()
    reading.busy_seconds = time.perf_counter() - started
    return reading


def _read(
    model: Whisper, request: RecognizeRequest, samples: NDArray[np.float32], reading: Reading
) -> str:
    levels = frame_levels(samples)
    if not levels.size or levels.max() < SILENCE_DB:
        return ""
    first, last = sound_span(levels)

    def guess(seconds: int) -> Guess:
        return model.guess(
            samples,
            seconds=seconds,
            last_sound=last,
            language=request.language,
            prompt=request.prompt,
        )

    found = guess(window_seconds(len(samples)))
    if not is_silence(found) and is_doubtful(found, last - first):
        # Whisper is surest of itself in the window it was trained on.
        reading.second_tries += 1
        found = guess(FULL_SECONDS)
        if is_runaway(found, last - first):
            found = replace(found, text=collapse(found.text))
    return "" if is_silence(found) else found.text


def _warm_up(model: Whisper, windows: tuple[int, ...] = WARM_UP_SECONDS) -> None:
    hiss = np.random.default_rng(0).normal(0, 0.01, RATE).astype(np.float32)
    for seconds in windows:
        model.guess(hiss, seconds=seconds, last_sound=1.0, language=None, prompt="")
