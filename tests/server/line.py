"""A bare socket to the server: says what no well-behaved client would."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.support.server import Server
from websockets.asyncio.client import ClientConnection, connect

from antiphon.realtime.client import MAX_FRAME

Event = dict[str, Any]

EVENT_SECONDS = 20.0
"""Longest wait for the next event."""


class Line:
    """One connection, greeted."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, kind: str, **members: object) -> None:
        """Send an event."""
        await self.say_raw(msgspec.json.encode({"type": kind, **members}).decode())

    async def say_raw(self, message: str | bytes) -> None:
        """Send a frame as it is."""
        await self.socket.send(message)

    async def append(self, audio: bytes) -> None:
        """Send audio in the session's input format."""
        await self.say("input_audio_buffer.append", audio=b64encode(audio).decode())

    async def hear(self) -> Event:
        """Return the next event."""
        async with asyncio.timeout(EVENT_SECONDS):
            return msgspec.json.decode(await self.socket.recv(), type=Event)

    async def until(self, *kinds: str) -> Event:
        """Return the next event of one of these kinds."""
        while True:
            event = await self.hear()
            if event["type"] in kinds:
                return event

    async def ask(self, text: str, *, aloud: bool = False, **response: object) -> None:
        """Let a written message be answered; returns before the answer."""
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.say("conversation.item.create", item=item)
        modality = "audio" if aloud else "text"
        options = {"output_modalities": [modality], **response}
        await self.say("response.create", response=options)

    async def is_answered(self, text: str) -> bool:
        """Whether a written message is answered as it should be."""
        await self.ask(text)
        done = await self.until("response.done", "error")
        return bool(done.get("response", {}).get("status") == "completed")


@asynccontextmanager
async def line(server: Server) -> AsyncGenerator[Line, None]:
    """Open a session without turn detection."""
    async with connect(server.ws_url, max_size=MAX_FRAME, compression=None) as socket:
        each = Line(socket)
        assert (await each.hear())["type"] == "session.created"
        await each.say("session.update", session={"audio": {"input": {"turn_detection": None}}})
        assert (await each.hear())["type"] == "session.updated"
        yield each
