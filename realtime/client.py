"""A client of the realtime protocol: connect, send, receive.

It needs no engine and no server package, only ``websockets``; the demo and the
benchmarks talk through it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

Event = dict[str, Any]

MAX_FRAME = 64 * 1024 * 1024
"""A retrieved item holds all of its audio in one frame."""


class RealtimeClient:
    """One open connection. One task may receive while another sends."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, kind: str, **fields: object) -> None:
        """Send an event; ``None`` fields are sent as null."""
        await self._socket.send(msgspec.json.encode({"type": kind, **fields}).decode())

    async def append(self, pcm: bytes) -> None:
        """Send audio in the session's input format."""
        await self.send("input_audio_buffer.append", audio=b64encode(pcm).decode())

    async def receive(self) -> Event:
        """Return the next event.

        Raises:
            websockets.exceptions.ConnectionClosed: there will be none.
        """
        return msgspec.json.decode(await self._socket.recv(), type=Event)

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


class ServerError(Exception):
    """The server refused something; ``error`` is its error object."""

    def __init__(self, error: Event) -> None:
        super().__init__(error.get("message"))
        self.error = error


@asynccontextmanager
async def open_session(url: str, *, extensions: bool = False) -> AsyncGenerator[RealtimeClient]:
    """Connect to ``url`` (``ws://host:port/v1/realtime``); close when left.

    Raises:
        OSError: nobody listens there.
        websockets.exceptions.InvalidHandshake: the server refused.
    """
    query = "?antiphon=1" if extensions else ""
    async with connect(url + query, max_size=MAX_FRAME, compression=None) as socket:
        yield RealtimeClient(socket)


def audio_of(event: Event) -> bytes:
    """Return the audio of a ``response.output_audio.delta``."""
    return b64decode(event["delta"])
