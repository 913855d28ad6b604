"""A recording of any length on its way through the recognizer."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, MutableMapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ..chunks import End, PcmChunk, Segment, StageError, Word
from ..pipeline import TranscribeRequest
from ..stage import StageFailure
from ..streams import Inbox
from .hearing.guess import DOUBTFUL_LANGUAGE, Guess
from .hearing.levels import frame_levels
from .hearing.margins import with_margins, without_margins
from .hearing.passages import Passage, fit_passages
from .hearing.reading import Guesses, Wanted, read_piece
from .hearing.stretches import Stretch, Stretches
from .hearing.windows import RATE
from .readers import Readers

RECORDINGS = 16
"""That are under way at once."""

SPARE = 1
"""Stretches of one recording that are cut beyond those which can be read at once: the threads
need not wait for the next, nor for one that takes longer than those behind it."""

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
    """Reads what comes in, several stretches at once, behind everything that is live."""

    def __init__(
        self,
        model: Guesses,
        readers: Readers,
        request: TranscribeRequest,
        counted: MutableMapping[str, float],
        ahead: int = 1,
    ) -> None:
        """``request``: its language as the model calls it, or ``None`` where it has to be found.
        ``counted``: to which ``audio_seconds`` read, ``busy_seconds`` and ``second_tries`` are
        added. ``ahead``: stretches that are read at once once the language is known.
        """
        self._model = model
        self._readers = readers
        self._place = readers.enter()
        self._ahead = ahead
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
        """Yield what is said, each stretch as soon as it and all before it are read.

        Raises:
            StageFailure: the audio's rate changes, or the stage is closed.
        """
        stretches = _stretches(inbox)
        cut: asyncio.Task[Stretch | None] | None = None
        under_way = deque[asyncio.Task[Any]]()
        over = False
        try:
            while not over or under_way:
                if cut is None and not over and self._has_room(len(under_way)):
                    cut = asyncio.create_task(_next(stretches))
                awaited = [each for each in (cut, *islice(under_way, 1)) if each is not None]
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if cut is not None and cut.done():
                    under_way.extend(self._begun(cut))
                    # What fails is told after what was said before.
                    over = cut.exception() is not None or cut.result() is None
                    cut = None
                if under_way and under_way[0].done():
                    segments: list[Segment] = under_way.popleft().result()
                    for segment in segments:
                        yield segment
        finally:
            await _cancel(*under_way, *([] if cut is None else [cut]))
            await stretches.aclose()

    def _has_room(self, under_way: int) -> bool:
        """Whether one more stretch may be cut."""
        if self._wanted.language is None:
            # The next is read in the language that is found in this one.
            return under_way == 0
        return under_way < self._ahead + SPARE

    def _begun(self, cut: asyncio.Task[Stretch | None]) -> list[asyncio.Task[Any]]:
        """What reads the stretch that was cut, or the task itself where that failed."""
        if cut.exception() is not None:
            return [cut]
        stretch = cut.result()
        return [] if stretch is None else [asyncio.create_task(self._segments(stretch))]

    async def _segments(self, stretch: Stretch) -> list[Segment]:
        heard = await self._readers.run(self._place, self._hear, stretch)
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

    def _hear(self, stretch: Stretch) -> _Heard:
        """In a thread, by what is wanted when it begins."""
        started = time.perf_counter()
        samples, ahead = with_margins(stretch.samples)
        found, tries = read_piece(self._model, self._wanted, samples)
        passages = tuple[Passage, ...]()
        if found is not None:
            seconds = len(stretch.samples) / RATE
            fitted = fit_passages(found.passages, frame_levels(samples))
            passages = tuple(without_margins(each, ahead, seconds) for each in fitted)
        return _Heard(found, passages, tries, time.perf_counter() - started)


async def _stretches(inbox: Inbox[PcmChunk]) -> AsyncGenerator[Stretch, None]:
    """Yield what comes in, cut."""
    rate, cutter = 0, None
    async for chunk in inbox:
        if cutter is None:
            rate, cutter = chunk.rate, Stretches(chunk.rate)
        if chunk.rate != rate:
            what = f"audio of {rate} Hz continued with {chunk.rate} Hz"
            raise StageFailure(StageError("invalid_audio", what))
        # A chunk may be long.
        for stretch in await asyncio.to_thread(cutter.feed, chunk.pcm):
            yield stretch
    for stretch in [] if cutter is None else cutter.finish():
        yield stretch


async def _next(stretches: AsyncGenerator[Stretch, None]) -> Stretch | None:
    return await anext(stretches, None)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


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
