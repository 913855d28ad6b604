"""The recognizer stage: an utterance in, what was said out."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...codecs.pcm import to_float
from ...codecs.resample import resample
from ..catalog import require
from ..chunks import (
    End,
    PcmChunk,
    Segment,
    StageError,
    TokenLogprob,
    Transcript,
    TranscriptDelta,
)
from ..deployment import WhisperConfig
from ..pipeline import RecognizeRequest, TranscribeRequest
from ..stage import StageClosed, StageFailure, StageStream
from ..streams import INPUT_BOUND, Inbox, TaskStream
from .hearing.guess import Guess
from .hearing.reading import Wanted, read_piece
from .hearing.spelling import fit_tokens
from .hearing.whisper import Whisper
from .hearing.windows import FULL_SECONDS, RATE, SHORTEST_SECONDS, pieces
from .recording import INPUT_CHUNKS, RECORDINGS, Recording
from .worker import Worker

MAX_SECONDS = 600
"""Of one utterance; a longer one is refused."""

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

    def samples(self, seconds: float = math.inf) -> NDArray[np.float32]:
        """All of it, or the first ``seconds``, at 16 kHz, shape ``(n,)``."""
        if not self.rate:
            return np.zeros(0, np.float32)
        size = min(self.size, 2 * math.ceil(min(seconds, MAX_SECONDS) * self.rate))
        return to_float(resample(b"".join(self.parts)[: size & ~1], self.rate, RATE))


class WhisperStage:
    """Transcribes utterances, first come first served, in threads of its own.

    A partial one is read when no other waits, and only once: what is doubtful then is empty.
    """

    def __init__(
        self,
        config: WhisperConfig,
        cache_root: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``cache_root``: where fetched models lie. Loads nothing yet."""
        self._config = config
        self._cache_root = cache_root
        self._worker = Worker("recognizer", config.concurrency, clock=clock)
        self._model: Whisper | None = None
        self._counted: dict[str, float] = dict.fromkeys(
            ("audio_seconds", "busy_seconds", "second_tries", "partials", "recordings"), 0.0
        )
        self._recordings: list[TaskStream[PcmChunk, Segment]] = []
        """Open now, and some that are over."""

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

    def transcribe(self, request: TranscribeRequest) -> StageStream[PcmChunk, Segment]:
        """Begin a recording of any length, of any one rate, read while it comes in.

        Raises:
            StageClosed: the stage is not running.
            StageFailure: the language is unknown (``unsupported_language``), the model can't
                translate (``cannot_translate``), or too many are read (``overloaded``).
        """
        if (model := self._model) is None:
            raise StageClosed("recognizer")
        language = model.known_language(request.language)
        if request.translate and not model.multilingual:
            what = f"the recognizer's model, {self._config.model}, knows English only"
            raise StageFailure(StageError("cannot_translate", what))
        self._recordings = [each for each in self._recordings if not each.done]
        if len(self._recordings) >= RECORDINGS:
            what = f"{RECORDINGS} recordings are being transcribed; try again"
            raise StageFailure(StageError("overloaded", what, retry_after_ms=2000))
        request = replace(request, language=language)
        recording = Recording(model, self._worker, request, self._counted)
        name = f"recording {request.request_id}"
        stream = self._worker.open(name, recording.read, input_bound=INPUT_CHUNKS)
        self._counted["recordings"] += 1
        self._recordings.append(stream)
        return stream

    async def warm(self) -> None:
        """Make the next utterance as quick as if another had just been read."""
        if (model := self._model) is not None:
            await self._worker.warm(lambda: _warm_up(model, WARM_UP_SECONDS[:1]))

    async def close(self) -> None:
        """End every stream with an error and free the model. Idempotent."""
        await self._worker.close()
        self._model = None

    def statistics(self) -> Mapping[str, float]:
        """Streams open and ended, seconds of audio read and of work, windows read twice,
        partial transcripts, and recordings.
        """
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
        request = replace(request, language=self._model.known_language(request.language))
        utterance = Utterance()
        async for chunk in inbox:
            utterance.add(chunk)
        run = self._worker.run_patiently if request.partial else self._worker.run
        reading = await run(_transcribe, self._model, request, utterance)
        self._counted["audio_seconds"] += utterance.duration_ms / 1000
        self._counted["busy_seconds"] += reading.busy_seconds
        self._counted["second_tries"] += reading.second_tries
        self._counted["partials"] += request.partial
        yield Transcript(reading.text, utterance.duration_ms, tuple(reading.tokens))


@dataclass(slots=True)
class Reading:
    """What was understood, and what that took."""

    text: str = ""
    tokens: list[TokenLogprob] = field(default_factory=list[TokenLogprob])
    second_tries: int = 0
    busy_seconds: float = 0.0

    def add(self, found: Guess) -> None:
        """Append what was understood of the next piece."""
        space = " " if self.text and found.text else ""
        self.text += space + found.text
        for number, each in enumerate(fit_tokens(found.tokens, found.text)):
            self.tokens.append(each if number else replace(each, token=space + each.token))


def _transcribe(model: Whisper, request: RecognizeRequest, utterance: Utterance) -> Reading:
    started = time.perf_counter()
    reading = Reading()
    if request.partial:
        # One window: to read minutes over and over would take all the time there is.
        samples = pieces(utterance.samples(FULL_SECONDS))[:1]
    else:
        samples = pieces(utterance.samples())
    wanted = Wanted(language=request.language, prompt=request.prompt, logprobs=request.logprobs)
    for piece in samples:
        found, tries = read_piece(model, wanted, piece, once=request.partial)
        reading.second_tries += tries
        if found:
            reading.add(found)
    reading.busy_seconds = time.perf_counter() - started
    return reading


def _warm_up(model: Whisper, windows: tuple[int, ...] = WARM_UP_SECONDS) -> None:
    hiss = np.random.default_rng(0).normal(0, 0.01, RATE).astype(np.float32)
    for seconds in windows:
        model.guess(hiss, seconds=seconds, last_sound=1.0)
