"""One answer of a chat, from the pipeline's reply to what its client is sent."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable

from starlette.responses import Response

from ..engines.chunks import CallDelta, End, EndReason, PcmChunk, StageError, TextDelta
from ..engines.pipeline import Reply, ReplyChunk
from .chat_events import Used, spoken_ms
from .chat_faults import Fault, fault
from .chat_out import Ending, Out, TooLong
from .sound import Sound

logger = logging.getLogger(__name__)

STOPPED = StageError("server_stopping", "The answer was stopped.", retry_after_ms=1000)

SILENT = StageError("response_timeout", "The model wrote nothing for too long.")


class Answer:
    """Passes a reply on, piece by piece, and sums up."""

    def __init__(
        self,
        reply: Reply,
        out: Out,
        *,
        sound: Sound | None,
        one_call: bool,
        heard_ms: float,
        keep: Callable[[str], int],
        ahead_ms: float,
        silent_seconds: float,
    ) -> None:
        """What becomes of a reply.

        ``sound``: the file it is said in, ``None`` for writing alone. ``one_call``: whether the
        first call is the only one. ``heard_ms``: of the recordings it answers. ``keep``: is told
        what was said aloud, and tells when that expires. ``ahead_ms``: see :meth:`_made`.
        ``silent_seconds``: how long the reply may have nothing new.
        """
        self._reply = reply
        self._out = out
        self._sound = sound
        self._one_call = one_call
        self._heard_ms = heard_ms
        self._keep = keep
        self._ahead_ms = ahead_ms
        self._silent_seconds = silent_seconds
        self._text: list[str] = []
        self._called = False

    async def give(self) -> Response | None:
        """Pass it on to its end; what is returned is to be sent in place of it.

        Raises:
            TimeoutError, OSError: the client does not read, or is gone.
        """
        items = aiter(self._reply)
        try:
            while not isinstance(item := await self._next(items), End):
                await self._take(item)
            if item.reason not in (EndReason.COMPLETED, EndReason.LENGTH):
                return await self._fail(fault(item.error or STOPPED))
            await self._end(item)
            return None
        except TooLong:
            return await self._fail(_too_long())

    async def _next(self, items: AsyncIterator[ReplyChunk | End]) -> ReplyChunk | End:
        try:
            async with asyncio.timeout(self._silent_seconds):
                return await anext(items)
        except TimeoutError:
            return End(EndReason.FAILED, SILENT)

    async def _take(self, item: ReplyChunk) -> None:
        match item:
            case TextDelta(text=text):
                self._text.append(text)
                await self._out.text(text)
            case CallDelta(index=index):
                self._called = True
                if index == 0 or not self._one_call:
                    await self._out.call(item)
            case PcmChunk(pcm=pcm) if self._sound is not None:
                await self._pass(await self._sound.feed(pcm))
                self._made(spoken_ms(self._sound.samples))
            case _:
                pass

    def _made(self, ms: float) -> None:
        """Have audio made as fast as it is taken, ranked as if the listener had some left.

        A reply that is told nothing is made as fast as it is heard, and this one goes into a
        file. Were all of it said to be heard, those who listen now would have to wait for it.
        """
        self._reply.played(max(0.0, ms - self._ahead_ms), math.inf)

    async def _end(self, end: End) -> None:
        expires_at = None
        samples = 0
        text = "".join(self._text)
        if self._sound is not None and text.strip():
            await self._pass(await self._sound.finish())
            samples = self._sound.samples
            expires_at = self._keep(text)
        if end.reason is EndReason.LENGTH:
            finish = "length"
        else:
            finish = "tool_calls" if self._called else "stop"
        used = Used(tokens=end.usage, heard_ms=self._heard_ms, spoken_ms=spoken_ms(samples))
        await self._out.end(Ending(finish=finish, used=used, expires_at=expires_at))

    async def _pass(self, data: bytes) -> None:
        if data:
            await self._out.sound(data)

    async def _fail(self, fault: Fault) -> Response | None:
        if fault.status >= 500:
            logger.warning("an answer ended early: %s", fault.code)
        return await self._out.fail(fault)


def _too_long() -> Fault:
    message = (
        "The audio of the answer is longer than what is sent in one piece: ask for it with "
        "stream, in another audio.format, or with fewer max_completion_tokens."
    )
    return Fault(status=400, code="audio_too_long", message=message, param="audio")
