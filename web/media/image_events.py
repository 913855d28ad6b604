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
from ...engines.jobs.job import Artefact, Job, JobError, NewJob
from ..errors import as_sentence, envelope
from ..transcripts import sse
from .common import Json, beating
from .contents import read_whole
from .image_request import AskedImage
from .service import MediaService
from .waiting import TIMED_OUT, handed_in, stopped

USAGE: Json = {
    "total_tokens": 0,
    "input_tokens": 0,
    "output_tokens": 0,
    "input_tokens_details": {"text_tokens": 0, "image_tokens": 0},
}
"""Nothing here is counted in tokens."""


PREVIEW_PIXELS = 1 << 20
"""Of a picture that forms; ours have fewer."""


class End:
    """Nothing more is seen of a job."""


END = End()

NO_REASON = JobError("internal_error", "the job did not complete")

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
        self._job: Job | None = None

    @property
    def job(self) -> Job:
        """As it was seen last; to be asked for once the first piece is there."""
        assert self._job is not None
        return self._job

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """What is sent; the first piece comes once the job is accepted. Closed before its end, it
        stops the job.

        Raises:
            JobRefused: the job is not accepted.
        """
        async with handed_in(self._service, self._new) as job:
            self._job = job
            yield NOTHING
            try:
                async with aclosing(self._until_its_end()) as events:
                    async for event in events:
                        yield event
            except JobRefused as refused:
                yield failed(JobError(refused.code, refused.message))

    async def _until_its_end(self) -> AsyncGenerator[bytes, None]:
        late: JobError | None = None
        try:
            async with aclosing(self._forming()) as partials:
                async for event in partials:
                    yield event
        except TimeoutError:
            seconds = self._service.config.wait_seconds
            message = f"it took longer than {seconds} s (media.wait_seconds), and was stopped"
            late = JobError(TIMED_OUT, message)
            self._job = await stopped(self._service, self.job.id, self.job.owner)
        job = self.job
        if job.state != "completed":
            yield failed(late or job.error or NO_REASON)
            return
        for at, artefact in enumerate(pictures_of(job)):
            yield await self._whole(job, at, artefact)

    async def _forming(self) -> AsyncGenerator[bytes, None]:
        """Partial pictures until the job has ended; ``TimeoutError`` where that takes too long."""
        until = asyncio.get_running_loop().time() + self._service.config.wait_seconds
        job_id, owner = self.job.id, self.job.owner
        watch = cast("AsyncGenerator[Seen, None]", self._service.desk.watch(job_id, owner))
        async with aclosing(watch), aclosing(beating(watch)) as told:
            while True:
                # Not around all of it: what is over while a piece is sent would end the sending.
                async with asyncio.timeout_at(until):
                    seen = await anext(told, END)
                if isinstance(seen, End):
                    return
                if seen is None:
                    yield NOTHING
                    continue
                self._job = seen.job
                if seen.preview is not None and self._is_due(seen):
                    yield await self._partial(seen, seen.preview)

    def _is_due(self, seen: Seen) -> bool:
        """Whether this is one of the moments that the partial pictures are spread over."""
        sent = self._sent[seen.preview_of]
        due = 100 * (sent + 1) / (self._partials + 1)
        return sent < self._partials and seen.job.progress >= due and not seen.job.ended

    async def _partial(self, seen: Seen, preview: bytes) -> bytes:
        at, job = seen.preview_of, seen.job
        more: Json = {"partial_image_index": self._sent[at]}
        self._sent[at] += 1
        file = await asyncio.to_thread(recoded, preview, job)
        return self._event("partial_image", job, at, file, more)

    async def _whole(self, job: Job, at: int, artefact: Artefact) -> bytes:
        file = await read_whole(self._service, artefact)
        # It may have megabytes.
        return await asyncio.to_thread(self._event, "completed", job, at, file, {"usage": USAGE})

    def _event(self, what: str, job: Job, at: int, file: bytes, more: Json) -> bytes:
        return sse(
            {
                "type": f"{self._name}.{what}",
                "b64_json": encoded(file),
                "created_at": int(job.created_at),
                **facts_of(job),
                **more,
                "image_index": at,
                "seed": job.tasks[at].seed,
                "job": job.id,
            }
        )


def recoded(jpeg: bytes, job: Job) -> bytes:
    """A picture that forms in the form that was asked for. Blocks."""
    form, quality = job.asked.get("output_format"), job.asked.get("output_compression")
    if form not in FORMS or (form == "jpeg" and quality is None):
        return jpeg
    pixels = decode_picture(jpeg, max_pixels=PREVIEW_PIXELS)
    return encode_picture(pixels, form, quality=quality if isinstance(quality, int) else None)


def failed(error: JobError) -> bytes:
    """The last event where something went wrong; stock clients raise it."""
    return sse(envelope(as_sentence(error.message), "server_error", error.code))


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


def encoded(file: bytes) -> str:
    """As JSON has it."""
    return base64.b64encode(file).decode()
