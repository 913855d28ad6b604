"""A recognizer that hears given lines, whatever is said: for tests and load."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Mapping

from ..chunks import End, PcmChunk, Transcript, TranscriptDelta
from ..deployment import ScriptedRecognizerConfig
from ..pipeline import RecognizeRequest
from ..stage import StageStream
from ..streams import INPUT_BOUND, Inbox
from .recognizer import Utterance
from .worker import Worker


class ScriptedRecognizerStage:
    """Answers each utterance with the next line, over and over; needs no model."""

    def __init__(self, config: ScriptedRecognizerConfig) -> None:
        """An empty list of lines hears silence."""
        self._delay = config.delay_ms / 1000
        self._lines = itertools.cycle(config.lines or ("",))
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
        return self._worker.open(
            f"recognizer {request.request_id}", self._recognize, input_bound=INPUT_BOUND
        )

    async def close(self) -> None:
        """End every stream with an error. Idempotent."""
        await self._worker.close()

    def statistics(self) -> Mapping[str, float]:
        """Streams open and ended."""
        return self._worker.statistics()

    async def _recognize(
        self, inbox: Inbox[PcmChunk]
    ) -> AsyncGenerator[TranscriptDelta | Transcript | End, None]:
        utterance = Utterance()
        async for chunk in inbox:
            utterance.add(chunk)
        await asyncio.sleep(self._delay)
        yield Transcript(next(self._lines), utterance.duration_ms)


def _nothing() -> None:
    """There is nothing to load."""
