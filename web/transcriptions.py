"""The routes that transcribe and translate recordings."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..codecs.media import MediaError, MediaMissing
from ..engines.chunks import End, EndReason, Segment, StageError
from ..engines.deployment import Limits
from ..engines.pipeline import Pipeline
from ..engines.pipelines.absent import NO_RECOGNIZER
from ..engines.stage import StageFailure
from .errors import envelope, refusal, sentence
from .leaving import NOBODY, ClientLeft, LiveResponse, while_here
from .transcription_form import Asked, parse_form
from .transcripts import Transcribed, as_body, delta_event, done_event, sse
from .uploads import BadForm, Upload, feed, read_upload

AT_ONCE = 16
"""Uploads and transcriptions under way; more are refused before their body is read."""


_PARAMS = {"unsupported_language": "language", "cannot_translate": "model", "invalid_audio": "file"}
"""Fields that failures of the recognizer are about."""


class TranscriptionRoutes:
    """Reads forms with files, and tells what is said in them."""

    def __init__(self, pipeline: Pipeline, limits: Limits) -> None:
        self._pipeline = pipeline
        self._limits = limits
        self._running = 0

    def routes(self) -> list[Route]:
        """The two routes."""
        served = {"transcriptions": self._transcribe, "translations": self._translate}
        return [
            Route(f"/v1/audio/{name}", endpoint, methods=["POST"])
            for name, endpoint in served.items()
        ]

    @property
    def running(self) -> int:
        """How many are under way."""
        return self._running

    async def _transcribe(self, request: Request) -> Response:
        return await self._serve(request, translate=False)

    async def _translate(self, request: Request) -> Response:
        return await self._serve(request, translate=True)

    async def _serve(self, request: Request, *, translate: bool) -> Response:
        if not self._pipeline.readiness.ready:
            message = "The models are still loading; try again."
            return refusal(503, "server_starting", message, retry_after_s=1)
        if self._running >= AT_ONCE:
            message = f"{AT_ONCE} recordings are being transcribed; try again."
            return refusal(503, "overloaded", message, retry_after_s=2)
        self._running += 1
        job = _Job(self._pipeline, self._limits, self._gone)
        try:
            return await job.answer(request, translate=translate)
        except (ClientLeft, ClientDisconnect):
            return Response(status_code=NOBODY)
        finally:
            # A stream goes on, and ends by itself.
            if not job.streams:
                await job.close()

    def _gone(self) -> None:
        self._running -= 1


class _Job:
    """One recording, from its form to the answer."""

    def __init__(self, pipeline: Pipeline, limits: Limits, on_closed: Callable[[], None]) -> None:
        self._pipeline = pipeline
        self._limits = limits
        self._on_closed = on_closed
        self._upload: Upload | None = None
        self._segments_open: AsyncGenerator[Segment, None] | None = None
        self._closed = False
        self.streams = False
        """Whether the answer, once sent, closes the job."""

    async def answer(self, request: Request, *, translate: bool) -> Response:
        """Read the request and answer it.

        Raises:
            ClientLeft, ClientDisconnect: the client is gone.
        """
        try:
            self._upload = upload = await read_upload(request, self._limits.upload_bytes)
            asked = parse_form(upload, f"transcribe-{uuid4().hex[:12]}", translate=translate)
            done = Transcribed(
                "translate" if translate else "transcribe", asked.request.temperature
            )
            if asked.stream:
                answer = await while_here(request.receive, self._stream(asked, done))
                self.streams = True
                return answer
            return await while_here(request.receive, self._whole(asked, done))
        except (BadForm, MediaError, MediaMissing, StageFailure) as error:
            return _refused(error)

    async def close(self) -> None:
        """Let go of everything. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._segments_open is not None:
                await self._segments_open.aclose()
            if self._upload is not None:
                await self._upload.close()
        finally:
            self._on_closed()

    async def _whole(self, asked: Asked, done: Transcribed) -> Response:
        async with aclosing(self._segments(asked, done)) as segments:
            async for segment in segments:
                done.add(segment)
        # Of hours it takes a while.
        body, kind = await asyncio.to_thread(
            as_body,
            done,
            asked.form,
            words=asked.words,
            segments=asked.segments,
            logprobs=asked.logprobs,
        )
        return Response(body, media_type=kind)

    async def _stream(self, asked: Asked, done: Transcribed) -> Response:
        """Answer with events; what fails before the first is still a proper refusal."""
        self._segments_open = segments = self._segments(asked, done)
        begun = await anext(segments, None)
        events = self._events(begun, segments, asked, done)
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return _Events(events, self.close, headers, self._limits.stalled_seconds)

    async def _events(
        self,
        begun: Segment | None,
        segments: AsyncGenerator[Segment, None],
        asked: Asked,
        done: Transcribed,
    ) -> AsyncGenerator[bytes, None]:
        try:
            if begun is not None:
                yield sse(delta_event(done.add(begun), begun, logprobs=asked.logprobs))
            async for segment in segments:
                yield sse(delta_event(done.add(segment), segment, logprobs=asked.logprobs))
            yield sse(done_event(done, logprobs=asked.logprobs))
        except (MediaError, StageFailure) as error:
            yield sse(_told(error))

    async def _segments(self, asked: Asked, done: Transcribed) -> AsyncGenerator[Segment, None]:
        """Yield what is said while the file is decoded.

        Raises:
            MediaError, MediaMissing: the file gives no audio, or none any more.
            StageFailure: the recognizer can't serve it.
        """
        assert self._upload is not None
        await self._upload.open()
        stream = self._pipeline.transcribe(asked.request)
        feeding = asyncio.ensure_future(feed(self._upload, stream, done))
        try:
            async for chunk in stream:
                if isinstance(chunk, Segment):
                    yield chunk
                elif chunk.reason is not EndReason.COMPLETED and not feeding.done():
                    raise StageFailure(chunk.error or _STOPPED)
                else:
                    await feeding
                    _check(chunk)
        finally:
            stream.cancel()
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


_STOPPED = StageError("cancelled", "The transcription was stopped.")


def _check(end: End) -> None:
    if end.reason is not EndReason.COMPLETED:
        raise StageFailure(end.error or _STOPPED)


class _Events(LiveResponse):
    """Events of a job, which is closed when they are over."""

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        close: Callable[[], Awaitable[None]],
        headers: Mapping[str, str],
        stall_seconds: float,
    ) -> None:
        super().__init__(events, "text/event-stream", headers, stall_seconds=stall_seconds)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._close()


Failure = BadForm | MediaError | MediaMissing | StageFailure


def _refused(error: Failure) -> Response:
    if isinstance(error, BadForm):
        return refusal(error.status, error.code, error.message, param=error.param)
    if isinstance(error, MediaError):
        return refusal(400, error.code, error.message, param="file")
    if isinstance(error, MediaMissing):
        message = "Audio files can't be read here: run `pip install 'antiphon[speech]'`."
        return refusal(501, "package_missing", message)
    failure = error.error
    if failure.code in _PARAMS:
        return refusal(400, failure.code, failure.message, param=_PARAMS[failure.code])
    if failure.code == NO_RECOGNIZER.code:
        # Not 5xx: clients repeat those by themselves, with the whole upload.
        return refusal(400, failure.code, sentence(failure))
    if failure.retry_after_ms is not None:
        seconds = math.ceil(failure.retry_after_ms / 1000)
        return refusal(503, failure.code, failure.message, retry_after_s=seconds)
    return refusal(500, failure.code, failure.message)


def _told(error: MediaError | StageFailure) -> dict[str, object]:
    """What a stream says of a failure; clients raise it."""
    if isinstance(error, MediaError):
        told = envelope(error.message, "invalid_request_error", error.code, param="file")
    else:
        failure = error.error
        told = envelope(
            failure.message, "server_error", failure.code, retry_after_ms=failure.retry_after_ms
        )
    return {"type": "error", **told}
