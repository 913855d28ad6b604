"""Pictures in answers, and the events of one that is told while it forms."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import cast

from ...codecs.pictures import FORMS, decode_picture, encode_picture
from ...engines.diffusion.task import MediaTask
from ...engines.jobs.desk import JobRefused, Seen
from ...engines.jobs.job import Artefact, Job, NewJob
from ..transcripts import sse
from .common import Json, beating
from .image_request import AskedImage
from .service import MediaService
from .waiting import handed_in

USAGE: Json = {
    "total_tokens": 0,
    "input_tokens": 0,
    "output_tokens": 0,
    "input_tokens_details": {"text_tokens": 0, "image_tokens": 0},
}
"""Nothing here is counted in tokens."""


PREVIEW_PIXELS = 1 << 20
"""Of a picture that forms; ours have fewer."""

NOTHING = b": waiting\n\n"
"""Sent where there is nothing to say, so that proxies keep the stream."""


class ImageEvents:
    """One request's stream: partial pictures, as many as were asked for, then each whole one."""

    def __init__(self, service: MediaService, new: NewJob, asked: AskedImage) -> None:
        self._service = service
        self._new = new
        self._name = "image_edit" if asked.work == "edit" else "image_generation"
        self._partials = asked.settings.partial_images or 0
        self._sent = [0] * len(new.tasks)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """What is sent; the first piece comes once the job is accepted. Closed before its end, it
        stops the job.

        Raises:
            JobRefused: the job is not accepted.
        """
        async with handed_in(self._service, self._new) as job:
            yield NOTHING
            try:
                async with asyncio.timeout(self._service.config.wait_seconds):
                    async for piece in self._following(job):
                        yield piece
            except TimeoutError:
                await self._service.desk.cancel(job.id, job.owner)
                seconds = self._service.config.wait_seconds
                yield failed("wait_timeout", f"It took longer than {seconds} s and was stopped.")
            except JobRefused as refused:
                yield failed(refused.code, refused.message)

    async def _following(self, job: Job) -> AsyncGenerator[bytes, None]:
        watch = cast("AsyncGenerator[Seen, None]", self._service.desk.watch(job.id, job.owner))
        last = job
        async with aclosing(watch), aclosing(beating(watch)) as told:
            async for seen in told:
                if seen is None:
                    yield NOTHING
                    continue
                last = seen.job
                if seen.preview is not None and self._is_due(seen):
                    yield await self._partial(seen)
        if last.state != "completed":
            error = last.error
            yield failed(
                error.code if error else "internal_error",
                error.message if error else "The job did not complete.",
            )
            return
        for at, artefact in enumerate(pictures_of(last)):
            yield await self._whole(last, at, artefact)

    def _is_due(self, seen: Seen) -> bool:
        """Whether this is one of the moments that the partial pictures are spread over."""
        sent = self._sent[seen.preview_of]
        due = 100 * (sent + 1) / (self._partials + 1)
        return sent < self._partials and seen.job.progress >= due and not seen.job.ended

    async def _partial(self, seen: Seen) -> bytes:
        assert seen.preview is not None
        at, job = seen.preview_of, seen.job
        file = await asyncio.to_thread(recoded, seen.preview, job)
        index = self._sent[at]
        self._sent[at] += 1
        more = {"partial_image_index": index}
        return sse(self._event("partial_image", job, at, file, more))

    async def _whole(self, job: Job, at: int, artefact: Artefact) -> bytes:
        file = await read_whole(self._service, artefact)
        return sse(self._event("completed", job, at, file, {"usage": USAGE}))

    def _event(self, what: str, job: Job, at: int, file: bytes, more: Json) -> Json:
        return {
            "type": f"{self._name}.{what}",
            "b64_json": encoded(file),
            "created_at": int(job.created_at),
            **facts_of(job),
            **more,
            "image_index": at,
            "seed": job.tasks[at].seed,
            "job": job.id,
        }


def recoded(jpeg: bytes, job: Job) -> bytes:
    """A picture that forms in the form that was asked for. Blocks."""
    form = job.asked.get("output_format")
    if form == "jpeg" or form not in FORMS:
        return jpeg
    return encode_picture(decode_picture(jpeg, max_pixels=PREVIEW_PIXELS), form)


def failed(code: str, message: str) -> bytes:
    """The last event where something went wrong; stock clients raise it."""
    said = f"{message[:1].upper()}{message[1:].rstrip('.')}."
    error = {"message": said, "type": "server_error", "param": None, "code": code}
    return sse({"error": error})


def pictures_of(job: Job) -> Sequence[Artefact]:
    """The pictures of a job, in the order of its tasks."""
    found = {each.name: each for each in job.artefacts}
    return [found[f"content-{at}" if at else "content"] for at in range(len(job.tasks))]


def facts_of(job: Job) -> Json:
    """What an answer, and each event, tells of the pictures."""
    task: MediaTask = job.tasks[0]
    return {
        "background": "opaque",
        "output_format": job.asked.get("output_format", "png"),
        "quality": job.asked.get("quality", "auto"),
        "size": f"{task.width}x{task.height}",
    }


async def read_whole(service: MediaService, artefact: Artefact) -> bytes:
    """A file, which is a picture and so of moderate size.

    Raises:
        JobRefused: it is not there any more.
    """
    return b"".join([piece async for piece in service.desk.content(artefact)])


def encoded(file: bytes) -> str:
    """As JSON has it."""
    return base64.b64encode(file).decode()
