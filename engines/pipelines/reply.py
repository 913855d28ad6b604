"""One reply of a cascade: text, speech of it and their times, joined into one stream.

Text and calls of functions are passed on as they are written. Each clause of the text
goes to the talker while the next is being written, and its latents to code2wav while
the talker is at the next clause. Nothing of a call is spoken. The first clause waits at
the gate until there is time for one more reply; its text goes on meanwhile, within bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import TypeAlias

from ..chunks import (
    CallDelta,
    Clause,
    End,
    Fitted,
    PcmChunk,
    TextDelta,
    Timings,
)
from ..flow import Flow
from ..pipeline import ReplyChunk, ReplyRequest
from ..speech.clauses import ClauseSplitter
from ..speech.talker import TalkRequest
from ..stage import StageStream
from ..text.request import GenerateRequest
from .gate import Gate
from .outlet import Outlet
from .speech import Mark, Spoken, Voicing, broken, require_completed
from .stages import CascadeStages

Text: TypeAlias = StageStream[None, TextDelta | CallDelta | Fitted]


def reply_chunks(
    stages: CascadeStages, request: ReplyRequest, flow: Flow, gate: Gate
) -> AsyncGenerator[ReplyChunk | End, None]:
    """Yield the reply's chunks and its ``End``; when closed, cancel all stages at once.

    Raises:
        StageFailure: the first failure of a stage; the others are cancelled then. Or
            ``overloaded``: there is no time for one more reply.
    """
    outlet = Outlet[ReplyChunk](flow)

    async def join() -> End:
        return await _Conductor(stages, request, flow, gate, outlet).join()

    return outlet.chunks(join, f"conduct-{request.request_id}")


class _Conductor:
    def __init__(
        self,
        stages: CascadeStages,
        request: ReplyRequest,
        flow: Flow,
        gate: Gate,
        outlet: Outlet[ReplyChunk],
    ) -> None:
        self._stages = stages
        self._request = request
        self._outlet = outlet
        asked = TalkRequest(request_id=request.request_id, voice=request.voice, speed=request.speed)
        self._voicing = Voicing(stages, asked, flow, gate, self._sounds)
        self._now = asyncio.get_running_loop().time
        self._timings = Timings(self._now())

    async def join(self) -> End:
        """Put every chunk into the outlet; return the ``End``."""
        text = self._open_text()
        try:
            if not self._request.speak:
                return await self._write(text)
            self._voicing.open()
            async with asyncio.TaskGroup() as tasks:
                written = tasks.create_task(self._write(text))
                tasks.create_task(self._voicing.run())
            return written.result()
        finally:
            text.cancel()
            self._voicing.close()

    async def _write(self, text: Text) -> End:
        splitter = ClauseSplitter()
        async for item in text:
            if isinstance(item, End):
                require_completed("ar", item)
                await self._say(*splitter.flush(), Mark.END)
                return item
            if self._timings.first_token_at is None and not isinstance(item, Fitted):
                self._timings = replace(self._timings, first_token_at=self._now())
            await self._outlet.put(item)
            if isinstance(item, TextDelta):
                await self._say(*splitter.feed(item.text))
            elif isinstance(item, CallDelta):
                # What was said ahead of a call can be heard while the call is written.
                await self._say(*splitter.flush())
        raise broken("ar")

    async def _say(self, *said: Clause | Mark) -> None:
        if not self._request.speak:
            return
        if self._timings.first_clause_at is None and any(isinstance(it, Clause) for it in said):
            self._timings = replace(self._timings, first_clause_at=self._now())
        await self._voicing.say(said)

    async def _sounds(self, item: Spoken) -> None:
        if not isinstance(item, PcmChunk) or self._timings.code2wav_at is not None:
            await self._outlet.put(item)
            return
        self._timings = replace(
            self._timings,
            admitted_at=self._voicing.admitted_at,
            talker_at=self._voicing.talker_at,
            code2wav_at=self._now(),
        )
        await self._outlet.put(self._timings, item)

    def _open_text(self) -> Text:
        asked = self._request
        return self._stages.ar.open(
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
