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
from .hearing.whisper import Whisper, on_gpu
from .hearing.windows import FULL_SECONDS, RATE, SHORTEST_SECONDS, pieces
from .readers import Readers
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
    Recordings are read in threads of their own, by a copy of the model, behind all of these.
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
        self._readers = Readers(self._worker, config.recordings, clock)
        self._model: Whisper | None = None
        self._reading_model: Whisper | None = None
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
        try:
            self._reading_model = await self._readers.start(self._load_for_recordings)
        except BaseException:
            await self.close()
            raise
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
        if (model := self._reading_model) is None:
            raise StageClosed("recognizer")
        language = model.known_language(request.language)
        if request.translate and not model.multilingual:
            what = f"the recognizer's model, {self._config.model}, knows English only"
            raise StageFailure(StageError("cannot_translate", what))
        self._recordings = [each for each in self._recordings if not each.done]
        if len(self._recordings) >= RECORDINGS:
            what = f"{RECORDINGS} recordings are being transcribed; try again"
            raise StageFailure(StageError("overloaded", what, retry_after_ms=2000))
        if not model.multilingual:
            # Nothing has to be found first.
            language = "en"
        request = replace(request, language=language)
        ahead = self._config.recordings
        recording = Recording(model, self._readers, request, self._counted, ahead)
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
        await self._readers.close()
        self._model = self._reading_model = None

    def statistics(self) -> Mapping[str, float]:
        """Streams open and ended, seconds of audio read and of work, windows read twice,
        partial transcripts, recordings, and their stretches that are read and that wait.
        """
        return self._worker.statistics() | self._readers.statistics() | self._counted

    def _load(self) -> Whisper:
        readers = self._config.recordings if on_gpu() else 0
        return self._loaded(self._config.threads, self._config.concurrency + readers)

    def _load_for_recordings(self) -> Whisper:
        """A copy, whose threads have a low priority: those of one model are all alike.

        A GPU knows no such priority: there one model serves all.
        """
        assert self._model is not None, "recordings come after live speech"
        return self._model if on_gpu() else self._loaded(1, self._config.recordings)

    def _loaded(self, threads: int, concurrency: int) -> Whisper:
        card, folder = require(self._config.model, self._cache_root)
        return Whisper(folder, card.settings, threads=threads, concurrency=concurrency)

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
