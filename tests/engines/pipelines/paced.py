"""A cascade whose speaking costs simulated time: two servers, each of them one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

import numpy as np

from antiphon.engines.chunks import (
    Clause,
    End,
    EndReason,
    Latents,
    PcmChunk,
    SpokenWords,
    StageError,
    TextDelta,
    Timings,
    Word,
)
from antiphon.engines.deployment import Pacing, ScriptedArConfig
from antiphon.engines.flow import Flow
from antiphon.engines.pipeline import Message, Reply, ReplyRequest
from antiphon.engines.pipelines.cascade import CascadePipeline
from antiphon.engines.pipelines.stages import CascadeStages
from antiphon.engines.scheduling.deadlines import DeadlineQueue
from antiphon.engines.speech.code2wav import DecodeRequest
from antiphon.engines.speech.talker import TalkRequest
from antiphon.engines.streams import Inbox
from antiphon.engines.text.scripted_ar import ScriptedArStage

from .played import RATE, Play, Played, PlayedTalker

WORD_MS = 300
"""Audio of one word."""

FRAME_MS = 20


class Server:
    """Serves one after the other, the soonest due first, for as long as each takes."""

    def __init__(self) -> None:
        self.busy_seconds = 0.0
        self._queue = DeadlineQueue[asyncio.Future[None]]()
        self._busy = False

    async def serve(self, seconds: float, due: float) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        entry = self._queue.put(turn, loop.time(), due=due)
        self._next()
        try:
            await turn
            await asyncio.sleep(seconds)
            self.busy_seconds += seconds
        finally:
            if not self._queue.withdraw(entry):
                self._busy = False
                self._next()

    def _next(self) -> None:
        while not self._busy:
            entries = self._queue.take(asyncio.get_running_loop().time())
            if not entries:
                return
            if not entries[0].item.done():
                self._busy = True
                entries[0].item.set_result(None)


class PacedTalker(PlayedTalker):
    """A talker that counts what it did."""

    rig: Rig

    def statistics(self) -> Mapping[str, float]:
        rig = self.rig
        numbers = {"busy_seconds": rig.talker.busy_seconds, "audio_seconds": rig.spoken_ms / 1000}
        return {**super().statistics(), **numbers}


class PacedCode2wav(Played[DecodeRequest, Latents, SpokenWords | PcmChunk]):
    """The same of code2wav."""

    rig: Rig

    def statistics(self) -> Mapping[str, float]:
        rig = self.rig
        numbers = {"busy_seconds": rig.code2wav.busy_seconds, "audio_seconds": rig.made_ms / 1000}
        return {**super().statistics(), **numbers}


@dataclass
class Rig:
    """The cascade and what its stages cost; a model writes ``lines`` in turn."""

    lines: tuple[str, ...]
    pacing: Pacing = field(default_factory=Pacing)
    words_per_second: float = 30.0
    talk_share: float = 0.03
    """Seconds that a second of audio costs the talker."""

    chunk_ms: int = 100
    chunk_seconds: float = 0.01
    """What a chunk costs code2wav."""

    stall_at_ms: float | None = None
    """After so much of a reply's audio its talker stands still once, with the server."""

    stall_seconds: float = 0.5
    spoken_ms: float = 0.0
    made_ms: float = 0.0

    def __post_init__(self) -> None:
        self.talker, self.code2wav = Server(), Server()
        self.first_due_in: list[float] = []
        """How many seconds each talker had for its first clause when it got it."""

        self.pipeline = CascadePipeline.from_stages(
            self._stages(), model="paced", pacing=self.pacing
        )

    def reply(self, name: str, *, speak: bool = True) -> Reply:
        return self.pipeline.reply(
            ReplyRequest(request_id=name, messages=(Message("user", "Hello"),), speak=speak)
        )

    @property
    def statistics(self) -> Mapping[str, float]:
        return self.pipeline.statistics()["reply"]

    def _stages(self) -> CascadeStages:
        played = Play().stages()
        talker = PacedTalker("talker", self._talk)
        code2wav = PacedCode2wav("code2wav", self._sound)
        talker.rig = code2wav.rig = self
        config = ScriptedArConfig(lines=self.lines, tokens_per_second=self.words_per_second)
        return CascadeStages(
            vad=played.vad,
            recognizer=played.recognizer,
            ar=ScriptedArStage(config),
            talker=talker,
            code2wav=code2wav,
        )

    async def _talk(
        self, request: TalkRequest, inbox: Inbox[Clause]
    ) -> AsyncGenerator[Latents | End, None]:
        assert request.flow is not None
        spoken_ms = 0.0
        async for clause in inbox:
            words = clause.text.split()
            if not spoken_ms:
                self.first_due_in.append(request.flow.speak_due - _now())
            ms = WORD_MS * len(words)
            await request.flow.wait_to_speak()
            cost = self.talk_share * ms / 1000
            if self.stall_at_ms is not None and spoken_ms <= self.stall_at_ms < spoken_ms + ms:
                cost += self.stall_seconds
            await self.talker.serve(cost, request.flow.speak_due)
            spoken_ms += ms
            self.spoken_ms += ms
            request.flow.spoke(ms)
            times = (Word(word, n * WORD_MS, (n + 1) * WORD_MS) for n, word in enumerate(words))
            yield Latents(np.zeros((1, ms // FRAME_MS), np.float32), tuple(times))

    async def _sound(
        self, request: DecodeRequest, inbox: Inbox[Latents]
    ) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
        assert request.flow is not None
        async for latents in inbox:
            yield SpokenWords(latents.words)
            left_ms = latents.frames.shape[1] * FRAME_MS
            while left_ms:
                ms = min(left_ms, self.chunk_ms)
                yield await self._chunk(request.flow, ms)
                left_ms -= ms

    async def _chunk(self, flow: Flow, ms: int) -> PcmChunk:
        await flow.wait_to_make()
        await self.code2wav.serve(self.chunk_seconds, flow.due)
        flow.made(ms)
        self.made_ms += ms
        return PcmChunk(bytes(2 * RATE * ms // 1000), RATE)


class Ear:
    """A client that plays what it gets as it comes, and notes where it ran dry."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked_at = _now()
        self.words: list[str] = []
        self.text = ""
        self.got_ms = 0.0
        self.first_at: float | None = None
        self.gap_ms = 0.0
        self.error: StageError | None = None
        self.end: End | None = None
        self.timings: Timings | None = None
        self._ends_at = 0.0
        self._heard = asyncio.Event()

    async def listen(self) -> None:
        """Read the reply to its end."""
        async for chunk in self.reply:
            match chunk:
                case TextDelta():
                    self.text += chunk.text
                case SpokenWords():
                    self.words += [word.text for word in chunk.words]
                case PcmChunk():
                    self._play(1000 * len(chunk.pcm) / 2 / chunk.rate)
                case End():
                    self.end, self.error = chunk, chunk.error
                case Timings():
                    self.timings = chunk
                case _:
                    pass

    async def heard(self, ms: float) -> None:
        """Return once so much audio has come."""
        while self.got_ms < ms:
            self._heard.clear()
            await self._heard.wait()

    @property
    def completed(self) -> bool:
        return self.end is not None and self.end.reason is EndReason.COMPLETED

    def _play(self, ms: float) -> None:
        now = _now()
        if self.first_at is None:
            self.first_at = self._ends_at = now
        self.gap_ms += max(0.0, now - self._ends_at) * 1000
        self._ends_at = max(self._ends_at, now) + ms / 1000
        self.got_ms += ms
        self._heard.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
