"""The route that speaks a text: audio leaves as soon as the first of it is made."""

from __future__ import annotations

import asyncio
import logging
import math
from base64 import b64encode
from contextlib import suppress
from itertools import count

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..codecs.encode import EncoderMissing, new_encoder
from ..codecs.loudness import Leveller
from ..engines.chunks import End, EndReason, PcmChunk, SpokenWords, StageError
from ..engines.deployment import Limits
from ..engines.pipeline import OUTPUT_RATE, Pipeline, SpeakRequest, Speech
from ..engines.stage import StageFailure
from ..realtime.refusals import Refused
from ..realtime.voice_levels import VoiceLevels
from ..sessions.errors import Refusal
from .bodies import TOO_SLOW, BodyTooLarge, read_body
from .errors import bad_request, envelope, refusal
from .leaving import ClientLeft, while_here
from .sound import Sound
from .speech_request import Asked, body_bytes, read_request

logger = logging.getLogger(__name__)

PATH = "/v1/audio/speech"

STOPPED = StageError("server_stopping", "The speech was stopped.", retry_after_ms=1000)


class SpeechRoute:
    """Speaks texts. An ASGI application, as only such can leave an answer incomplete."""

    def __init__(
        self, pipeline: Pipeline, limits: Limits, levels: VoiceLevels | None = None
    ) -> None:
        """``limits``: those on text, on writes that stall, and on how many are spoken at once.

        ``levels``: of the pipeline's voices, where others need them too.
        """
        self._pipeline = pipeline
        self._limits = limits
        self._levels = levels or VoiceLevels(pipeline)
        self._running = 0
        self._numbers = count(1)

    def routes(self) -> list[Route]:
        """The one route."""
        return [Route(PATH, self, methods=["POST"], name="speech")]

    @staticmethod
    def prepare() -> None:
        """Load what encoding needs, so that the first request need not; not on an event loop."""
        with suppress(EncoderMissing):
            new_encoder("mp3").close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request to its end, or until its client is gone."""
        refused: Response | None
        if self._running >= self._limits.sessions:
            refused = refusal(503, "overloaded", "Too much is being spoken.", retry_after_s=1)
        else:
            self._running += 1
            try:
                refused = await self._serve(Request(scope, receive), receive, send)
            finally:
                self._running -= 1
        if refused is not None:
            await refused(scope, receive, send)

    async def _serve(self, request: Request, receive: Receive, send: Send) -> Response | None:
        """Answer, or return why not."""
        if not self._pipeline.readiness.ready:
            # Voices are known once the models are loaded.
            message = "The models are still loading; try again."
            return refusal(503, "server_starting", message, retry_after_s=1)
        try:
            asked = await self._read(request)
        except ClientDisconnect:
            return None
        except TimeoutError:
            return refusal(408, "request_timeout", TOO_SLOW)
        except BodyTooLarge:
            most = body_bytes(self._limits.speech_chars) // 1024
            return refusal(413, "request_too_large", f"The body may have at most {most} KiB.")
        except Refused as refused:
            return bad_request(refused.error)
        except Refusal as refused:
            return bad_request(refused.info(None))
        try:
            encoder = await asyncio.to_thread(new_encoder, asked.form)
        except EncoderMissing:
            message = (
                f"response_format '{asked.form}' needs PyAV on the server: use 'wav' or 'pcm'."
            )
            return refusal(501, "unsupported_value", message, param="response_format")
        try:
            speech = self._pipeline.speak(
                SpeakRequest(
                    request_id=f"speech-{next(self._numbers)}",
                    voice=asked.voice,
                    speed=asked.speed,
                )
            )
        except StageFailure as failure:
            encoder.close()
            return failed(failure.error)
        answer = _Answer(
            asked, speech, Sound(encoder), self._levels, send, self._limits.stalled_seconds
        )
        return await answer.give(receive)

    async def _read(self, request: Request) -> Asked:
        chars = self._limits.speech_chars
        body = await read_body(request, body_bytes(chars))
        return read_request(body, voices=self._pipeline.voices, chars=chars)


class _Answer:
    """One speech on its way to one client."""

    def __init__(
        self,
        asked: Asked,
        speech: Speech,
        file: Sound,
        levels: VoiceLevels,
        send: Send,
        stalled_seconds: float,
    ) -> None:
        self._asked = asked
        self._speech = speech
        self._file = file
        self._levels = levels
        self._send = send
        self._stalled_seconds = stalled_seconds
        self._started = False
        self._words = 0

    async def give(self, receive: Receive) -> Response | None:
        """Speak until all is sent or the client is gone; return a refusal if nothing was sent.

        What is not complete is left so, which closes the connection: a client must be able to
        tell a short file from a whole one.
        """
        try:
            return await while_here(receive, self._speak())
        except (ClientLeft, OSError, TimeoutError):
            # It left, now or while it was written to, or has read nothing for too long.
            return None
        finally:
            self._speech.cancel()
            self._file.close()

    async def _speak(self) -> Response | None:
        if (loudness := self._asked.loudness) is not None:
            level = await self._levels.of(self._asked.voice)
            self._file.encoder.shaper = Leveller(loudness, level)
        await self._speech.send(self._asked.text)
        await self._speech.end()
        async for item in self._speech:
            match item:
                case End():
                    return await self._end(item)
                case SpokenWords():
                    await self._tell(item)
                case PcmChunk():
                    await self._sound(await self._file.feed(item.pcm))
        return None

    async def _end(self, end: End) -> Response | None:
        if end.reason not in (EndReason.COMPLETED, EndReason.LENGTH):
            return await self._fail(end.error or STOPPED)
        await self._sound(await self._file.finish())
        if self._asked.events:
            heard = len(self._asked.text.split())
            usage = {
                "input_tokens": heard,
                "output_tokens": self._words,
                "total_tokens": heard + self._words,
            }
            done: dict[str, object] = {"type": "speech.audio.done", "usage": usage}
            if end.reason is EndReason.LENGTH:
                # The model did not come to an end: some of the text may be missing.
                done["truncated"] = True
            await self._event(done)
        await self._write(b"", more=False)
        return None

    async def _fail(self, error: StageError) -> Response | None:
        if not self._started:
            return failed(error)
        logger.warning("a speech ended early: %s", error.code)
        if self._asked.events:
            told = envelope(
                error.message, "server_error", error.code, retry_after_ms=error.retry_after_ms
            )
            await self._event({"type": "error", **told})
            await self._write(b"", more=False)
        return None

    async def _tell(self, spoken: SpokenWords) -> None:
        self._words += len(spoken.words)
        if not self._asked.words or not spoken.words:
            return
        lead_ms = self._file.encoder.lead_samples * 1000 / OUTPUT_RATE
        words = [
            {
                "word": word.text,
                "start": round((word.start_ms + lead_ms) / 1000, 3),
                "end": round((word.end_ms + lead_ms) / 1000, 3),
            }
            for word in spoken.words
        ]
        await self._event({"type": "speech.audio.words", "words": words})

    async def _sound(self, data: bytes) -> None:
        if not data:
            return
        if self._asked.events:
            await self._event({"type": "speech.audio.delta", "audio": b64encode(data).decode()})
        else:
            await self._write(data)

    async def _event(self, event: dict[str, object]) -> None:
        await self._write(b"data: " + msgspec.json.encode(event) + b"\n\n")

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._stalled_seconds):
            if not self._started:
                self._started = True
                await self._send(
                    {"type": "http.response.start", "status": 200, "headers": self._headers()}
                )
            await self._send({"type": "http.response.body", "body": data, "more_body": more})

    def _headers(self) -> list[tuple[bytes, bytes]]:
        kind = "text/event-stream" if self._asked.events else self._file.encoder.content_type
        # Proxies are not to collect what is to be heard at once.
        return [
            (b"content-type", kind.encode()),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]


def failed(error: StageError) -> Response:
    """Return the answer to a request that a stage could not serve, ahead of any audio."""
    if error.code == "voice_unknown":
        return refusal(400, "invalid_value", f"voice: {error.message}.", param="voice")
    if error.code == "speed_unsupported":
        return refusal(400, "invalid_value", f"{error.message}.", param="speed")
    if error.retry_after_ms is None:
        return refusal(500, error.code, error.message)
    return refusal(
        503, error.code, error.message, retry_after_s=math.ceil(error.retry_after_ms / 1000)
    )
