"""How the answer of a chat reaches its client: in chunks while it is made, or whole."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from dataclasses import dataclass
from typing import Protocol

from starlette.responses import Response
from starlette.types import Send

from ..codecs.wav import wav_header
from ..engines.chunks import CallDelta
from ..engines.pipeline import OUTPUT_RATE
from .chat_events import DONE, Calls, Envelope, Json, Pieces, Used, event
from .chat_faults import Fault

WRITE_BYTES = 64 * 1024
"""Of a whole answer, written at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an answer ends that has not failed."""

    finish: str
    """``stop``, ``length`` or ``tool_calls``."""

    used: Used
    expires_at: int | None = None
    """When what was said aloud can't be referred to any more; ``None`` where nothing was."""


class Line:
    """Writes one HTTP answer, and gives up a client that takes nothing."""

    def __init__(self, send: Send, stalled_seconds: float) -> None:
        self._send = send
        self._stalled_seconds = stalled_seconds
        self.begun = False

    async def begin(self, kind: str, length: int | None = None) -> None:
        """Send the head.

        Raises:
            TimeoutError, OSError: the client does not read, or is gone. As :meth:`write` does.
        """
        self.begun = True
        # Proxies are not to collect what is to be heard at once.
        headers = [
            (b"content-type", kind.encode()),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        async with asyncio.timeout(self._stalled_seconds):
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send more of the body, or the last of it."""
        async with asyncio.timeout(self._stalled_seconds):
            await self._send({"type": "http.response.body", "body": data, "more_body": more})


class Out(Protocol):
    """Takes an answer as it is made."""

    async def text(self, text: str) -> None:
        """More of what is written, or said aloud."""
        ...

    async def call(self, piece: CallDelta) -> None:
        """More of a call."""
        ...

    async def sound(self, data: bytes) -> None:
        """More of the audio file.

        Raises:
            TooLong: it is more than can be kept.
        """
        ...

    async def end(self, ending: Ending) -> None:
        """That was all."""
        ...

    async def fail(self, fault: Fault) -> Response | None:
        """There is no more. What is returned is to be sent in place of all of it."""
        ...


class TooLong(Exception):
    """The audio of an answer is longer than what is kept of one."""


class Chunks:
    """An :class:`Out` of server-sent events; the first of them is sent with the first piece."""

    def __init__(self, line: Line, envelope: Envelope, calls: Calls, audio_id: str | None) -> None:
        """``audio_id``: of an answer that is said aloud."""
        self._line = line
        self._envelope = envelope
        self._calls = calls
        self._aloud = audio_id is not None
        self._audio_id = audio_id
        self._pieces = Pieces()

    async def text(self, text: str) -> None:
        """Send it."""
        await self._send(self._audio({"transcript": text}) if self._aloud else {"content": text})

    async def call(self, piece: CallDelta) -> None:
        """Send it."""
        await self._send({"tool_calls": [self._calls.take(piece)]})

    async def sound(self, data: bytes) -> None:
        """Send it in whole samples."""
        if piece := self._pieces.feed(data):
            await self._send(self._audio({"data": piece}))

    async def end(self, ending: Ending) -> None:
        """Send what is left, why there is no more, and what it took."""
        if piece := self._pieces.feed(b"", last=True):
            await self._send(self._audio({"data": piece}))
        if ending.expires_at is not None:
            await self._send({"audio": {"expires_at": ending.expires_at}})
        await self._send({}, ending.finish)
        if self._envelope.include_usage:
            await self._line.write(self._envelope.used(ending.used))
        await self._line.write(DONE, more=False)

    async def fail(self, fault: Fault) -> Response | None:
        """Send it as the last event, if there were others."""
        if not self._line.begun:
            return fault.response()
        await self._line.write(event(fault.body()), more=False)
        return None

    def _audio(self, told: Json) -> Json:
        # Once only: clients join what several chunks have under one name.
        audio_id, self._audio_id = self._audio_id, None
        return {"audio": told if audio_id is None else {"id": audio_id, **told}}

    async def _send(self, delta: Json, finish: str | None = None) -> None:
        if not self._line.begun:
            await self._line.begin("text/event-stream")
            await self._line.write(self._envelope.first(aloud=self._aloud))
        await self._line.write(self._envelope.delta(delta, finish))


class Whole:
    """An :class:`Out` of one JSON object, sent when all of it is there."""

    def __init__(
        self,
        line: Line,
        envelope: Envelope,
        calls: Calls,
        *,
        audio_id: str | None,
        form: str | None,
        most_bytes: int,
    ) -> None:
        """``form`` of the file, and ``most_bytes`` that it may have."""
        self._line = line
        self._envelope = envelope
        self._calls = calls
        self._audio_id = audio_id
        self._form = form
        self._most_bytes = most_bytes
        self._text: list[str] = []
        self._file = bytearray()

    async def text(self, text: str) -> None:
        """Keep it."""
        self._text.append(text)

    async def call(self, piece: CallDelta) -> None:
        """Keep it."""
        self._calls.take(piece)

    async def sound(self, data: bytes) -> None:
        """Keep it, up to the bound."""
        self._file += data
        if len(self._file) > self._most_bytes:
            raise TooLong

    async def end(self, ending: Ending) -> None:
        """Send all of it."""
        # Megabytes, where it has audio.
        body = await asyncio.to_thread(self._body, ending)
        await self._line.begin("application/json", len(body))
        for start in range(0, len(body), WRITE_BYTES):
            more = start + WRITE_BYTES < len(body)
            await self._line.write(body[start : start + WRITE_BYTES], more=more)

    async def fail(self, fault: Fault) -> Response | None:
        """Nothing was sent."""
        return fault.response()

    def _body(self, ending: Ending) -> bytes:
        text = "".join(self._text)
        aloud = ending.expires_at is not None
        quiet = aloud or (self._calls and not text)
        message: Json = {
            "role": "assistant",
            "content": None if quiet else text,
            "refusal": None,
        }
        if self._calls:
            message["tool_calls"] = self._calls.json()
        if aloud:
            message["audio"] = {
                "id": self._audio_id,
                "data": b64encode(self._whole_file()).decode(),
                "expires_at": ending.expires_at,
                "transcript": text,
            }
        return self._envelope.whole(message, ending.finish, ending.used)

    def _whole_file(self) -> bytes:
        if self._form != "wav":
            return bytes(self._file)
        # Made while its length was not known, which now it is.
        unknown = len(wav_header(OUTPUT_RATE, None))
        samples = self._file[unknown:]
        return wav_header(OUTPUT_RATE, len(samples)) + samples
