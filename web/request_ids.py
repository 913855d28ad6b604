"""An id for every answer: stock clients show it with what went wrong, and some miss it."""

from __future__ import annotations

from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-request-id"


class RequestIds:
    """ASGI middleware that adds :data:`HEADER` to every answer, refusals among them."""

    def __init__(self, app: ASGIApp) -> None:
        """``app``: what answers."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; sockets as they are."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{uuid4().hex}".encode()

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (HEADER, request_id)]
            await send(message)

        await self._app(scope, receive, send_named)
