"""The body of a request, read within a bound."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

BODY_SECONDS = 120
"""For so long a body may be on its way."""

TOO_SLOW = f"The body took longer than {BODY_SECONDS} s."


class BodyTooLarge(Exception):
    """A body is longer than it may be."""


async def read_body(request: Request, most: int) -> bytes:
    """Return the body without white space around it; an empty one is an empty JSON object.

    Raises:
        BodyTooLarge: it is longer than ``most`` bytes, or says that it will be.
        TimeoutError: it took longer than :data:`BODY_SECONDS`.
        ClientDisconnect: the client is gone.
    """
    told = request.headers.get("content-length", "")
    # By the length of the number first: Python refuses to read very long ones.
    if told.isdecimal() and (len(told) > 18 or int(told) > most):
        raise BodyTooLarge
    body = bytearray()
    async with asyncio.timeout(BODY_SECONDS):
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                raise BodyTooLarge
    return bytes(body).strip() or b"{}"
