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

    async def send(self, data: str | bytes) -> None:
        """Write a text or a binary frame; raises ``Disconnected`` when the client is gone."""
        try:
            if isinstance(data, str):
                await self._socket.send_text(data)
            else:
                await self._socket.send_bytes(data)
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
