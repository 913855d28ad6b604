"""A client of the realtime protocol: connect, send, receive, with audio as JSON or binary.

It needs no engine and no web framework: ``websockets``, ``msgspec``, ``numpy`` and ``soxr``,
and PyAV for Opus. :mod:`.playback` adds a listener that reports how far it is. The demo and the benchmarks
talk through both.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from ..codecs.opus import RATE, OpusDecoder, OpusEncoder, OpusError
from ..codecs.pcm import SAMPLE_BYTES
from .binary import BinaryError, BinaryFrame, Kind, unpack

Event = dict[str, Any]

BinaryFormat: TypeAlias = Literal["pcm16", "opus"]

MAX_FRAME = 64 * 1024 * 1024
"""A retrieved item holds all of its audio in one frame."""

MAX_PARTS = 64
"""Audio parts that were announced and have not ended; more are forgotten, the oldest first."""


class RealtimeClient:
    """One open connection. One task may receive while another sends.

    Audio comes as events ``response.output_audio.delta`` whatever it is on the wire, see
    :func:`audio_of`. Those made of binary frames have ``audio`` and ``position_ms`` instead
    of ``delta``, and are always s16le at 24 kHz.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._binary: BinaryFormat | None = None
        self._encoder: OpusEncoder | None = None
        self._parts: dict[int, _Part] = {}

    @property
    def binary(self) -> BinaryFormat | None:
        """What audio is sent as in binary frames: as the server has last confirmed."""
        return self._binary

    async def send(self, kind: str, **fields: object) -> None:
        """Send an event; ``None`` fields are sent as null."""
        await self._socket.send(msgspec.json.encode({"type": kind, **fields}).decode())

    async def ask_binary(self, form: BinaryFormat | None) -> None:
        """Ask for binary audio, ``None`` for none; it begins when the server has confirmed it."""
        asked: Event = {"binary_audio": form is not None}
        if form is not None:
            asked["binary_format"] = form
        await self.send("session.update", session={"antiphon": asked})

    async def append(self, pcm: bytes) -> None:
        """Send audio: s16le at 24 kHz where it goes in binary frames, else as the session has it.

        Of Opus, what does not fill 20 ms waits for more, or for a commit.
        """
        if self._binary is None:
            await self.send("input_audio_buffer.append", audio=b64encode(pcm).decode())
        elif self._binary == "pcm16":
            await self._socket.send(BinaryFrame(Kind.PCM16, pcm).pack())
        else:
            self._encoder = self._encoder or OpusEncoder()
            await self._send_packets(self._encoder.feed(pcm))

    async def commit(self) -> None:
        """Make an item of what was appended."""
        if self._encoder is not None:
            await self._send_packets(self._encoder.flush())
        await self.send("input_audio_buffer.commit")

    async def clear(self) -> None:
        """Forget what was appended."""
        self._encoder = None
        await self.send("input_audio_buffer.clear")

    async def cancel(self, response_id: str | None = None) -> None:
        """Stop a response, the one that is being made by default."""
        named = {} if response_id is None else {"response_id": response_id}
        await self.send("response.cancel", **named)

    async def receive(self) -> Event:
        """Return the next event.

        Raises:
            websockets.exceptions.ConnectionClosed: there will be none.
        """
        while True:
            data = await self._socket.recv()
            if isinstance(data, bytes):
                event = self._heard(data)
            else:
                event = msgspec.json.decode(data, type=Event)
                self._note(event)
            if event is not None:
                return event

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield events until the connection is closed."""
        try:
            while True:
                yield await self.receive()
        except ConnectionClosed:
            return

    async def wait_for(self, *kinds: str) -> Event:
        """Return the next event of one of the kinds, skipping others.

        Raises:
            ServerError: an error came instead.
        """
        while True:
            event = await self.receive()
            if event["type"] in kinds:
                return event
            if event["type"] == "error":
                raise ServerError(event["error"])

    async def _send_packets(self, packets: list[bytes]) -> None:
        for packet in packets:
            await self._socket.send(BinaryFrame(Kind.OPUS, packet).pack())

    def _note(self, event: Event) -> None:
        """Follow what the server says of binary audio."""
        match event["type"]:
            case "session.created" | "session.updated":
                session: Event = event.get("session") or {}
                ours: Event = session.get("antiphon") or {}
                form = ours.get("binary_format") if ours.get("binary_audio") else None
                self._binary = form if form in get_args(BinaryFormat) else None
            case "antiphon.output_audio.started":
                self._parts[event["number"]] = _Part(event)
                while len(self._parts) > MAX_PARTS:
                    del self._parts[next(iter(self._parts))]
            case "response.done":
                # One that was cut has no last frame.
                over = event["response"]["id"]
                self._parts = {
                    number: part for number, part in self._parts.items() if part.of != over
                }
            case _:
                pass

    def _heard(self, data: bytes) -> Event | None:
        """Return the audio of a binary frame; ``None`` where there is none, or nobody knows whose."""
        try:
            frame = unpack(data)
        except BinaryError:
            # Of a later version of the protocol, which says so before it sends any.
            return None
        part = self._parts.get(frame.number)
        if part is None:
            return None
        if frame.last:
            del self._parts[frame.number]
        return part.audio(frame)


class _Part:
    """The audio part that binary frames belong to."""

    def __init__(self, started: Event) -> None:
        members = ("response_id", "item_id", "output_index", "content_index")
        self.of: str = started["response_id"]
        self._at = {name: started[name] for name in members}
        self._position_ms: float | None = None
        self._decoder: OpusDecoder | None = None

    def audio(self, frame: BinaryFrame) -> Event | None:
        """Return the event of a frame; ``None`` where nothing is ready to be heard."""
        pcm = frame.payload if frame.kind is Kind.PCM16 else self._decode(frame)
        position_ms: float = frame.position_ms
        if frame.kind is Kind.OPUS:
            # The decoder holds a little back: what comes out lies where the last ended.
            position_ms = position_ms if self._position_ms is None else self._position_ms
            self._position_ms = position_ms + len(pcm) * 1000 / RATE / SAMPLE_BYTES
        if not pcm:
            return None
        said = {"type": "response.output_audio.delta", **self._at}
        return {**said, "audio": pcm, "position_ms": position_ms}

    def _decode(self, frame: BinaryFrame) -> bytes:
        self._decoder = self._decoder or OpusDecoder()
        try:
            pcm = self._decoder.feed(frame.payload)
        except OpusError:
            # Nothing can be made of it; what follows can be heard.
            pcm = b""
        return pcm + self._decoder.flush() if frame.last else pcm


class ServerError(Exception):
    """The server refused something; ``error`` is its error object."""

    def __init__(self, error: Event) -> None:
        super().__init__(error.get("message"))
        self.error = error


@asynccontextmanager
async def open_session(
    url: str, *, extensions: bool = False, binary: BinaryFormat | None = None
) -> AsyncGenerator[RealtimeClient]:
    """Connect to ``url`` (``ws://host:port/v1/realtime``); close when left.

    ``extensions`` asks for our own events. ``binary`` asks for binary audio as well, and is
    answered by a ``session.updated``.

    Raises:
        OSError: nobody listens there.
        websockets.exceptions.InvalidHandshake: the server refused.
    """
    query = "?antiphon=1" if extensions or binary else ""
    async with connect(url + query, max_size=MAX_FRAME, compression=None) as socket:
        client = RealtimeClient(socket)
        if binary is not None:
            await client.ask_binary(binary)
        yield client


def audio_of(event: Event) -> bytes:
    """Return the audio of a ``response.output_audio.delta``."""
    audio: bytes | None = event.get("audio")
    return b64decode(event["delta"]) if audio is None else audio
