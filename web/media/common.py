"""What the routes of pictures, clips and jobs share: who asks, pages of lists, streams, refusals."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ...engines.jobs.desk import JobRefused, Page, Seen
from ...engines.jobs.job import Job, State
from ...realtime.refusals import not_one_of
from ...sessions.errors import Refusal
from ..leaving import NOBODY, ClientLeft, LiveResponse
from .asking import Settings, check_key, read_json
from .refused import REFUSED, answer_refused
from .service import MediaService

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Json: TypeAlias = dict[str, Any]
T = TypeVar("T", bound=Settings)

PAGE, PAGE_MOST = 20, 100

EVENTS = "text/event-stream"

STALL_SECONDS = 60.0
"""A client that takes nothing of a file or of events for so long is given up."""

ID_CHARS = 64


def told(handler: Handler) -> Handler:
    """The same, whose refusals are answers."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except (*REFUSED, TimeoutError) as error:
            return answer_refused(error)
        except (ClientLeft, ClientDisconnect):
            return Response(status_code=NOBODY)

    return answered


def asker(service: MediaService, request: Request) -> tuple[str, str | None]:
    """Who asks, and by which idempotency key.

    Raises:
        Refusal: the key can't be one.
    """
    return service.owner(request), check_key(request.headers.get("idempotency-key"))


class Bodies:
    """The requests of some routes whose bodies are read or looked at now."""

    def __init__(self) -> None:
        self._count = 0

    @contextlib.contextmanager
    def read(self, most: int) -> Generator[None]:
        """Read one more, where fewer than ``most`` are.

        Raises:
            JobRefused: there are as many (``queue_full``).
        """
        if self._count >= most:
            raise JobRefused("queue_full", f"{most} requests are being read; try again")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


BIG_BYTES = 256 * 1024
"""Of a body, from which on it is read in a thread: it takes milliseconds."""


async def read_settings(body: bytes, kind: type[T]) -> T:
    """Read a JSON body, however long it is.

    Raises:
        Refused: see :func:`.asking.read_json`.
    """
    if len(body) < BIG_BYTES:
        return read_json(body, kind)
    return await asyncio.to_thread(read_json, body, kind)


def known(name: str, what: str, param: str | None = None) -> str:
    """An id as it is asked after: databases refuse some of what can't be one.

    Raises:
        JobRefused: it is of nothing (``not_found``).
    """
    if len(name) > ID_CHARS or not name.isprintable():
        raise JobRefused("not_found", f"there is no such {what}", param=param)
    return name


async def page_of(
    service: MediaService,
    request: Request,
    kind: str | None,
    what: str,
    state: State | None = None,
) -> tuple[Page, Json]:
    """The jobs that a list asks for by ``after``, ``limit`` and ``order``, and its frame.

    Raises:
        Refusal, JobRefused: a parameter is not allowed, or names nothing.
    """
    asked = request.query_params
    page = await service.desk.list(
        kind,
        service.owner(request),
        after=known(asked["after"], what, "after") if asked.get("after") else None,
        limit=_limit(asked.get("limit")),
        order=_order(asked.get("order")),
        state=state,
    )
    return page, _frame(page.jobs, more=page.more)


def _frame(jobs: Sequence[Job], *, more: bool) -> Json:
    return {
        "object": "list",
        "data": [],
        "first_id": jobs[0].id if jobs else None,
        "last_id": jobs[-1].id if jobs else None,
        "has_more": more,
    }


def _limit(said: str | None) -> int:
    if not said:
        return PAGE
    if said.isascii() and said.isdecimal() and len(said) <= 9 and 1 <= int(said) <= PAGE_MOST:
        return int(said)
    raise Refusal("invalid_value", f"limit: must be from 1 to {PAGE_MOST}.", "limit")


def _order(said: str | None) -> Literal["asc", "desc"]:
    if said in (None, "", "desc"):
        return "desc"
    if said == "asc":
        return "asc"
    raise not_one_of("order", said, ("asc", "desc"))


HEARTBEAT_SECONDS = 10.0
"""Of a stream on which nothing happens, so that proxies keep it."""


async def beating(watch: AsyncGenerator[Seen, None]) -> AsyncGenerator[Seen | None, None]:
    """What is seen of a job, and ``None`` whenever nothing was for :data:`HEARTBEAT_SECONDS`."""
    following: asyncio.Future[Seen | None] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(watch, None))
            done, _ = await asyncio.wait({following}, timeout=HEARTBEAT_SECONDS)
            if not done:
                yield None
                continue
            seen, following = following.result(), None
            if seen is None:
                return
            yield seen
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


class Begun(AsyncGenerator[bytes, None]):
    """A stream whose first piece was made, so that what stops it there is told as an error. It is
    closed also where nobody ever asks for a piece."""

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None]) -> None:
        self._first: bytes | None = first
        self._rest = rest

    async def __anext__(self) -> bytes:
        """The next piece."""
        first, self._first = self._first, None
        return await anext(self._rest) if first is None else first

    async def asend(self, value: None) -> bytes:
        """As :meth:`__anext__`."""
        return await anext(self)

    async def athrow(self, *args: Any) -> bytes:
        """Pass it on."""
        return await self._rest.athrow(*args)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._rest.aclose()


async def event_stream(events: AsyncGenerator[bytes, None]) -> LiveResponse:
    """Server-sent events as an answer, the first of which was made.

    Raises:
        Exception: what the first one raises.
    """
    first = await anext(events)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return LiveResponse(Begun(first, events), EVENTS, headers, stall_seconds=STALL_SECONDS)
