"""``/v1/videos`` as OpenAI's clients know it, over the jobs of a deployment.

A video is a job with one task. What our clients are told more, such as the seed, stands beside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...engines.diffusion.task import MediaTask
from ...engines.jobs.desk import JobRefused
from ...engines.jobs.job import Artefact, Job, JobError, NewJob
from ...realtime.refusals import not_one_of
from ..errors import refusal
from ..leaving import while_here
from .asking import Settings
from .common import Bodies, Handler, Json, asker, known, page_of, told
from .contents import answer_file, read_whole
from .fitting import fit
from .service import MediaService, seed_of
from .video_request import (
    IMAGE,
    REFERENCE,
    AskedVideo,
    length,
    read_remix,
    read_video,
    remix_task,
    video_task,
)
from .waiting import CANCELLED, JOB_HEADER, answer_failed, made

PATH = "/v1/videos"

POLL_HEADER = "openai-poll-after-ms"
QUEUED_POLL_MS = 500
"""After which to ask again for what waits, or has made no step yet."""

POLLS = 10
"""Of what remains; clients take the first interval that they are told for all polls."""

POLL_LEAST_MS, POLL_MOST_MS = 200, 5000

READING = 32
"""Requests whose bodies are read or looked at now; more are refused."""

VARIANTS: Mapping[str, str] = {
    "video": "content",
    "thumbnail": "thumbnail",
    "spritesheet": "spritesheet",
}
"""Files of a video by what clients call them."""

LACKING: Mapping[str, str] = {
    "edits": "no model here takes a video to change it; a remix makes one anew with another prompt",
    "extensions": "no model here takes a video to go on with",
    "characters": "no model here takes characters out of videos",
}
"""What OpenAI's API has, by the end of its address, and no family that is known can do."""


class VideoRoutes:
    """The routes over one deployment's jobs. For one event loop."""

    def __init__(self, service: MediaService) -> None:
        self._service = service
        self._bodies = Bodies()

    def routes(self) -> list[Route]:
        """All of them; those with a name of their own before that of any video."""
        lacking = [
            Route(f"{PATH}/{name}{more}", _lacking(name), methods=["GET", "POST"])
            for name in LACKING
            for more in ("", "/{id}")
        ]
        return [
            Route(PATH, told(self._all), methods=["GET", "POST"]),
            Route(f"{PATH}/sync", told(self._sync), methods=["POST"]),
            *lacking,
            Route(PATH + "/{id}", told(self._one), methods=["GET", "DELETE"]),
            Route(PATH + "/{id}/content", told(self._content), methods=["GET"]),
            Route(PATH + "/{id}/remix", told(self._remix), methods=["POST"]),
        ]

    async def _all(self, request: Request) -> Response:
        if request.method != "POST":
            return await self._list(request)
        return _answer(await self._service.submit(await self._asked(request)))

    async def _sync(self, request: Request) -> Response:
        new = await self._asked(request)
        job = await while_here(request.receive, made(self._service, new))
        if job.state != "completed":
            return answer_failed(job)
        answer = await answer_file(self._service, request, job, _file(job, "video"))
        answer.headers[JOB_HEADER] = job.id
        return answer

    async def _asked(self, request: Request) -> NewJob:
        """The job that a request means, its picture in the size of the clip."""
        service = self._service
        owner, key = asker(service, request)
        with self._bodies.read(READING):
            asked = await read_video(request, service.config.inputs)
            try:
                settings = asked.settings
                model = service.served(settings.model, "video")
                seed = seed_of(owner, key) if settings.seed is None else settings.seed
                task = video_task(asked, model, seed)
                service.check_webhook(settings.webhook)
                inputs = await self._inputs(asked, task)
            finally:
                await asked.close()
        return NewJob(
            kind="video",
            tasks=(task,),
            owner=owner,
            idempotency_key=key,
            webhook=settings.webhook,
            inputs=inputs,
        )

    async def _inputs(self, asked: AskedVideo, task: MediaTask) -> dict[str, bytes]:
        if asked.source is None:
            return {}
        picture = await self._service.reader.picture(asked.source, REFERENCE)
        # Pipelines stretch what has another shape.
        return {IMAGE: await asyncio.to_thread(fit, picture.png, task.width, task.height)}

    async def _remix(self, request: Request) -> Response:
        service = self._service
        owner, key = asker(service, request)
        earlier = await self._video(request)
        with self._bodies.read(READING):
            asked = await read_remix(request)
        new = await self._remixed(earlier, asked, owner, key)
        return _answer(await service.submit(new))

    async def _remixed(self, earlier: Job, asked: Settings, owner: str, key: str | None) -> NewJob:
        service, before = self._service, earlier.tasks[0]
        task = remix_task(asked, before, service.served(before.model, "video"))
        service.check_webhook(asked.webhook)
        # Copies: the earlier job's go with it.
        inputs = {name: await self._kept(name, key_) for name, key_ in before.inputs.items()}
        return NewJob(
            kind="video",
            tasks=(task,),
            owner=owner,
            idempotency_key=key,
            webhook=asked.webhook,
            remixed_from=earlier.id,
            inputs=inputs,
        )

    async def _kept(self, name: str, key: str) -> bytes:
        file = Artefact(name=f"input-{name}", key=key, type="image/png", size=0)
        return await read_whole(self._service, file)

    async def _list(self, request: Request) -> Response:
        page, frame = await page_of(self._service, request, "video", "video")
        return JSONResponse({**frame, "data": [video_of(job) for job in page.jobs]})

    async def _one(self, request: Request) -> Response:
        job = await self._video(request)
        if request.method != "DELETE":
            return _answer(job)
        await self._service.desk.delete(job.id, job.owner)
        return JSONResponse({"id": job.id, "deleted": True, "object": "video.deleted"})

    async def _content(self, request: Request) -> Response:
        variant = request.query_params.get("variant") or "video"
        if variant not in VARIANTS:
            raise not_one_of("variant", variant, VARIANTS)
        job = await self._video(request)
        if job.state == "completed":
            return await answer_file(self._service, request, job, _file(job, variant))
        if not job.ended:
            message = (
                f"the video is {job.state.replace('_', ' ')} and {job.progress} per cent done; "
                f"ask GET {PATH}/{job.id} until its status is completed"
            )
            raise JobRefused("not_ready", message)
        error = _error(job)
        message = f"There is no content, as the video failed: {error['message'].rstrip('.')}."
        return refusal(409, error["code"], message)

    async def _video(self, request: Request) -> Job:
        name = known(request.path_params["id"], "video")
        job = await self._service.desk.get(name, self._service.owner(request))
        if job.kind != "video":
            raise JobRefused("not_found", f"there is no video {name!r}")
        return job


def video_of(job: Job) -> Json:
    """A job as OpenAI's ``Video``, with what else there is to know of it. Times in whole seconds."""
    task, completed = job.tasks[0], job.state == "completed"
    return {
        "id": job.id,
        "object": "video",
        "model": task.model,
        "status": "failed" if job.state == "cancelled" else job.state,
        "progress": job.progress,
        "created_at": int(job.created_at),
        "completed_at": _whole(job.ended_at) if completed else None,
        "expires_at": _whole(job.expires_at),
        "size": f"{task.width}x{task.height}",
        "seconds": length(task.frames, task.frames_per_second),
        "prompt": task.prompt,
        "remixed_from_video_id": job.remixed_from,
        "error": _error(job) if job.state in ("failed", "cancelled") else None,
        "seed": task.seed,
        "steps": task.steps,
        "guidance": task.guidance,
        "frames": task.frames,
        "frames_per_second": task.frames_per_second,
        "step_ms": round(job.step_ms, 1),
        "remaining_ms": _whole(job.remaining_ms),
    }


def poll_after_ms(job: Job) -> int | None:
    """When to ask again; ``None`` once it has ended."""
    if job.ended:
        return None
    if job.state == "queued" or job.remaining_ms is None:
        return QUEUED_POLL_MS
    return int(max(POLL_LEAST_MS, min(POLL_MOST_MS, job.remaining_ms / POLLS)))


def _error(job: Job) -> dict[str, str]:
    """Why there is no video: there, a cancelled one has failed as well."""
    error = job.error or JobError(CANCELLED if job.state == "cancelled" else "internal_error", "")
    return {"code": error.code, "message": error.message or "the video failed"}


def _answer(job: Job) -> Response:
    after = poll_after_ms(job)
    headers = None if after is None else {POLL_HEADER: str(after)}
    return JSONResponse(video_of(job), headers=headers)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _file(job: Job, variant: str) -> Artefact:
    for each in job.artefacts:
        if each.name == VARIANTS[variant]:
            return each
    raise JobRefused("not_found", f"this video has no {variant}", param="variant")


def _lacking(name: str) -> Handler:
    async def refuse(_request: Request) -> Response:
        return refusal(400, "unsupported_value", f"{PATH}/{name}: {LACKING[name]}.")

    return refuse
