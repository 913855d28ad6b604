"""Speech and text made by a server that runs: its HTTP endpoints, without any other package."""

from __future__ import annotations

import asyncio
import http.client
import select
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from ...engines.pipeline import TranscribeRequest, VoiceCard
from ..demo_server import Address
from .embedded import open_file
from .errors import CommandError

CONNECT_SECONDS = 10.0

SPEECH_SECONDS = 120.0
"""The server may be silent for so long while a text is spoken."""

READING_SECONDS = 3600.0
"""And for so long while a recording is read: sessions come first."""

PIECE_BYTES = 1 << 16
LINE_BYTES = 1 << 24
"""Of one event, at most."""

ERROR_BYTES = 1 << 20
BODY_BYTES = 1 << 28
"""Of a whole transcript, at most: many days of speech."""

T = TypeVar("T")


class _Problem(msgspec.Struct):
    message: str | None = None


class _Failure(msgspec.Struct):
    error: _Problem | None = None


class _Event(_Failure):
    type: str = ""
    delta: str = ""


class _VoiceIn(msgspec.Struct):
    name: str | None = None
    id: str | None = None
    language: str | None = None
    description: str | None = None
    alias_of: str | None = None


class _VoicesIn(msgspec.Struct):
    """A list of voices, under either of the names that servers have for it."""

    data: list[_VoiceIn] = []
    voices: list[str | _VoiceIn] = []


class RemoteServer:
    """A server, and the key for it."""

    def __init__(self, address: Address, key: str | None) -> None:
        self._address = address
        self._key = key

    async def voices(self) -> list[VoiceCard]:
        """What can be asked for, the default one first.

        Raises:
            CommandError: the server can't be asked, or does not tell.
        """
        call = self._call(CONNECT_SECONDS)
        try:
            answer = await call.ask("GET", "/v1/audio/voices", {}, [])
            body = await call.thread(_whole, answer)
        finally:
            call.close()
        told = _decoded(body, _VoicesIn)
        found = [] if told is None else told.data or told.voices
        cards = [_voice_card(each) for each in found if not _is_alias(each)]
        if not cards:
            raise CommandError("the server does not list its voices")
        return cards

    async def speak(
        self, text: str, voice: str | None, speed: float, loudness: float | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield speech as it comes: s16le mono, 24 kHz. ``loudness``: LUFS.

        Raises:
            CommandError: the server refuses, or stops on the way.
        """
        asked: dict[str, object] = {
            "model": "tts-1",
            "input": text,
            "response_format": "pcm",
            "speed": speed,
        }
        if voice is not None:
            asked["voice"] = voice
        if loudness is not None:
            asked["loudness"] = loudness
        body = msgspec.json.encode(asked)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        call = self._call(SPEECH_SECONDS)
        try:
            answer = await call.ask("POST", "/v1/audio/speech", headers, [body])
            half = b""
            while piece := await call.thread(answer.read1, PIECE_BYTES):
                # Pieces of a body may end anywhere, also within a sample.
                pcm = half + piece
                half = pcm[len(pcm) - len(pcm) % 2 :]
                yield pcm[: len(pcm) - len(half)]
        finally:
            call.close()

    async def transcribe(
        self, path: Path, request: TranscribeRequest, form: str, on_sent: Callable[[float], None]
    ) -> bytes:
        """Return the transcript of a file in a format.

        ``on_sent`` is told which share of the file was sent.

        Raises:
            CommandError: the file can't be read, or the server refuses or stops on the way.
        """
        call = self._call(READING_SECONDS)
        try:
            answer = await self._send_form(call, path, request, {"response_format": form}, on_sent)
            return await call.thread(_whole, answer)
        finally:
            call.close()

    async def deltas(
        self, path: Path, request: TranscribeRequest, on_sent: Callable[[float], None]
    ) -> AsyncGenerator[str]:
        """Yield the text of a file while the server reads it.

        Raises:
            CommandError: as :meth:`transcribe`.
        """
        call = self._call(READING_SECONDS)
        fields = {"response_format": "text", "stream": "true"}
        try:
            answer = await self._send_form(call, path, request, fields, on_sent)
            while line := await call.thread(answer.readline, LINE_BYTES):
                if not line.startswith(b"data: "):
                    continue
                event = _decoded(line[6:], _Event) or _Event()
                if event.type == "transcript.text.delta":
                    yield event.delta
                elif event.type == "transcript.text.done":
                    return
                elif event.type == "error":
                    raise CommandError(f"the server failed: {_message(line[6:])}")
            raise _cut_short()
        finally:
            call.close()

    async def _send_form(
        self,
        call: _Call,
        path: Path,
        request: TranscribeRequest,
        fields: Mapping[str, str],
        on_sent: Callable[[float], None],
    ) -> http.client.HTTPResponse:
        what = "translations" if request.translate else "transcriptions"
        form = [("model", "whisper-1"), *fields.items()]
        if request.language is not None:
            form.append(("language", request.language))
        if request.words:
            form += [("timestamp_granularities[]", name) for name in ("segment", "word")]
        boundary = token_hex(16)
        head, tail = _around_the_file(form, path.name, boundary)
        with open_file(path) as file:
            size = file.seek(0, 2)
            file.seek(0)

            def body() -> Iterator[bytes]:
                yield head
                sent = 0
                while piece := file.read(PIECE_BYTES):
                    yield piece
                    sent += len(piece)
                    on_sent(sent / size)
                yield tail

            headers = {
                "Content-Type": f"multipart/form-data; boundary={boundary}",
                "Content-Length": str(len(head) + size + len(tail)),
            }
            return await call.ask("POST", f"/v1/audio/{what}", headers, body())

    def _call(self, seconds: float) -> _Call:
        return _Call(self._address, self._key, seconds)


class _Call:
    """One request and its answer; threads wait, and closing it wakes them."""

    def __init__(self, address: Address, key: str | None, seconds: float) -> None:
        self._address = address
        self._seconds = seconds
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        kind = http.client.HTTPSConnection if address.secure else http.client.HTTPConnection
        # Without whom a URL may name ahead of its host.
        self._line = kind(address.host.rpartition("@")[2], timeout=CONNECT_SECONDS)
        self._socket: socket.socket | None = None

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Iterable[bytes],
    ) -> http.client.HTTPResponse:
        """Return the answer, which is not an error.

        Raises:
            CommandError: nobody answers, or the server refuses.
        """
        answer = await self.thread(self._ask, method, path, {**headers, **self._headers}, body)
        if answer.status >= 400:
            told = await self.thread(answer.read, ERROR_BYTES)
            raise _refused(answer.status, told)
        return answer

    async def thread(self, job: Callable[..., T], *args: Any) -> T:
        """Run what may block, in a thread.

        Raises:
            CommandError: the connection is gone, or nothing came for too long.
        """
        try:
            return await asyncio.to_thread(job, *args)
        except TimeoutError:
            raise CommandError(f"the server at {self._address.host} does not answer") from None
        except (OSError, http.client.HTTPException):
            if self._socket is None:
                raise CommandError(
                    f"nobody answers at {self._address.host}: start a server with "
                    "`antiphon serve`, or leave out --url to do without one"
                ) from None
            raise _cut_short() from None

    def close(self) -> None:
        """Drop the connection. Idempotent."""
        connected, self._socket = self._socket, None
        if connected is not None:
            # Where it is gone already there is nothing to wake.
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        self._line.close()

    def _ask(
        self, method: str, path: str, headers: Mapping[str, str], body: Iterable[bytes]
    ) -> http.client.HTTPResponse:
        self._line.connect()
        connected: socket.socket = self._line.sock
        connected.settimeout(self._seconds)
        self._socket = connected
        self._line.putrequest(method, path)
        for name, value in headers.items():
            self._line.putheader(name, value)
        self._line.endheaders()
        # A refusal may come before all is sent; what it says can be read then all the same.
        with suppress(BrokenPipeError, ConnectionResetError):
            for piece in body:
                if select.select([connected], [], [], 0)[0]:
                    break
                self._line.send(piece)
        return self._line.getresponse()


def _around_the_file(
    fields: Iterable[tuple[str, str]], name: str, boundary: str
) -> tuple[bytes, bytes]:
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in fields
    ]
    # Only its suffix can be of use, and nothing in it may end the header.
    said = quote(name, safe=" ")
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{said}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return "".join(parts).encode(), f"\r\n--{boundary}--\r\n".encode()


def _whole(answer: http.client.HTTPResponse) -> bytes:
    """All of an answer; what is shorter than it says raises."""
    if (answer.length or 0) > BODY_BYTES:
        raise CommandError("the server's answer is too long")
    return answer.read() if answer.length is not None else answer.read(BODY_BYTES)


def _cut_short() -> CommandError:
    return CommandError("the server stopped before the end; its log says why")


def _refused(status: int, body: bytes) -> CommandError:
    message = _message(body)
    if status in (401, 403):
        return CommandError(f"the server refused: {message} Pass --key or set ANTIPHON_API_KEY.")
    if status in (404, 405):
        return CommandError(f"that server can't do this: {message}")
    return CommandError(f"the server refused: {message}", misused=status in (400, 422))


def _message(body: bytes) -> str:
    told = _decoded(body, _Failure)
    message = told.error.message if told and told.error else None
    return " ".join(message.split()) if message else "it did not say why."


def _decoded(body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _is_alias(told: str | _VoiceIn) -> bool:
    return not isinstance(told, str) and told.alias_of is not None


def _voice_card(told: str | _VoiceIn) -> VoiceCard:
    if isinstance(told, str):
        return VoiceCard(name=told, language="")
    name = told.name or told.id or ""
    return VoiceCard(name=name, language=told.language or "", summary=told.description or "")
