"""A Starlette WebSocket as the realtime driver wants it."""

from __future__ import annotations

from starlette.websockets import WebSocket, WebSocketDisconnect

from ..realtime.connection import Disconnected


class StarletteSocket:
    """Adapts one accepted socket."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._gone = False

    async def receive(self) -> str | bytes:
        """Return the next message; raises ``Disconnected`` when there is none."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            self._gone = True
            raise Disconnected
        text: str | None = message.get("text")
        if text is not None:
            return text
        data: bytes = message.get("bytes", b"")
        return data

    async def send(self, text: str) -> None:
        """Write a text frame; raises ``Disconnected`` when the client is gone."""
        try:
            await self._socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            self._gone = True
            raise Disconnected from error

    async def close(self, code: int, reason: str) -> None:
        """Close, unless the client did already."""
        if self._gone:
            return
        self._gone = True
        try:
            await self._socket.close(code, reason)
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise Disconnected from error
