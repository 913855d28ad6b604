"""The route that answers chats, in writing and aloud, as OpenAI's clients ask."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..codecs.encode import EncoderMissing, new_encoder
from ..codecs.media import MediaMissing
from ..engines.deployment import Deployment
from ..engines.pipeline import Message, Pipeline, ReplyRequest
from ..engines.stage import StageFailure
from ..engines.tools import Truncation
from ..realtime.refusals import Refused
from ..sessions.errors import Refusal
from .bodies import TOO_SLOW, BodyTooLarge, read_body
from .chat_answer import Answer
from .chat_earlier import Earlier
from .chat_events import Calls, Envelope
from .chat_faults import fault
from .chat_hearing import Heard, Unheard, hear
from .chat_messages import Rules, recordings, with_heard
from .chat_out import Chunks, Line, Whole
from .chat_request import Asked, read_request
from .errors import bad_request, refusal
from .leaving import ClientLeft, while_here
from .sound import Sound

PATH = "/v1/chat/completions"


class ChatRoute:
    """Answers chats. An ASGI application, as only such can leave an answer incomplete."""

    def __init__(self, pipeline: Pipeline, deployment: Deployment) -> None:
        self._pipeline = pipeline
        self._deployment = deployment
        self._limits = deployment.limits
        self._earlier = Earlier()
        self._running = 0
        self._numbers = count(1)

    def routes(self) -> list[Route]:
        """The one route."""
        return [Route(PATH, self, methods=["POST"], name="chat")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request to its end, or until its client is gone."""
        refused: Response | None
        if self._running >= self._limits.sessions:
            refused = refusal(503, "overloaded", "Too many chats are answered.", retry_after_s=1)
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
            message = "The models are still loading; try again."
            return refusal(503, "server_starting", message, retry_after_s=1)
        try:
            asked = await self._read(request)
        except ClientDisconnect:
            return None
        except TimeoutError:
            return refusal(408, "request_timeout", TOO_SLOW)
        except BodyTooLarge:
            message = f"The body may have at most {self._body_bytes} bytes."
            return refusal(413, "request_too_large", message)
        except Refused as refused:
            return bad_request(refused.error)
        except Refusal as refused:
            return bad_request(refused.info(None))
        try:
            return await while_here(receive, self._answer(asked, send))
        except (ClientLeft, OSError, TimeoutError):
            # It left, now or while it was written to, or has read nothing for too long.
            return None

    @property
    def _body_bytes(self) -> int:
        """One recording of any size in base64, and half as much again of other things."""
        return self._limits.append_bytes * 3 // 2

    async def _read(self, request: Request) -> Asked:
        body = await read_body(request, self._body_bytes)
        rules = Rules(
            sees=self._pipeline.sees,
            recall=self._earlier.recall,
            messages=self._limits.items,
            text_chars=self._limits.text_chars,
            recording_bytes=self._limits.append_bytes,
        )
        voices = self._pipeline.voices
        # With recordings it is megabytes.
        return await asyncio.to_thread(read_request, body, voices=voices, rules=rules)

    async def _answer(self, asked: Asked, send: Send) -> Response | None:
        """Listen to what was said, and answer it."""
        name = f"chat-{next(self._numbers)}"
        sound = None
        try:
            if asked.aloud is not None:
                sound = Sound(await asyncio.to_thread(new_encoder, asked.aloud.form))
            heard = await self._hear(asked, name)
            return await self._reply(asked, heard, sound, name, send)
        except EncoderMissing:
            message = "audio.format: all but 'wav' and 'pcm16' need PyAV on the server."
            return refusal(501, "unsupported_value", message, param="audio.format")
        except Unheard as error:
            message = f"{error.param}: {error.error.message}"
            return refusal(400, error.error.code, message, param=error.param)
        except MediaMissing:
            message = "Recordings can't be read here: run `pip install 'antiphon[speech]'`."
            return refusal(501, "package_missing", message)
        except StageFailure as failure:
            return fault(failure.error).response()
        finally:
            if sound is not None:
                sound.close()

    async def _hear(self, asked: Asked, name: str) -> list[Heard]:
        """One recording after the other, so that one chat takes the turn of one."""
        quiet = self._limits.stage_timeout_seconds
        return [
            await hear(self._pipeline, recording, f"{name}-hear-{number}", quiet)
            for number, recording in enumerate(recordings(asked.turns))
        ]

    async def _reply(
        self, asked: Asked, heard: list[Heard], sound: Sound | None, name: str, send: Send
    ) -> Response | None:
        messages = self._with_instructions(with_heard(asked.turns, [each.text for each in heard]))
        aloud = asked.aloud
        audio_id = None if aloud is None else self._earlier.new_id()
        reply = self._pipeline.reply(
            ReplyRequest(
                request_id=name,
                messages=messages,
                speak=aloud is not None,
                voice=None if aloud is None else aloud.voice,
                max_tokens=asked.max_tokens,
                temperature=asked.temperature,
                tools=asked.tools,
                tool_choice=asked.tool_choice,
                # A client is to know that its messages are too long, as it can choose among them.
                truncation=Truncation(mode="disabled"),
            )
        )
        try:
            answer = Answer(
                reply,
                self._out(asked, audio_id, Line(send, self._limits.stalled_seconds)),
                sound=sound,
                one_call=asked.one_call,
                heard_ms=1000 * sum(each.seconds for each in heard),
                keep=lambda text: self._earlier.keep(audio_id or "", text),
                ahead_ms=self._deployment.pacing.lead_ms / 2,
                silent_seconds=self._limits.stage_timeout_seconds,
            )
            return await answer.give()
        finally:
            reply.cancel()

    def _with_instructions(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages, behind the deployment's instructions where they have none."""
        instructions = self._deployment.instructions
        if not instructions or any(each.role == "system" for each in messages):
            return messages
        return (Message("system", instructions), *messages)

    def _out(self, asked: Asked, audio_id: str | None, line: Line) -> Chunks | Whole:
        envelope = Envelope(
            id=f"chatcmpl-{uuid4().hex}",
            created=int(time.time()),
            model=self._deployment.model,
            include_usage=asked.include_usage,
        )
        calls = Calls(f"call_{uuid4().hex[:20]}")
        if asked.stream:
            return Chunks(line, envelope, calls, audio_id)
        return Whole(
            line,
            envelope,
            calls,
            audio_id=audio_id,
            form=None if asked.aloud is None else asked.aloud.form,
            most_bytes=self._limits.outgoing_bytes,
        )
