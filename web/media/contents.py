"""Files of jobs as answers: whole or in parts, streamed from the store (RFC 9110, ranges)."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import AsyncGenerator
from typing import Literal, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...engines.jobs.desk import JobRefused
from ...engines.jobs.job import Artefact, Job
from ..errors import refusal
from ..leaving import LiveResponse
from .common import STALL_SECONDS, Begun
from .service import MediaService

logger = logging.getLogger(__name__)

SHOWN = ("image/png", "image/jpeg", "image/webp", "video/mp4")
"""Types that are told as they are; whatever else there is, a browser may only save."""

SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "video/mp4": ".mp4"}

_RANGE = re.compile(r"\s*([0-9]*)\s*-\s*([0-9]*)\s*")
_DIGITS = 18
"""Of a number in a range: more are beyond any file."""

_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]")


class _FileResponse(LiveResponse):
    """A file of known length, or a part of it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; where the file goes meanwhile, the answer ends with the connection."""
        try:
            await super().__call__(scope, receive, send)
        except JobRefused:
            logger.warning("a file of a job went while it was sent")


async def answer_file(
    service: MediaService, request: Request, job: Job, artefact: Artefact, filename: str = ""
) -> Response:
    """A file as the answer to a GET or HEAD, with ``Range``, ``If-Range``, ``If-None-Match``.

    ``filename``: under which a browser saves it; by default the job's id and the file's name. One
    range is served; of several, as RFC 9110 allows, the whole file is.

    Raises:
        JobRefused: the file is not there any more (``not_found``), or can't be read.
    """
    tag = etag_of(artefact)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": tag,
        # It never changes, but may be deleted: kept by who asked, and asked after each time.
        "Cache-Control": "private, no-cache",
        "Vary": "Authorization",
    }
    reads = request.method in ("GET", "HEAD")
    if reads and tag in _tags(request.headers.get("if-none-match", "")):
        return Response(status_code=304, headers=headers)
    start, end, part = 0, artefact.size, False
    if request.method == "GET" and request.headers.get("if-range", tag).strip() == tag:
        found = find_range(request.headers.get("range", ""), artefact.size)
        if found == "beyond":
            answer = refusal(416, "invalid_range", "The file ends before that range.")
            answer.headers["Content-Range"] = f"bytes */{artefact.size}"
            return answer
        if found is not None:
            (start, end), part = found, True
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{artefact.size}"
    shown = artefact.type in SHOWN
    kind = artefact.type if shown else "application/octet-stream"
    name = _FILE_NAME.sub("_", filename or default_name(job, artefact))
    headers["Content-Disposition"] = f'{"inline" if shown else "attachment"}; filename="{name}"'
    headers["Content-Length"] = str(end - start)
    if request.method == "HEAD":
        return Response(headers=headers, media_type=kind)
    pieces = cast("AsyncGenerator[bytes, None]", service.desk.content(artefact, start, end))
    # The first is read, so that a missing file is told as an error.
    begun = Begun(await anext(pieces, b""), pieces)
    answer = _FileResponse(begun, kind, headers, stall_seconds=STALL_SECONDS)
    answer.status_code = 206 if part else 200
    answer.headers["Content-Length"] = headers["Content-Length"]
    return answer


def default_name(job: Job, artefact: Artefact) -> str:
    """``<job>.mp4`` of its content, ``<job>-thumbnail.webp`` of what else there is."""
    what = "" if artefact.name == "content" else f"-{artefact.name}"
    return f"{job.id}{what}{SUFFIXES.get(artefact.type, '.bin')}"


def etag_of(artefact: Artefact) -> str:
    """Strong, with its quotation marks: a file of that key is never written twice."""
    return f'"{hashlib.sha256(artefact.key.encode()).hexdigest()[:32]}"'


def find_range(header: str, size: int) -> tuple[int, int] | Literal["beyond"] | None:
    """The part of a file of ``size`` bytes that a ``Range`` header means, ``(start, end)`` with
    ``end`` behind its last byte. ``None``: the whole file; ``beyond``: nothing that is there."""
    unit, _, ranges = header.partition("=")
    found = _RANGE.fullmatch(ranges)
    if unit.strip().lower() != "bytes" or found is None:
        return None
    first, last = found.groups()
    if not first:
        return _suffix(last, size)
    start = _number(first)
    end = size if not last else min(size, _number(last) + 1)
    if last and _number(last) < start:
        return None
    return (start, end) if start < size else "beyond"


def _suffix(last: str, size: int) -> tuple[int, int] | Literal["beyond"] | None:
    if not last:
        return None
    count = min(size, _number(last))
    return (size - count, size) if count else "beyond"


def _number(digits: str) -> int:
    # By the length first: Python refuses to read very long ones.
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= _DIGITS else 10**_DIGITS


def _tags(header: str) -> list[str]:
    """Entity tags of ``If-None-Match``, which compares them weakly."""
    return [each.strip().removeprefix("W/") for each in header.split(",")]


async def read_whole(service: MediaService, artefact: Artefact) -> bytes:
    """A file of moderate size.

    Raises:
        JobRefused: it is not there any more.
    """
    return b"".join([piece async for piece in service.desk.content(artefact)])
