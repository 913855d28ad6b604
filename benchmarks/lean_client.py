"""WebSocket clients that cost nearly nothing, so that many fit beside the server they load.

What is sent is framed once for all clients. What comes is counted frame by frame and not
decoded; only the start of a frame is looked at, to tell the end of a response.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

HANDSHAKE_SECONDS = 30.0

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA

LOOKED_AT = 512
"""Bytes of a frame in which its type stands."""


def frame(payload: bytes, opcode: int = TEXT) -> bytes:
    """A whole client frame. Its mask is zero, which leaves the payload as it is."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8, "big")
    return head + bytes(4) + payload


def event(kind: str, **members: object) -> bytes:
    """The frame of a client event."""
    return frame(msgspec.json.encode({"type": kind, **members}))


def append(ms: int) -> bytes:
    """The frame of an append of so much silence, 24 kHz PCM16."""
    return event("input_audio_buffer.append", audio=base64.b64encode(bytes(48 * ms)).decode())


@dataclass
class Counts:
    """What a client has received."""

    frames: int = 0
    bytes: int = 0
    responses: int = 0


class LeanClient(asyncio.Protocol):
    """One connection."""

    def __init__(self, path: str, host: str, on_response: Callable[[LeanClient], None]) -> None:
        self._path = path
        self._host = host
        self._on_response = on_response
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._upgraded = False
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.counts = Counts()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's own transports are no subclass of it.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write(
            f"GET {self._path} HTTP/1.1\r\nHost: {self._host}\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if not self.opened.done():
            self.opened.set_exception(ConnectionError("the server refused the connection"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._upgraded and not self._upgrade():
            return
        while (taken := self._take()) > 0:
            del self._buffer[:taken]

    def send(self, *frames: bytes) -> None:
        assert self._transport is not None
        if not self.lost:
            self._transport.write(b"".join(frames))

    def close(self) -> None:
        assert self._transport is not None
        self.send(frame((1000).to_bytes(2, "big"), CLOSE))
        self._transport.close()

    def _upgrade(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        status = bytes(self._buffer[:12])
        if not status.endswith(b" 101"):
            if not self.opened.done():
                self.opened.set_exception(ConnectionError(f"the server answered {status!r}"))
            return False
        del self._buffer[: end + 4]
        self._upgraded = True
        self.opened.set_result(None)
        return True

    def _take(self) -> int:
        """Deal with the first frame; return its length, 0 where it is not whole yet."""
        buffer = self._buffer
        if len(buffer) < 2:
            return 0
        size, head = buffer[1], 2
        if size >= 126:
            head = 4 if size == 126 else 10
            if len(buffer) < head:
                return 0
            size = int.from_bytes(buffer[2:head], "big")
        if len(buffer) < head + size:
            return 0
        opcode = buffer[0] & 0xF
        if opcode == PING:
            self.send(frame(bytes(buffer[head : head + size]), PONG))
        elif opcode == TEXT:
            self.counts.frames += 1
            self.counts.bytes += size
            if buffer.find(b'"response.done"', head, head + min(size, LOOKED_AT)) >= 0:
                self.counts.responses += 1
                self._on_response(self)
        return head + size


async def connect(
    address: str, path: str, count: int, on_response: Callable[[LeanClient], None]
) -> list[LeanClient]:
    """Open connections to ``host:port``, a few at a time.

    Raises:
        OSError: the server refuses one.
    """
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    clients: list[LeanClient] = []
    for _ in range(count):
        _, client = await loop.create_connection(
            lambda: LeanClient(path, address, on_response), host, int(port)
        )
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await client.opened
        clients.append(client)
    return clients


class Microphones:
    """Sends the same frame for every client again and again, spread over the period."""

    def __init__(self, clients: Sequence[LeanClient], audio: bytes, period_s: float) -> None:
        self._audio = audio
        self._period = period_s
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._running = True
        began = loop.time()
        for index, client in enumerate(clients):
            at = began + period_s * index / len(clients)
            loop.call_at(at, self._speak, client, at)

    def stop(self) -> None:
        self._running = False

    def _speak(self, client: LeanClient, at: float) -> None:
        if not self._running or client.lost:
            return
        client.send(self._audio)
        at += self._period
        self._loop.call_at(at, self._speak, client, at)
