"""``/v1/images`` as OpenAI's clients know it: each request is a job that somebody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...engines.jobs.desk import JobRefused
from ...engines.jobs.job import Job, NewJob
from ...engines.media import Served
from ...sessions.errors import Refusal
from ..leaving import while_here
from .asking import size_of, task_of
from .common import Bodies, Json, asker, event_stream, known, told
from .contents import answer_file, read_whole
from .fitting import fit
from .image_events import USAGE, ImageEvents, encoded, facts_of, pictures_of
from .image_request import AskedImage, Work, filled, inputs_of, read_image
from .job_request import count_of, format_of, seed_at
from .service import MediaService, seed_of
from .waiting import JOB_HEADER, answer_failed, made

PATH = "/v1/images"

FILES = "/media"
"""Where pictures are fetched by URL, without a key: a job's id can't be guessed."""

READING = 32
"""Requests whose bodies are read or looked at now; more are refused."""


class ImageRoutes:
    """The routes over one deployment's jobs. For one event loop."""

    def __init__(self, service: MediaService) -> None:
        self._service = service
        self._bodies = Bodies()

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route(f"{PATH}/generations", told(self._generate), methods=["POST"]),
            Route(f"{PATH}/edits", told(self._edit), methods=["POST"]),
            Route(f"{PATH}/variations", told(self._vary), methods=["POST"]),
            Route(FILES + "/{id}/{name}", told(self._file), methods=["GET"]),
        ]

    async def _generate(self, request: Request) -> Response:
        return await self._serve(request, "generation")

    async def _edit(self, request: Request) -> Response:
        return await self._serve(request, "edit")

    async def _vary(self, request: Request) -> Response:
        return await self._serve(request, "variation")

    async def _serve(self, request: Request, work: Work) -> Response:
        with self._bodies.read(READING):
            asked = await read_image(request, work, self._service.config.inputs)
            try:
                new = await self._job(request, asked)
            finally:
                await asked.close()
        if asked.streams:
            return await self._stream(asked, new)
        job = await while_here(request.receive, made(self._service, new))
        if job.state != "completed":
            return answer_failed(job)
        body = await self._answer(request, asked, job)
        return Response(body, media_type="application/json", headers={JOB_HEADER: job.id})

    async def _job(self, request: Request, asked: AskedImage) -> NewJob:
        """The job that a request means, its pictures in the size of what is made."""
        service = self._service
        owner, key = asker(service, request)
        model = self._model(asked)
        settings = filled(asked, model)
        form = format_of(settings.output_format, settings.output_compression)
        count = count_of(settings.n, service.config.pictures)
        service.check_webhook(settings.webhook)
        size, inputs = await self._inputs(asked, model)
        seed = seed_of(owner, key) if settings.seed is None else settings.seed
        names = {name: name for name in inputs}
        tasks = tuple(
            task_of(settings, model, seed=seed_at(seed, at), size=size, inputs=names)
            for at in range(count)
        )
        # Only now, as it takes a while: what is refused is refused at once.
        fitted = {name: await asyncio.to_thread(fit, png, *size) for name, png in inputs.items()}
        return NewJob(
            kind="image",
            tasks=tasks,
            asked={**form, "quality": settings.quality or "auto"},
            owner=owner,
            idempotency_key=key,
            webhook=settings.webhook,
            inputs=fitted,
        )

    def _model(self, asked: AskedImage) -> Served:
        """The model that is meant; where it is none by name, the first that takes what goes in."""
        name, given = asked.settings.model, inputs_of(asked)
        meant = self._service.served(name, "image")
        if name == meant.name or given in meant.abilities.inputs:
            return meant
        for each in self._service.models.values():
            if each.abilities.kind == "image" and given in each.abilities.inputs:
                return each
        return meant

    async def _inputs(
        self, asked: AskedImage, model: Served
    ) -> tuple[tuple[int, int], dict[str, bytes]]:
        """The size of what is made, and the pictures that go in."""
        settings, able = asked.settings, model.abilities
        if not inputs_of(asked):
            return size_of(settings, able), {}
        image = await self._service.reader.picture(asked.images[0], "image")
        inputs = {"image": image.png}
        if asked.mask is not None:
            mask = await self._service.reader.mask(asked.mask, "mask")
            if (mask.width, mask.height) != (image.width, image.height):
                message = (
                    f"mask: expected {image.width}x{image.height} pixels as the image has, "
                    f"not {mask.width}x{mask.height}."
                )
                raise Refusal("invalid_value", message, "mask")
            inputs["mask"] = mask.png
        if (
            settings.size in (None, "", "auto")
            and settings.width is None
            and settings.height is None
        ):
            return able.size_near(image.width, image.height, able.max_pixels), inputs
        return size_of(settings, able), inputs

    async def _stream(self, asked: AskedImage, new: NewJob) -> Response:
        events = ImageEvents(self._service, new, asked)
        # A job that is not accepted is an error, no stream.
        answer = await event_stream(events.pieces())
        answer.headers[JOB_HEADER] = events.job.id
        return answer

    async def _answer(self, request: Request, asked: AskedImage, job: Job) -> bytes:
        pictures = pictures_of(job)
        if asked.settings.response_format == "url":
            base = str(request.base_url).rstrip("/")
            return answer_of(job, [f"{base}{FILES}/{job.id}/{each.name}" for each in pictures])
        files = [await read_whole(self._service, each) for each in pictures]
        # Ten pictures of a few megabytes each.
        return await asyncio.to_thread(answer_of, job, files)

    async def _file(self, request: Request) -> Response:
        job = await self._service.desk.get(known(request.path_params["id"], "file"), None)
        for each in job.artefacts:
            # Addresses without a key are given out of pictures alone.
            if job.kind == "image" and each.name == request.path_params["name"]:
                return await answer_file(self._service, request, job, each)
        raise JobRefused("not_found", "there is no such file")


def answer_of(job: Job, pictures: Sequence[bytes | str]) -> bytes:
    """The answer to who waited, as JSON. ``pictures``: files, or URLs of them."""
    data: list[Json] = [
        {
            **({"url": each} if isinstance(each, str) else {"b64_json": encoded(each)}),
            "revised_prompt": None,
            "seed": task.seed,
        }
        for each, task in zip(pictures, job.tasks, strict=True)
    ]
    body: Json = {
        "created": int(job.created_at),
        "data": data,
        **facts_of(job),
        "usage": USAGE,
        "job": job.id,
    }
    return msgspec.json.encode(body)
