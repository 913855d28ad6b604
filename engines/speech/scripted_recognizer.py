"""A recognizer that hears given lines, whatever is said: for tests and load."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping

from ..chunks import End, PcmChunk, Segment, TokenLogprob, Transcript, TranscriptDelta, Word
from ..deployment import ScriptedRecognizerConfig
from ..pipeline import RecognizeRequest, TranscribeRequest
from ..stage import StageStream
from ..streams import INPUT_BOUND, Inbox
from .recognizer import Utterance
from .recording import INPUT_CHUNKS
from .worker import Worker

_WORD = re.compile(r"\s*\S+|\s+$")
"""A word with the space before it; all of them together are the line."""

SEGMENT_SECONDS = 5
"""Of a recording, in which one line is heard; the last is shorter."""


class ScriptedRecognizerStage:
    """Answers each utterance with the next line, over and over; needs no model.

    Of speech that goes on it hears as many words of the next line as were spoken by then.
    """

    def __init__(self, config: ScriptedRecognizerConfig) -> None:
        """An empty list of lines hears silence."""
        self._config = config
        self._lines = config.lines or ("",)
        self._heard = 0
        self._worker = Worker("recognizer")

    async def start(self) -> None:
        """Be ready at once."""
        await self._worker.start(_nothing)

    def open(
        self, request: RecognizeRequest
    ) -> StageStream[PcmChunk, TranscriptDelta | Transcript]:
        """Begin one utterance; its one ``Transcript`` follows its end, after the delay.

        Raises:
            StageClosed: the stage is not running.
        """

        def work(
            inbox: Inbox[PcmChunk],
        ) -> AsyncGenerator[TranscriptDelta | Transcript | End, None]:
            return self._recognize(request, inbox)

        return self._worker.open(f"recognizer {request.request_id}", work, input_bound=INPUT_BOUND)

    def transcribe(self, request: TranscribeRequest) -> StageStream[PcmChunk, Segment]:
        """Begin a recording: a line for every :data:`SEGMENT_SECONDS`, each after the delay,
        its words as long as each other.

        Raises:
            StageClosed: the stage is not running.
        """

        def work(inbox: Inbox[PcmChunk]) -> AsyncGenerator[Segment | End, None]:
            return self._transcribe(request, inbox)

        return self._worker.open(f"recording {request.request_id}", work, input_bound=INPUT_CHUNKS)

    async def close(self) -> None:
        """End every stream with an error. Idempotent."""
        await self._worker.close()

    def statistics(self) -> Mapping[str, float]:
        """Streams open and ended."""
        return self._worker.statistics()

    async def _recognize(
        self, request: RecognizeRequest, inbox: Inbox[PcmChunk]
    ) -> AsyncGenerator[TranscriptDelta | Transcript | End, None]:
        utterance = Utterance()
        async for chunk in inbox:
            utterance.add(chunk)
        await asyncio.sleep(self._config.delay_ms / 1000)
        line = self._lines[self._heard % len(self._lines)]
        if request.partial:
            line = self._begun(line, utterance.duration_ms / 1000)
        else:
            self._heard += 1
        tokens = self._tokens(line) if request.logprobs else ()
        yield Transcript(line, utterance.duration_ms, tokens)

    async def _transcribe(
        self, request: TranscribeRequest, inbox: Inbox[PcmChunk]
    ) -> AsyncGenerator[Segment | End, None]:
        told_ms, ms = 0.0, 0.0
        async for chunk in inbox:
            ms += len(chunk.pcm) / 2 / chunk.rate * 1000
            while ms - told_ms >= SEGMENT_SECONDS * 1000:
                yield await self._segment(request, told_ms, told_ms + SEGMENT_SECONDS * 1000)
                told_ms += SEGMENT_SECONDS * 1000
        if ms > told_ms:
            yield await self._segment(request, told_ms, ms)

    async def _segment(self, request: TranscribeRequest, start_ms: float, end_ms: float) -> Segment:
        await asyncio.sleep(self._config.delay_ms / 1000)
        line = self._lines[self._heard % len(self._lines)]
        self._heard += 1
        words, step = line.split(), (end_ms - start_ms) / max(1, len(line.split()))
        times = (
            Word(word, start_ms + number * step, start_ms + (number + 1) * step)
            for number, word in enumerate(words)
        )
        return Segment(
            text=f" {line}" if line else "",
            start_ms=start_ms,
            end_ms=end_ms,
            words=tuple(times) if request.words else (),
            language=request.language or "en",
            mean_logprob=self._config.logprob,
            logprobs=self._tokens(line) if request.logprobs else (),
            tokens=tuple(range(len(words))),
        )

    def _begun(self, line: str, seconds: float) -> str:
        words = int(seconds * self._config.words_per_second)
        return "".join(_WORD.findall(line)[:words])

    def _tokens(self, line: str) -> tuple[TokenLogprob, ...]:
        return tuple(TokenLogprob(word, self._config.logprob) for word in _WORD.findall(line))


def _nothing() -> None:
    """There is nothing to load."""
