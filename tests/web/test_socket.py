"""A Starlette WebSocket as the connection wants it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.websockets import WebSocket

from antiphon.realtime.connection import Disconnected
from antiphon.web.socket import StarletteSocket

Message = dict[str, Any]


class Wire:
    """The ASGI server's end."""

    def __init__(self, *incoming: Message, broken: bool = False) -> None:
        self.incoming = [{"type": "websocket.connect"}, *incoming]
        self.sent: list[Message] = []
        self.broken = broken

    async def receive(self) -> Message:
        return self.incoming.pop(0)

    async def send(self, message: Any) -> None:
        if self.broken and message["type"] != "websocket.accept":
            raise OSError("the connection is gone")
        self.sent.append(dict(message))

    async def accepted(self) -> StarletteSocket:
        socket = WebSocket({"type": "websocket"}, self.receive, self.send)
        await socket.accept()
        return StarletteSocket(socket)


def test_text_and_binary_frames_are_told_apart() -> None:
    async def main() -> None:
        wire = Wire(
            {"type": "websocket.receive", "text": "hello"},
            {"type": "websocket.receive", "bytes": b"\0", "text": None},
        )
        socket = await wire.accepted()
        assert await socket.receive() == "hello"
        assert await socket.receive() == b"\0"

    asyncio.run(main())


def test_a_client_that_left_is_not_closed_again() -> None:
    async def main() -> None:
        wire = Wire({"type": "websocket.disconnect", "code": 1001})
        socket = await wire.accepted()
        with pytest.raises(Disconnected):
            await socket.receive()
        await socket.close(1000, "")
        assert [message["type"] for message in wire.sent] == ["websocket.accept"]

    asyncio.run(main())


def test_what_is_sent_and_how_it_is_closed() -> None:
    async def main() -> None:
        wire = Wire()
        socket = await wire.accepted()
        await socket.send("hello")
        await socket.send(b"\1\2")
        await socket.close(1001, "time is up")
        await socket.close(1000, "again")
        assert wire.sent[1:] == [
            {"type": "websocket.send", "text": "hello"},
            {"type": "websocket.send", "bytes": b"\1\2"},
            {"type": "websocket.close", "code": 1001, "reason": "time is up"},
        ]

    asyncio.run(main())


def test_a_client_that_is_gone_can_not_be_written_to() -> None:
    async def main() -> None:
        for message in ("hello", b"\0"):
            socket = await Wire(broken=True).accepted()
            with pytest.raises(Disconnected):
                await socket.send(message)
            await socket.close(1000, "")

    asyncio.run(main())


def test_a_client_that_is_gone_can_not_be_closed() -> None:
    async def main() -> None:
        socket = await Wire(broken=True).accepted()
        with pytest.raises(Disconnected):
            await socket.close(1000, "")

    asyncio.run(main())
