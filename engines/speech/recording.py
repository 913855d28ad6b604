"""A recording of any length on its way through the recognizer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, MutableMapping
from dataclasses import dataclass, replace

from ..chunks import End, PcmChunk, Segment, StageError, Word
from ..pipeline import TranscribeRequest
from ..stage import StageFailure
from ..streams import Inbox
from .hearing.guess import DOUBTFUL_LANGUAGE, Guess
from .hearing.levels import frame_levels
from .hearing.passages import Passage, fit_passages
from .hearing.reading import Guesses, Wanted, read_piece
from .hearing.stretches import Stretch, Stretches
from .hearing.windows import RATE
from .worker import Worker

RECORDINGS = 16
"""That are read at once; each holds less than half a minute of audio."""

INPUT_CHUNKS = 8
"""Of audio, which wait to be read."""


@dataclass(slots=True)
class _Heard:
    """What came of one stretch."""

    found: Guess | None
    passages: tuple[Passage, ...]
    second_tries: int
    busy_seconds: float


class Recording:
    """Reads what comes in, stretch by stretch, behind everything that is live."""

    def __init__(
        self,
        model: Guesses,
        worker: Worker,
        request: TranscribeRequest,
        counted: MutableMapping[str, float],
    ) -> None:
        """``request``: its language as the model calls it, or ``None``. ``counted``: to which
        ``audio_seconds`` read, ``busy_seconds`` and ``second_tries`` are added.
        """
        self._model = model
        self._worker = worker
        self._words = request.words
        self._wanted = Wanted(
            language=request.language,
            prompt=request.prompt,
            logprobs=request.logprobs,
            translate=request.translate,
            # Also for the times of segments: it takes next to nothing. English words for
            # what was said in another language sound at no time.
            words=not request.translate,
            temperature=request.temperature,
        )
        self._counted = counted

    async def read(self, inbox: Inbox[PcmChunk]) -> AsyncGenerator[Segment | End, None]:
        """Yield what is said, each stretch as soon as it is read.

        Raises:
            StageFailure: the audio's rate changes, or the worker has too much to do.
        """
        rate, cutter = 0, None
        async for chunk in inbox:
            if cutter is None:
                rate, cutter = chunk.rate, Stretches(chunk.rate)
            if chunk.rate != rate:
                what = f"audio of {rate} Hz continued with {chunk.rate} Hz"
                raise StageFailure(StageError("invalid_audio", what))
            # A chunk may be long.
            for stretch in await asyncio.to_thread(cutter.feed, chunk.pcm):
                for segment in await self._segments(stretch):
                    yield segment
        for stretch in [] if cutter is None else cutter.finish():
            for segment in await self._segments(stretch):
                yield segment

    async def _segments(self, stretch: Stretch) -> list[Segment]:
        heard = await self._worker.run_patiently(_hear, self._model, self._wanted, stretch)
        self._counted["audio_seconds"] += len(stretch.samples) / RATE
        self._counted["busy_seconds"] += heard.busy_seconds
        self._counted["second_tries"] += heard.second_tries
        if heard.found is None:
            return []
        if self._wanted.language is None and heard.found.language_probability > DOUBTFUL_LANGUAGE:
            # Found once, kept: a short stretch may sound like another language.
            self._wanted = replace(self._wanted, language=heard.found.language)
        offset_ms = stretch.start / RATE * 1000
        segments = [_segment(each, heard.found, offset_ms) for each in heard.passages]
        return segments if self._words else [replace(each, words=()) for each in segments]


def _hear(model: Guesses, wanted: Wanted, stretch: Stretch) -> _Heard:
    started = time.perf_counter()
    found, tries = read_piece(model, wanted, stretch.samples)
    passages = tuple[Passage, ...]()
    if found is not None:
        passages = fit_passages(found.passages, frame_levels(stretch.samples))
    return _Heard(found, passages, tries, time.perf_counter() - started)


def _segment(passage: Passage, found: Guess, offset_ms: float) -> Segment:
    words = (
        Word(word.text, word.start_ms + offset_ms, word.end_ms + offset_ms)
        for word in passage.words
    )
    return Segment(
        text=passage.text,
        start_ms=passage.start * 1000 + offset_ms,
        end_ms=passage.end * 1000 + offset_ms,
        words=tuple(words),
        language=found.language,
        mean_logprob=found.mean_logprob,
        no_speech=found.no_speech,
        logprobs=passage.logprobs,
        tokens=passage.tokens,
    )
