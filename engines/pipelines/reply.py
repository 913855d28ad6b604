"""One reply of a cascade: text, speech of it and their times, joined into one stream.

Text and calls of functions are passed on as they are written. Each clause of the text
goes to the talker while the next is being written, and its latents to code2wav while
the talker is at the next clause. Nothing of a call is spoken. The first clause waits at
the gate until there is time for one more reply; its text goes on meanwhile, within bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from ..chunks import (
    CallDelta,
    Clause,
    End,
    EndReason,
    Fitted,
    Latents,
    PcmChunk,
    SpokenWords,
    StageError,
    TextDelta,
    Timings,
)
from ..flow import Flow
from ..pipeline import ReplyChunk, ReplyRequest
from ..speech.clauses import ClauseSplitter
from ..speech.code2wav import DecodeRequest
from ..speech.talker import TalkRequest
from ..stage import StageFailure, StageStream
from ..text.request import GenerateRequest
from .gate import Gate
from .stages import CascadeStages

CLAUSES_AHEAD = 1
"""Clauses written and not yet at the talker; beyond that the text waits for it. It has one
being spoken, and the next."""

Text: TypeAlias = StageStream[None, TextDelta | CallDelta | Fitted]
Talk: TypeAlias = StageStream[Clause, Latents]
Sound: TypeAlias = StageStream[Latents, SpokenWords | PcmChunk]


async def reply_chunks(
    stages: CascadeStages, request: ReplyRequest, flow: Flow, gate: Gate
) -> AsyncGenerator[ReplyChunk | End, None]:
    """Yield the reply's chunks and its ``End``; when closed, cancel all stages at once.

    Raises:
        StageFailure: the first failure of a stage; the others are cancelled then. Or
            ``overloaded``: there is no time for one more reply.
    """
    conductor = _Conductor(stages, request, flow, gate)
    # The stages are joined in a task of their own: where this generator stops to hand
    # out a chunk, a task group around it could neither be cancelled nor report.
    task = asyncio.create_task(conductor.run(), name=f"conduct-{request.request_id}")
    try:
        while True:
            item = await conductor.out.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        task.cancel()
        await asyncio.wait([task])


class _Conductor:
    def __init__(
        self, stages: CascadeStages, request: ReplyRequest, flow: Flow, gate: Gate
    ) -> None:
        # One chunk only, because the bound is kept by the stream that reads this.
        self.out: asyncio.Queue[ReplyChunk | End | BaseException] = asyncio.Queue(1)
        self._putting = asyncio.Lock()
        self._stages = stages
        self._request = request
        self._flow = flow
        self._place = gate.place()
        self._clauses: asyncio.Queue[Clause | None] = asyncio.Queue(CLAUSES_AHEAD)
        """Ahead of the talker; ``None`` is the end."""

        self._now = asyncio.get_running_loop().time
        self._timings = Timings(self._now())
        self._opened: list[StageStream[Any, Any]] = []

    async def run(self) -> None:
        """Put every chunk into ``out``, last the ``End`` or the exception in its place."""
        try:
            end: End | BaseException = await self._join()
        except Exception as error:
            end = first_error(error)
        finally:
            self._place.leave()
            for stream in self._opened:
                stream.cancel()
        await self.out.put(end)

    async def _join(self) -> End:
        text = self._open_text()
        if not self._request.speak:
            return await self._write(text)
        talk, sound = self._open_talk(), self._open_sound()
        async with asyncio.TaskGroup() as tasks:
            written = tasks.create_task(self._write(text))
            tasks.create_task(self._speak(talk))
            tasks.create_task(self._talk(talk, sound))
            tasks.create_task(self._sound(sound))
        return written.result()

    async def _write(self, text: Text) -> End:
        splitter = ClauseSplitter()
        async for item in text:
            if isinstance(item, End):
                _require_completed("ar", item)
                await self._say(splitter.flush())
                await self._say([None])
                return item
            if self._timings.first_token_at is None and not isinstance(item, Fitted):
                self._timings = replace(self._timings, first_token_at=self._now())
            await self._put(item)
            if isinstance(item, TextDelta):
                await self._say(splitter.feed(item.text))
            elif isinstance(item, CallDelta):
                # What was said ahead of a call can be heard while the call is written.
                await self._say(splitter.flush())
        raise _broken("ar")

    async def _say(self, clauses: Sequence[Clause | None]) -> None:
        if not self._request.speak:
            return
        for clause in clauses:
            if clause is not None and self._timings.first_clause_at is None:
                self._timings = replace(self._timings, first_clause_at=self._now())
            await self._clauses.put(clause)

    async def _speak(self, talk: Talk) -> None:
        while (clause := await self._clauses.get()) is not None:
            if self._timings.admitted_at is None:
                await self._place.enter(self._flow)
                self._flow.begin()
                self._timings = replace(self._timings, admitted_at=self._now())
            self._flow.asked()
            await talk.send(clause)
        await talk.end()

    async def _talk(self, talk: Talk, sound: Sound) -> None:
        async for item in talk:
            if isinstance(item, End):
                _require_completed("talker", item)
                self._flow.spoken_all()
                await sound.end()
                return
            if self._timings.talker_at is None:
                self._timings = replace(self._timings, talker_at=self._now())
            if item.last:
                self._flow.answered()
            await sound.send(item)

    async def _sound(self, sound: Sound) -> None:
        async for item in sound:
            if isinstance(item, End):
                _require_completed("code2wav", item)
                self._place.leave()
                return
            if isinstance(item, PcmChunk) and self._timings.code2wav_at is None:
                self._timings = replace(self._timings, code2wav_at=self._now())
                await self._put(self._timings, item)
            else:
                await self._put(item)

    async def _put(self, *items: ReplyChunk) -> None:
        """Hand on, with nothing of another task between them."""
        with self._flow.handing_over():
            async with self._putting:
                for item in items:
                    await self.out.put(item)

    def _open_text(self) -> Text:
        asked = self._request
        stream = self._stages.ar.open(
            GenerateRequest(
                request_id=asked.request_id,
                messages=asked.messages,
                max_tokens=asked.max_tokens,
                temperature=asked.temperature,
                tools=asked.tools,
                tool_choice=asked.tool_choice,
                truncation=asked.truncation,
            )
        )
        self._opened.append(stream)
        return stream

    def _open_talk(self) -> Talk:
        asked = self._request
        stream = self._stages.talker.open(
            TalkRequest(
                request_id=asked.request_id,
                voice=asked.voice,
                speed=asked.speed,
                flow=self._flow,
            )
        )
        self._opened.append(stream)
        return stream

    def _open_sound(self) -> Sound:
        stream = self._stages.code2wav.open(
            DecodeRequest(request_id=self._request.request_id, flow=self._flow)
        )
        self._opened.append(stream)
        return stream


def _require_completed(stage: str, end: End) -> None:
    if end.reason not in (EndReason.COMPLETED, EndReason.LENGTH):
        raise StageFailure(end.error) if end.error else _broken(stage)


def _broken(stage: str) -> StageFailure:
    return StageFailure(StageError("stage_stopped", f"the {stage} stage stopped", 1000))


def first_error(error: BaseException) -> BaseException:
    """The error itself, or the first of those in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
