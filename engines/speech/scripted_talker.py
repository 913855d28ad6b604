"""A talker and its code2wav that make a tone, at an exact pace: for tests and load.

The talker says how long the text takes; code2wav makes that much tone, or silence, in chunks.
Neither needs a model or a thread; what models would take can be played.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from ...codecs.pcm import from_float
from ..chunks import Clause, End, Latents, PcmChunk, SpokenWords, StageError, Word
from ..deployment import Code2wavConfig, ScriptedTalkerConfig
from ..flow import Flow
from ..pipeline import OUTPUT_RATE
from ..scheduling.costs import Costs
from ..scheduling.deadlines import DeadlineQueue
from ..scheduling.windows import Windows
from ..stage import StageClosed, StageFailure, StageStream
from ..streams import Inbox, TaskStream
from .chunking import ChunkChoice, ChunkCounts, PacedStream, steps
from .code2wav import DecodeRequest
from .talker import TalkRequest, wait_to_speak

VOICE = "tone"

FRAME_MS = 20
"""Audio of one frame of latents."""

LOUDNESS = 0.2
"""Amplitude of the tone, of 1."""

INPUT_BOUND = 1
"""Clauses, or parts of them, that a stream holds before ``send`` waits."""

PAUSE_SECONDS = 0.02
"""A chunk may be so late because a timer was: the next is then made as it was planned."""

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

    def language(self, voice: str | None) -> str:
        """That of the text: a tone is understood in any."""
        return "en"

    def open(self, request: TalkRequest) -> TaskStream[Clause, Latents]:
        """Begin the speech of one reply.

        Raises:
            StageClosed: the stage is not running.
            StageFailure: there is no such voice.
        """
        if request.voice not in (None, VOICE):
            raise StageFailure(StageError("voice_unknown", f"expected the voice {VOICE}"))
        return self._stream(request.request_id, lambda inbox: self._talk(inbox, request))

    async def _talk(
        self, inbox: Inbox[Clause], request: TalkRequest
    ) -> AsyncGenerator[Latents | End, None]:
        word_ms = self._config.ms_per_word / request.speed
        # Frames until the talker stands still.
        until = self._config.stall_after_ms // FRAME_MS if self._config.stall_ms else None
        async for clause in inbox:
            words = clause.text.split()
            if not words:
                continue
            held_ms = await wait_to_speak(request.flow)
            latents = replace(_latents(words, word_ms), held_ms=held_ms)
            frames = latents.frames.shape[1]
            if until is not None and until < frames:
                if until:
                    yield _spoken(_first(latents, until), request.flow)
                    latents = _rest(latents, until)
                until = None
                await asyncio.sleep(self._config.stall_ms / 1000)
            elif until is not None:
                until -= frames
            yield _spoken(latents, request.flow)


class ScriptedCode2wavStage(_ScriptedStage[Latents, SpokenWords | PcmChunk]):
    """Makes as much tone as there are frames, not faster than it is told to."""

    def __init__(
        self, config: ScriptedTalkerConfig, code2wav: Code2wavConfig | None = None
    ) -> None:
        """``code2wav``: sizes and rule of the chunks, where ``config`` leaves them to it."""
        super().__init__("code2wav", config)
        self._rules = code2wav or Code2wavConfig()
        self._costs = Costs(fixed_ms=config.decode_fixed_ms, frame_ms=config.decode_frame_ms)
        self._decoder = PlayedDecoder()
        self._made = ChunkCounts(self._rules.sizes)
        # Two seconds, so that a chunk of up to one may begin anywhere in the first.
        times = np.arange(2 * OUTPUT_RATE) / OUTPUT_RATE
        wave = LOUDNESS * np.sin(2 * np.pi * config.hertz * times)
        self._tone = from_float(wave.astype(np.float32))

    def open(self, request: DecodeRequest) -> StageStream[Latents, SpokenWords | PcmChunk]:
        """Begin the audio of one reply.

        Raises:
            StageClosed: the stage is not running.
        """
        decode = self._by_length if self._config.chunk_ms else self._by_rule
        stream = self._stream(request.request_id, lambda inbox: decode(inbox, request.flow))
        return PacedStream(stream, lambda: self._costs)

    def statistics(self) -> dict[str, float]:
        """Streams, and what :class:`~.code2wav.Code2wavStage` says of chunks and costs.

        ``busy_seconds``: what the played decoder has worked.
        """
        worked = {"busy_seconds": self._decoder.busy_seconds, "threads": 1.0}
        made = self._made.statistics() | self._costs.statistics() | worked
        return super().statistics() | made

    async def _by_length(
        self, inbox: Inbox[Latents], flow: Flow | None
    ) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
        tone, chunk_ms = _Tone(self._config.pace), self._config.chunk_ms or FRAME_MS
        end_ms = 0
        async for latents in inbox:
            tone.resume()
            yield SpokenWords(tuple(_later(word, end_ms) for word in latents.words))
            end_ms += latents.frames.shape[1] * FRAME_MS
            while tone.made_ms < end_ms:
                if flow is not None:
                    await flow.wait_to_make()
                    tone.resume()
                yield await self._chunk(tone, min(chunk_ms, end_ms - tone.made_ms), flow)

    async def _by_rule(
        self, inbox: Inbox[Latents], flow: Flow | None
    ) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
        tone, frames = _Tone(self._config.pace), _Held()
        choice = ChunkChoice(self._rules, self._costs, flow, frame_ms=FRAME_MS, context=0)
        async with aclosing(steps(inbox, frames, choice, flow)) as todo:
            async for step in todo:
                tone.resume()
                if isinstance(step, SpokenWords):
                    yield step
                else:
                    frames.windows.take(step)
                    yield await self._chunk(tone, step * FRAME_MS, flow)
        if tone.made_ms:
            self._costs.ended(tone.made_ms)

    async def _chunk(self, tone: _Tone, ms: int, flow: Flow | None) -> PcmChunk:
        frames = -(-ms // FRAME_MS)
        cost_ms = self._config.decode_fixed_ms + self._config.decode_frame_ms * ms / FRAME_MS
        if cost_ms:
            due = None if flow is None else flow.due
            self._costs.waited(await self._decoder.decode(cost_ms, due))
            self._costs.decoded(frames, cost_ms)
        pcm = self._piece(tone.made_ms, ms)
        await tone.make(ms)
        self._made.add(ms / 1000, frames, flow)
        return PcmChunk(pcm, OUTPUT_RATE)

    def _piece(self, start_ms: int, ms: int) -> bytes:
        per_ms = 2 * OUTPUT_RATE // 1000
        start = start_ms % 1000 * per_ms
        piece = self._tone[start : start + ms * per_ms]
        # Chunks of a ladder may be longer than a second.
        while len(piece) < ms * per_ms:
            piece += self._tone[: ms * per_ms - len(piece)]
        return piece


class PlayedDecoder:
    """A decoder that only takes its time, one chunk after the other, soonest due first.

    Given up in its turn, a chunk frees the decoder at once.
    """

    def __init__(self) -> None:
        self.busy_seconds = 0.0
        """Of chunks that were decoded."""

        self._queue = DeadlineQueue[asyncio.Future[None]]()
        self._busy = False

    async def decode(self, ms: float, due: float | None) -> float:
        """Return when so much work is done; how long it waited, ms."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        if self._busy:
            await self._turn(loop, due)
        self._busy = True
        waited_ms = (loop.time() - asked_at) * 1000
        try:
            await asyncio.sleep(ms / 1000)
        finally:
            if self._queue.should_hold(due, loop.time(), loop.time()):
                # As a worker does: the next chunk of this stream may be the most urgent.
                loop.call_later(0.001, lambda: self._next(loop.time()))
            else:
                self._next(loop.time())
        self.busy_seconds += ms / 1000
        return waited_ms

    async def _turn(self, loop: asyncio.AbstractEventLoop, due: float | None) -> None:
        turn = loop.create_future()
        entry = self._queue.put(turn, loop.time(), due=due)
        try:
            await turn
        except asyncio.CancelledError:
            if not self._queue.withdraw(entry):
                # The turn came in the same moment: it is the next one's.
                self._next(loop.time())
            raise

    def _next(self, now: float) -> None:
        taken = self._queue.take(now)
        # Still busy where there is a next one: nobody may slip in ahead of it.
        self._busy = bool(taken)
        for entry in taken:
            entry.item.set_result(None)


class _Tone:
    """How much of a stream is made, and when the next of it may be."""

    def __init__(self, pace: float) -> None:
        self.made_ms = 0
        self._pace = pace
        self._now = asyncio.get_running_loop().time
        self._began = self._now()

    def resume(self) -> None:
        """Begin anew after a pause: audio that was not made then is not made up for."""
        if not self._pace or self._now() > self._due + PAUSE_SECONDS:
            self._began = self._now() - self._seconds(self.made_ms)

    async def make(self, ms: int) -> None:
        """Return when so much more may be made."""
        if (wait := self._due - self._now()) > 0:
            await asyncio.sleep(wait)
        self.made_ms += ms

    @property
    def _due(self) -> float:
        return self._began + self._seconds(self.made_ms)

    def _seconds(self, ms: float) -> float:
        """How long it takes to make so much audio."""
        return ms / 1000 / self._pace if self._pace else 0.0


class _Held:
    """Frames of which only the number counts."""

    def __init__(self) -> None:
        self.windows = Windows(0)
        self._ms = 0

    def add(self, latents: Latents) -> tuple[Word, ...]:
        """Take frames in; return their words with times from the start of the stream."""
        words = tuple(_later(word, self._ms) for word in latents.words)
        frames = latents.frames.shape[1]
        self._ms += frames * FRAME_MS
        self.windows.add(frames, last=latents.last)
        return words

    def end(self) -> None:
        """No more come."""
        self.windows.add(0, last=True)


def _spoken(latents: Latents, flow: Flow | None) -> Latents:
    if flow is not None:
        flow.spoke(latents.frames.shape[1] * FRAME_MS)
    return latents


def _first(latents: Latents, frames: int) -> Latents:
    return replace(latents, frames=latents.frames[:, :frames], last=False)


def _rest(latents: Latents, frames: int) -> Latents:
    return replace(latents, frames=latents.frames[:, frames:], words=(), held_ms=0.0)


def _latents(words: list[str], word_ms: float) -> Latents:
    frames = max(1, round(len(words) * word_ms / FRAME_MS))
    bounds = np.linspace(0, frames * FRAME_MS, len(words) + 1).tolist()
    timed = zip(words, bounds, bounds[1:], strict=False)
    return Latents(
        np.zeros((1, frames), np.float32), tuple(Word(text, at, end) for text, at, end in timed)
    )


def _later(word: Word, ms: float) -> Word:
    return Word(word.text, word.start_ms + ms, word.end_ms + ms)
