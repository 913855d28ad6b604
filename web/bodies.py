"""The body of a request, read within a bound."""

from __future__ import annotations

from starlette.requests import Request


class BodyTooLarge(Exception):
    """A body is longer than it may be."""


async def read_body(request: Request, most: int) -> bytes:
    """Return the body without white space around it; an empty one is an empty JSON object.

    Raises:
        BodyTooLarge: it is longer than ``most`` bytes, or says that it will be.
    """
    told = request.headers.get("content-length", "")
    # By the length of the number first: Python refuses to read very long ones.
    if told.isdecimal() and (len(told) > 18 or int(told) > most):
        raise BodyTooLarge
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise BodyTooLarge
    return bytes(body).strip() or b"{}"
