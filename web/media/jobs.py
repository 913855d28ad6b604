"""``/v1/jobs``: all pictures and clips that are being made, as they truly are.

What OpenAI's API has no words for is here: jobs that were cancelled, every parameter, how long a
step takes, pictures that form, and work that nobody waits for.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...engines.jobs.desk import JobRefused, Seen
from ...engines.jobs.job import ENDED, Artefact, Job, NewJob, State
from ...realtime.refusals import not_one_of
from ...sessions.errors import Refusal
from ..bodies import read_body
from ..leaving import LiveResponse
from .asking import BODY_BYTES
from .common import (
    EVENTS,
    STALL_SECONDS,
    Begun,
    Bodies,
    Json,
    asker,
    beating,
    event_stream,
    known,
    page_of,
    read_settings,
    told,
)
from .contents import answer_file
from .fitting import fit
from .job_request import JobIn, format_of, inputs_of, tasks_of
from .service import MediaService, seed_of

PATH = "/v1/jobs"

READING = 32
"""Requests whose bodies are read or looked at now; more are refused."""

KINDS = ("image", "video")
STATES = ("queued", "in_progress", *ENDED)

INPUT = "input-"
"""How files that went in are called, before the family's name for them."""


class JobRoutes:
    """The routes over one deployment's jobs. For one event loop."""

    def __init__(self, service: MediaService) -> None:
        self._service = service
        self._bodies = Bodies()

    def routes(self) -> list[Route]:
        """All of them."""
        one = PATH + "/{id}"
        return [
            Route(PATH, told(self._all), methods=["GET", "POST"]),
            Route(one, told(self._one), methods=["GET", "DELETE"]),
            Route(f"{one}/cancel", told(self._cancel), methods=["POST"]),
            Route(f"{one}/content", told(self._content), methods=["GET"]),
            Route(f"{one}/events", told(self._events), methods=["GET"]),
        ]

    async def _all(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._submit(request)
        kind = _one_of("kind", request, KINDS)
        state = cast("State | None", _one_of("state", request, STATES))
        page, frame = await page_of(self._service, request, kind, "job", state)
        return _answer({**frame, "data": [body_of(job) for job in page.jobs]})

    async def _submit(self, request: Request) -> Response:
        with self._bodies.read(READING):
            new = await self._asked(request)
        job = await self._service.submit(new)
        headers = {"Location": f"{PATH}/{job.id}"}
        return _answer(body_of(job), 202, headers)

    async def _asked(self, request: Request) -> NewJob:
        service = self._service
        owner, key = asker(service, request)
        # Pictures in it are base64.
        most = BODY_BYTES + 2 * service.config.inputs.picture_bytes * 4 // 3
        asked = await read_settings(await read_body(request, most), JobIn)
        model = service.served(asked.model, asked.kind)
        seed = seed_of(owner, key) if asked.seed is None else asked.seed
        tasks = tasks_of(asked, model, seed, service.config.pictures)
        form: Json = {}
        if asked.kind == "image":
            form = format_of(asked.output_format, asked.output_compression)
        service.check_webhook(asked.webhook)
        return NewJob(
            kind=asked.kind,
            tasks=tasks,
            asked=form,
            owner=owner,
            idempotency_key=key,
            webhook=asked.webhook,
            inputs=await self._inputs(asked, tasks[0].width, tasks[0].height),
        )

    async def _inputs(self, asked: JobIn, width: int, height: int) -> dict[str, bytes]:
        found = await inputs_of(asked, self._service.reader)
        sizes = {(across, down) for _, across, down in found.values()}
        if len(sizes) > 1:
            message = "mask: expected as many pixels each way as the image has."
            raise Refusal("invalid_value", message, "mask")
        return {
            name: await asyncio.to_thread(fit, png, width, height)
            for name, (png, _, _) in found.items()
        }

    async def _one(self, request: Request) -> Response:
        job = await self._job(request)
        if request.method != "DELETE":
            return _answer(body_of(job))
        await self._service.desk.delete(job.id, job.owner)
        return _answer({"id": job.id, "deleted": True, "object": "job.deleted"})

    async def _cancel(self, request: Request) -> Response:
        job = await self._job(request)
        return _answer(body_of(await self._service.desk.cancel(job.id, job.owner)))

    async def _content(self, request: Request) -> Response:
        job = await self._job(request)
        name = request.query_params.get("variant") or "content"
        found = files_of(job)
        if name in found and name.startswith(INPUT):
            # Without its length, which nobody noted.
            pieces = cast("AsyncGenerator[bytes, None]", self._service.desk.content(found[name]))
            begun = Begun(await anext(pieces, b""), pieces)
            kind, headers = found[name].type, {"Cache-Control": "private, no-cache"}
            return LiveResponse(begun, kind, headers, stall_seconds=STALL_SECONDS)
        if name in found:
            return await answer_file(self._service, request, job, found[name])
        if not job.ended:
            message = f"{name[:64]!r} is not there; the job is {job.progress} per cent done"
            raise JobRefused("not_ready", message)
        raise not_one_of("variant", name, found)

    async def _events(self, request: Request) -> Response:
        job = await self._job(request)
        seen = _seen(request.headers.get("last-event-id", ""))
        if job.ended and job.version <= seen:
            # What tells a client of such streams not to come again.
            return Response(status_code=204)
        if request.method == "HEAD":
            return Response(media_type=EVENTS)
        return await event_stream(self._stream(job, seen))

    async def _stream(self, job: Job, version: int) -> AsyncGenerator[bytes, None]:
        """What happens to a job after the version that was seen last."""
        with self._service.place():
            # At once, so that a client knows that it is connected.
            yield b": connected\n\n"
            watch = cast("AsyncGenerator[Seen, None]", self._service.desk.watch(job.id, job.owner))
            async with aclosing(watch), aclosing(beating(watch)) as news:
                try:
                    async for piece in _told(news, version):
                        yield piece
                except JobRefused as refused:
                    # Whoever reads on comes again, and is told what else is the matter.
                    if refused.code == "not_found":
                        yield event_of("job.deleted", None, {"id": job.id})

    async def _job(self, request: Request) -> Job:
        name = known(request.path_params["id"], "job")
        return await self._service.desk.get(name, self._service.owner(request))


def _answer(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # Lists of jobs with many pictures are long.
    return Response(msgspec.json.encode(body), status, headers, "application/json")


async def _told(news: AsyncGenerator[Seen | None, None], since: int) -> AsyncGenerator[bytes, None]:
    """What is newer than version ``since``, as events, and a comment where there is nothing."""
    told = since
    async for seen in news:
        if seen is None:
            yield b": nothing new\n\n"
            continue
        # A preview comes with the record as it is then, of which nothing else tells.
        if seen.job.version > told:
            told = seen.job.version
            yield _state_event(seen.job)
        if seen.preview is not None and seen.job.version > since and not seen.job.ended:
            yield _preview_event(seen.job.id, seen.preview, seen.preview_of)


def _preview_event(job_id: str, jpeg: bytes, picture: int) -> bytes:
    image = f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
    return event_of("job.preview", None, {"id": job_id, "picture": picture, "image": image})


def _state_event(job: Job) -> bytes:
    name = job.state if job.state in (*ENDED, "queued") else "progress"
    return event_of(f"job.{name}", job.version, body_of(job))


def event_of(name: str, version: int | None, body: Json) -> bytes:
    """A server-sent event (HTML Living Standard, 9.2); ``version`` is what to go on from."""
    last = "" if version is None else f"id: {version}\n"
    return f"event: {name}\n{last}data: ".encode() + msgspec.json.encode(body) + b"\n\n"


def _one_of(name: str, request: Request, allowed: Sequence[str]) -> str | None:
    """A parameter of a list; ``None`` where it says nothing.

    Raises:
        Refusal: it is none of those.
    """
    said = request.query_params.get(name) or None
    if said is not None and said not in allowed:
        raise not_one_of(name, said, allowed)
    return said


def _seen(header: str) -> int:
    """The version that a client saw last; -1 for none."""
    said = header.strip()
    return int(said) if said.isascii() and said.isdecimal() and len(said) <= 18 else -1


def files_of(job: Job) -> Mapping[str, Artefact]:
    """All files of a job by name; what went in is called ``input-image``, ``input-mask``."""
    found = {
        f"{INPUT}{name}": Artefact(name=f"{INPUT}{name}", key=key, type="image/png", size=0)
        for name, key in job.tasks[0].inputs.items()
    }
    return found | {each.name: each for each in job.artefacts}


def body_of(job: Job) -> Json:
    """A job as the routes tell it. Times are Unix seconds."""
    return {
        "id": job.id,
        "object": "job",
        "kind": job.kind,
        "state": job.state,
        "version": job.version,
        "progress": job.progress,
        "step_ms": job.step_ms,
        "remaining_ms": job.remaining_ms,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "expires_at": job.expires_at,
        "attempts": job.attempts,
        "error": msgspec.to_builtins(job.error),
        "asked": job.asked,
        "tasks": [
            {**msgspec.to_builtins(task), "inputs": sorted(task.inputs)} for task in job.tasks
        ],
        "artefacts": [
            {
                "name": each.name,
                "type": each.type,
                "size": each.size,
                "url": f"{PATH}/{job.id}/content?variant={each.name}",
            }
            for each in job.artefacts
        ],
        "remixed_from": job.remixed_from,
    }
