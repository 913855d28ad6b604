"""One reply of a cascade: text, speech of it and their times, joined into one stream.

Text and calls of functions are passed on as they are written. Each clause of the text
goes to the talker while the next is being written, and its latents to code2wav while
the talker is at the next clause. Nothing of a call is spoken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
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
from .stages import CascadeStages

Text: TypeAlias = StageStream[None, TextDelta | CallDelta | Fitted]
Talk: TypeAlias = StageStream[Clause, Latents]
Sound: TypeAlias = StageStream[Latents, SpokenWords | PcmChunk]


async def reply_chunks(
    stages: CascadeStages, request: ReplyRequest, flow: Flow
) -> AsyncGenerator[ReplyChunk | End, None]:
    """Yield the reply's chunks and its ``End``; when closed, cancel all stages at once.

    Raises:
        StageFailure: the first failure of a stage; the others are cancelled then.
    """
    conductor = _Conductor(stages, request, flow)
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
    def __init__(self, stages: CascadeStages, request: ReplyRequest, flow: Flow) -> None:
        # One chunk only, because the bound is kept by the stream that reads this.
        self.out: asyncio.Queue[ReplyChunk | End | BaseException] = asyncio.Queue(1)
        self._stages = stages
        self._request = request
        self._flow = flow
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
            for stream in self._opened:
                stream.cancel()
        await self.out.put(end)

    async def _join(self) -> End:
        text = self._open_text()
        if not self._request.speak:
            return await self._write(text, None)
        talk, sound = self._open_talk(), self._open_sound()
        async with asyncio.TaskGroup() as tasks:
            written = tasks.create_task(self._write(text, talk))
            tasks.create_task(self._talk(talk, sound))
            tasks.create_task(self._sound(sound))
        return written.result()

    async def _write(self, text: Text, talk: Talk | None) -> End:
        splitter = ClauseSplitter()
        async for item in text:
            if isinstance(item, End):
                _require_completed("ar", item)
                await self._say(talk, splitter.flush())
                if talk is not None:
                    await talk.end()
                return item
            if self._timings.first_token_at is None and not isinstance(item, Fitted):
                self._timings = replace(self._timings, first_token_at=self._now())
            await self.out.put(item)
            if isinstance(item, TextDelta):
                await self._say(talk, splitter.feed(item.text))
            elif isinstance(item, CallDelta):
                # What was said ahead of a call can be heard while the call is written.
                await self._say(talk, splitter.flush())
        raise _broken("ar")

    async def _say(self, talk: Talk | None, clauses: list[Clause]) -> None:
        if talk is None:
            return
        for clause in clauses:
            if self._timings.first_clause_at is None:
                self._timings = replace(self._timings, first_clause_at=self._now())
            await talk.send(clause)

    async def _talk(self, talk: Talk, sound: Sound) -> None:
        async for item in talk:
            if isinstance(item, End):
                _require_completed("talker", item)
                await sound.end()
                return
            if self._timings.talker_at is None:
                self._timings = replace(self._timings, talker_at=self._now())
            await sound.send(item)

    async def _sound(self, sound: Sound) -> None:
        async for item in sound:
            if isinstance(item, End):
                _require_completed("code2wav", item)
                return
            if isinstance(item, PcmChunk) and self._timings.code2wav_at is None:
                self._timings = replace(self._timings, code2wav_at=self._now())
                await self.out.put(self._timings)
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
