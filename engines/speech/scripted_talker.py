"""A talker and its code2wav that make a tone, at an exact pace: for tests and load.

The talker says how long the text takes; code2wav makes that much tone, or silence, in chunks.
Neither needs a model or a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

import numpy as np

from ...codecs.pcm import from_float
from ..chunks import Clause, End, Latents, PcmChunk, SpokenWords, StageError, Word
from ..deployment import ScriptedTalkerConfig
from ..pipeline import OUTPUT_RATE
from ..stage import StageClosed, StageFailure
from ..streams import Inbox, TaskStream
from .code2wav import DecodeRequest
from .talker import TalkRequest

VOICE = "tone"

FRAME_MS = 20
"""Audio of one frame of latents."""

LOUDNESS = 0.2
"""Amplitude of the tone, of 1."""

INPUT_BOUND = 8
"""Clauses a stream holds before ``send`` waits."""

InT = TypeVar("InT")
OutT = TypeVar("OutT")


class _ScriptedStage(Generic[InT, OutT]):
    """Open streams of a stage that needs nothing to run."""

    def __init__(self, name: str, config: ScriptedTalkerConfig) -> None:
        self._name = name
        self._config = config
        self._streams: set[TaskStream[InT, OutT]] = set()
        self._running = False
        self._opened = 0

    async def start(self) -> None:
        """Be ready at once."""
        self._running = True

    async def close(self) -> None:
        """End every stream with an error. Idempotent."""
        self._running = False
        for stream in (streams := tuple(self._streams)):
            stream.fail(StageClosed(self._name).error)
        for stream in streams:
            await stream.wait_done()

    def statistics(self) -> dict[str, float]:
        """``requests``: opened so far; ``streams``: open now."""
        return {"requests": self._opened, "streams": len(self._streams)}

    def _stream(
        self, request_id: str, work: Callable[[Inbox[InT]], AsyncGenerator[OutT | End, None]]
    ) -> TaskStream[InT, OutT]:
        if not self._running:
            raise StageClosed(self._name)
        stream = TaskStream[InT, OutT](
            f"{self._name} {request_id}",
            work,
            input_bound=INPUT_BOUND,
            on_done=lambda end: self._streams.discard(stream),
        )
        self._streams.add(stream)
        self._opened += 1
        return stream


class ScriptedTalkerStage(_ScriptedStage[Clause, Latents]):
    """Gives each clause the time that its words take, evenly."""

    def __init__(self, config: ScriptedTalkerConfig) -> None:
        super().__init__("talker", config)

    @property
    def voices(self) -> tuple[str, ...]:
        """The one voice."""
        return (VOICE,)

    def open(self, request: TalkRequest) -> TaskStream[Clause, Latents]:
        """Begin the speech of one reply.

        Raises:
            StageClosed: the stage is not running.
            StageFailure: there is no such voice.
        """
        if request.voice not in (None, VOICE):
            raise StageFailure(StageError("voice_unknown", f"expected the voice {VOICE}"))
        word_ms = self._config.ms_per_word / request.speed

        async def work(inbox: Inbox[Clause]) -> AsyncGenerator[Latents | End, None]:
            async for clause in inbox:
                words = clause.text.split()
                if words:
                    yield _latents(words, word_ms)

        return self._stream(request.request_id, work)


class ScriptedCode2wavStage(_ScriptedStage[Latents, SpokenWords | PcmChunk]):
    """Makes as much tone as there are frames, not faster than it is told to."""

    def __init__(self, config: ScriptedTalkerConfig) -> None:
        super().__init__("code2wav", config)
        # Two seconds, so that a chunk of up to one may begin anywhere in the first.
        times = np.arange(2 * OUTPUT_RATE) / OUTPUT_RATE
        wave = LOUDNESS * np.sin(2 * np.pi * config.hertz * times)
        self._tone = from_float(wave.astype(np.float32))

    def open(self, request: DecodeRequest) -> TaskStream[Latents, SpokenWords | PcmChunk]:
        """Begin the audio of one reply.

        Raises:
            StageClosed: the stage is not running.
        """
        return self._stream(request.request_id, self._decode)

    async def _decode(
        self, inbox: Inbox[Latents]
    ) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
        now = asyncio.get_running_loop().time
        began, made_ms = now(), 0
        async for latents in inbox:
            if not self._config.pace or now() > self._due(began, made_ms):
                # A pause in the text: audio that was not made then is not made up for.
                began = now() - self._seconds(made_ms)
            yield SpokenWords(tuple(_later(word, made_ms) for word in latents.words))
            end_ms = made_ms + latents.frames.shape[1] * FRAME_MS
            while made_ms < end_ms:
                ms = min(self._config.chunk_ms, end_ms - made_ms)
                if (wait := self._due(began, made_ms) - now()) > 0:
                    await asyncio.sleep(wait)
                yield PcmChunk(self._piece(made_ms, ms), OUTPUT_RATE)
                made_ms += ms

    def _seconds(self, ms: float) -> float:
        """How long it takes to make so much audio."""
        return ms / 1000 / self._config.pace if self._config.pace else 0.0

    def _due(self, began: float, made_ms: float) -> float:
        return began + self._seconds(made_ms)

    def _piece(self, start_ms: int, ms: int) -> bytes:
        per_ms = 2 * OUTPUT_RATE // 1000
        start = start_ms % 1000 * per_ms
        return self._tone[start : start + ms * per_ms]


def _latents(words: list[str], word_ms: float) -> Latents:
    frames = max(1, round(len(words) * word_ms / FRAME_MS))
    bounds = np.linspace(0, frames * FRAME_MS, len(words) + 1).tolist()
    timed = zip(words, bounds, bounds[1:], strict=False)
    return Latents(
        np.zeros((1, frames), np.float32), tuple(Word(text, at, end) for text, at, end in timed)
    )


def _later(word: Word, ms: float) -> Word:
    return Word(word.text, word.start_ms + ms, word.end_ms + ms)
