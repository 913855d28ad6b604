"""The work on one utterance: text to a stream of the pipeline, its audio encoded to the core."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar, assert_never

from ..codecs.encode import Encoder, new_encoder
from ..codecs.loudness import Leveller
from ..codecs.opus import RATE
from ..codecs.pcm import SAMPLE_BYTES
from ..engines.chunks import End, EndReason, PcmChunk, SpokenWords, StageError
from ..engines.pipeline import Pipeline, SpeakRequest, Speech
from ..engines.stage import StageFailure
from ..sessions.errors import ErrorInfo
from . import speech_events as sp
from .voice_levels import VoiceLevels

logger = logging.getLogger(__name__)

T = TypeVar("T")

Tell: TypeAlias = Callable[[sp.FromWork], None]

INSTANT = frozenset({"pcm", "wav"})
"""Formats that cost a copy: they need no thread."""


class Speaking:
    """Speaks one utterance.

    Its end is told as one :class:`~.speech_events.WorkEnded`; nothing once it is cancelled.
    """

    def __init__(
        self,
        request: SpeakRequest,
        index: int,
        form: str,
        loudness: float | None,
        pipeline: Pipeline,
        levels: VoiceLevels,
        tell: Tell,
        room: Callable[[], Awaitable[None]],
    ) -> None:
        """``form``: of the audio. ``loudness``: LUFS, or ``None`` for the voice as it is.

        ``room``: returns once more of it may be made.
        """
        self._request = request
        self._index = index
        self._form = form
        self._loudness = loudness
        self._pipeline = pipeline
        self._levels = levels
        self._leveller: Leveller | None = None
        self._tell = tell
        self._room = room
        self._encoder: Encoder | None = None
        self._sound_ms = 0.0
        self._text: list[str] = []
        self._complete = False
        self._truncated = False
        self._readable = asyncio.Event()

    def hand(self, text: str) -> None:
        """Add text; bounded by the core, which counts that of an utterance."""
        self._text.append(text)
        self._readable.set()

    def end(self) -> None:
        """Note that the text is complete."""
        self._complete = True
        self._readable.set()

    async def run(self) -> None:
        """Speak to the end; when cancelled, leave nothing behind."""
        try:
            error = await self._speak()
        except StageFailure as failure:
            error = _told(failure.error)
        except Exception:
            logger.exception("speech %s failed", self._request.request_id)
            error = ErrorInfo("internal_error", "The speech failed.", type="server_error")
        finally:
            if self._encoder is not None:
                self._encoder.close()
        self._tell(sp.WorkEnded(self._index, error, self._truncated))

    async def _speak(self) -> ErrorInfo | None:
        if self._loudness is not None:
            level = await self._levels.of(self._request.voice)
            self._leveller = Leveller(self._loudness, level)
        stream = self._pipeline.speak(self._request)
        name = f"{self._request.request_id}-text"
        feeder = asyncio.get_running_loop().create_task(self._feed(stream), name=name)
        try:
            async for item in stream:
                match item:
                    case SpokenWords():
                        await self._words(item)
                    case PcmChunk():
                        await self._sound(item)
                    case End(reason=EndReason.COMPLETED | EndReason.LENGTH):
                        self._truncated = item.reason is EndReason.LENGTH
                        await self._finish()
                        return None
                    case End(error=error):
                        return _told(error or StageError("stage_stopped", "The speech stopped."))
                    case _:
                        assert_never(item)
        finally:
            feeder.cancel()
            stream.cancel()
        raise AssertionError("a stream ends with its end")

    async def _feed(self, stream: Speech) -> None:
        while True:
            while not self._text:
                if self._complete:
                    await stream.end()
                    return
                self._readable.clear()
                await self._readable.wait()
            text, self._text = "".join(self._text), []
            await stream.send(text)

    async def _words(self, spoken: SpokenWords) -> None:
        if self._encoder is None:
            await self._in_thread(self._begun)
        ms = self._lead_ms
        times = (sp.WordTime(w.text, w.start_ms + ms, w.end_ms + ms) for w in spoken.words)
        self._tell(sp.WordsKnown(self._index, tuple(times)))

    async def _sound(self, chunk: PcmChunk) -> None:
        data = await self._in_thread(lambda: self._begun().feed(chunk.pcm))
        self._sound_ms += len(chunk.pcm) / SAMPLE_BYTES / chunk.rate * 1000
        self._tell(sp.AudioMade(self._index, data, self._made_ms))
        await self._room()

    def _begun(self) -> Encoder:
        if self._encoder is None:
            self._encoder = new_encoder(self._form)
            self._encoder.shaper = self._leveller
        return self._encoder

    @property
    def _lead_ms(self) -> float:
        """Silence that the format puts ahead of the sound."""
        return 0.0 if self._encoder is None else self._encoder.lead_samples / RATE * 1000

    @property
    def _made_ms(self) -> float:
        return self._lead_ms + self._sound_ms

    async def _finish(self) -> None:
        encoder = self._encoder
        if encoder is not None and self._sound_ms > 0:
            data = await self._in_thread(encoder.finish)
            self._tell(sp.AudioMade(self._index, data, self._made_ms))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """As ``asyncio.to_thread``, but never returns while the thread is at it."""
        if self._form in INSTANT and self._leveller is None:
            return work()
        future = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            future.exception()
            raise


def _told(error: StageError) -> ErrorInfo:
    return ErrorInfo(
        error.code, error.message, type="server_error", retry_after_ms=error.retry_after_ms
    )
