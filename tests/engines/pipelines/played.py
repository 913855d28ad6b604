"""Stages that are played: a cascade whose every step a test can hold, break and count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from antiphon.engines.chunks import (
    CallDelta,
    Clause,
    End,
    EndReason,
    Fitted,
    Latents,
    PcmChunk,
    Segment,
    SpeechFrames,
    SpokenWords,
    StageError,
    TextDelta,
    Transcript,
    TranscriptDelta,
    Usage,
    Word,
)
from antiphon.engines.pipeline import ListenRequest, RecognizeRequest, TranscribeRequest
from antiphon.engines.pipelines.stages import CascadeStages
from antiphon.engines.speech.code2wav import DecodeRequest
from antiphon.engines.speech.talker import TalkRequest
from antiphon.engines.stage import StageClosed, StageFailure
from antiphon.engines.streams import Inbox, TaskStream
from antiphon.engines.text.request import GenerateRequest

RequestT = TypeVar("RequestT")
InT = TypeVar("InT")
OutT = TypeVar("OutT")

BROKEN = StageError("broken", "the part is broken")
RATE = 24_000


@dataclass
class Played(Generic[RequestT, InT, OutT]):
    """A stage that does ``work``; streams that are open are counted."""

    name: str
    work: Callable[[RequestT, Inbox[InT]], AsyncGenerator[OutT | End, None]]
    running: bool = False
    load_fails: bool = False

    def __post_init__(self) -> None:
        self.live: set[TaskStream[InT, OutT]] = set()
        self.requests: list[RequestT] = []

    async def start(self) -> None:
        if self.load_fails:
            raise StageFailure(BROKEN)
        self.running = True

    def open(self, request: RequestT) -> TaskStream[InT, OutT]:
        if not self.running:
            raise StageClosed(self.name)
        self.requests.append(request)
        stream = TaskStream[InT, OutT](
            self.name,
            lambda inbox: self.work(request, inbox),
            input_bound=2,
            output_bound=2,
            on_done=lambda end: self.live.discard(stream),
        )
        self.live.add(stream)
        return stream

    async def close(self) -> None:
        self.running = False
        for stream in tuple(self.live):
            stream.fail(StageClosed(self.name).error)
            await stream.wait_done()

    def statistics(self) -> Mapping[str, float]:
        return {"running": len(self.live), "opened": len(self.requests)}


class PlayedAr(Played[GenerateRequest, None, TextDelta | CallDelta | Fitted]):
    pass


class PlayedRecognizer(Played[RecognizeRequest, PcmChunk, TranscriptDelta | Transcript]):
    def transcribe(self, request: TranscribeRequest) -> TaskStream[PcmChunk, Segment]:
        raise NotImplementedError


class PlayedTalker(Played[TalkRequest, Clause, Latents]):
    voices = ("first", "second")

    def language(self, voice: str | None) -> str:
        return "en"


@dataclass
class Play:
    """What happens; every field can be changed until the stage gets there."""

    words: Sequence[str | CallDelta | Fitted] = (
        *("Hello", " there.", " How", " are", " you", " today?"),
    )
    end: End = field(default_factory=lambda: End(EndReason.COMPLETED, usage=Usage(output_tokens=6)))
    hold_text: Mapping[int, asyncio.Event] = field(default_factory=dict[int, asyncio.Event])
    """Before the word of this number an event is waited for."""

    fails: str = ""
    """Name of the stage that fails with :data:`BROKEN` where it would yield."""

    breaks: str = ""
    """Name of the stage that raises something unforeseen there."""

    clauses: list[str] = field(default_factory=list[str])
    """What the talker was given."""

    asked: list[GenerateRequest | TalkRequest] = field(
        default_factory=list[GenerateRequest | TalkRequest]
    )
    """What the model and the talker were asked for."""

    written: int = 0

    def stages(
        self,
        ar: type[PlayedAr] = PlayedAr,
        talker: type[PlayedTalker] = PlayedTalker,
    ) -> CascadeStages:
        return CascadeStages(
            vad=Played[ListenRequest, PcmChunk, SpeechFrames]("vad", self._listen),
            recognizer=PlayedRecognizer("recognizer", self._recognize),
            ar=ar("ar", self._write),
            talker=talker("talker", self._talk),
            code2wav=Played[DecodeRequest, Latents, SpokenWords | PcmChunk](
                "code2wav", self._sound
            ),
        )

    def _trip(self, name: str) -> None:
        if self.fails == name:
            raise StageFailure(BROKEN)
        if self.breaks == name:
            raise RuntimeError("a secret")

    async def _write(
        self, request: GenerateRequest, inbox: Inbox[None]
    ) -> AsyncGenerator[TextDelta | CallDelta | Fitted | End, None]:
        self.asked.append(request)
        for n, word in enumerate(self.words):
            if n in self.hold_text:
                await self.hold_text[n].wait()
            self._trip("ar")
            self.written += 1
            yield TextDelta(word, 1) if isinstance(word, str) else word
        yield self.end

    async def _talk(
        self, request: TalkRequest, inbox: Inbox[Clause]
    ) -> AsyncGenerator[Latents | End, None]:
        self.asked.append(request)
        async for clause in inbox:
            self._trip("talker")
            self.clauses.append(clause.text)
            frames = np.zeros((1, len(clause.text)), np.float32)
            yield Latents(frames, (Word(clause.text.strip(), 0.0, 10.0),))

    async def _sound(
        self, request: DecodeRequest, inbox: Inbox[Latents]
    ) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
        async for latents in inbox:
            self._trip("code2wav")
            yield SpokenWords(latents.words)
            yield PcmChunk(bytes(2 * latents.frames.shape[1]), RATE)

    async def _listen(
        self, request: ListenRequest, inbox: Inbox[PcmChunk]
    ) -> AsyncGenerator[SpeechFrames | End, None]:
        async for _ in inbox:
            yield SpeechFrames((1.0,))

    async def _recognize(
        self, request: RecognizeRequest, inbox: Inbox[PcmChunk]
    ) -> AsyncGenerator[TranscriptDelta | Transcript | End, None]:
        async for _ in inbox:
            pass
        yield Transcript("hello", 10)
