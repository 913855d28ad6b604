"""Work for a client that may leave: then it is stopped at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

T = TypeVar("T")

NOBODY = 499
"""Status of an answer that nobody reads: only logs show it."""


class ClientLeft(Exception):
    """The client is gone, and what was done for it is stopped."""


async def while_here(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """What comes of ``work``, once the body of the request was read.

    Raises:
        ClientLeft: the client went first; the work was cancelled, and is over.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return task.result()
    finally:
        watch.cancel()
        task.cancel()
        await asyncio.gather(watch, task, return_exceptions=True)


class LiveResponse(Response):
    """A body that is made while it is sent; its maker is closed on every path."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        headers: Mapping[str, str],
        *,
        stall_seconds: float,
    ) -> None:
        """A client that takes nothing for ``stall_seconds`` is given up."""
        super().__init__(media_type=media_type, headers=headers)
        # Of the empty body that it was made with.
        del self.headers["content-length"]
        self._pieces = pieces
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; a client that goes, or takes nothing, ends it."""
        try:
            await while_here(receive, self._send(send))
        except (ClientLeft, TimeoutError):
            # What is not complete ends with the connection.
            pass
        finally:
            # Nothing runs it any more; where it never began, this alone closes it.
            await self._pieces.aclose()

    async def _send(self, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await self._pass(send, {"type": "http.response.start", **start})
        async for piece in self._pieces:
            await self._pass(send, {"type": "http.response.body", "body": piece, "more_body": True})
        await self._pass(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass(self, send: Send, message: Message) -> None:
        async with asyncio.timeout(self._stall_seconds):
            await send(message)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
