"""A client in memory of the whole application."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse, WebSocketTestSession
from starlette.types import ASGIApp, Receive, Scope, Send

URL = "/v1/realtime"

HOME = "http://localhost:8000"
"""The server, as its own page names it."""


class Watched:
    """An application that says when a socket of it has ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.ended = threading.Semaphore(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            if scope["type"] == "websocket":
                self.ended.release()


class Visitor(TestClient):
    """A client that waits for the end of its sessions: the usual one cancels them."""

    # Not a test, whatever its base is called.
    __test__ = False

    def __init__(self, app: ASGIApp, *, host: str = "testclient") -> None:
        self.watched = Watched(app)
        super().__init__(
            self.watched, raise_server_exceptions=False, client=(host, 50_000), base_url=HOME
        )

    @contextmanager
    def session(
        self, url: str = URL, *, offered: Sequence[str] = (), **headers: str
    ) -> Generator[WebSocketTestSession]:
        """Open a session and close it when left."""
        address = HOME.replace("http", "ws") + url
        with self.websocket_connect(address, subprotocols=offered, headers=headers) as socket:
            yield socket
            socket.close(1000)
            assert self.watched.ended.acquire(timeout=30)

    def denied(
        self, url: str = URL, *, offered: Sequence[str] = (), **headers: str
    ) -> WebSocketDenialResponse:
        """Return the answer to an upgrade that is refused."""
        with (
            pytest.raises(WebSocketDenialResponse) as caught,
            self.session(url, offered=offered, **headers),
        ):
            raise AssertionError("accepted")
        return caught.value
