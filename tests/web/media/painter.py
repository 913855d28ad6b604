"""A server whose pictures are made as soon as they are asked for."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
from tests.support.fake_desk import FakeDesk
from tests.support.waiting import until

from antiphon.codecs.pictures import CONTENT_TYPES, FORMS, encode_picture
from antiphon.engines.jobs.desk import Seen
from antiphon.engines.jobs.job import Job, NewJob

from .rig import Json, Rig

PATH = "/v1/images"

PREVIEW = encode_picture(np.full((8, 8, 3), 128, np.uint8), "jpeg")


class Painter(Rig):
    """Each job is begun, gets on by ``percents``, and ends; each per cent brings a preview of each
    of its pictures. ``code``: it fails, with that code."""

    def __init__(
        self, *, percents: Sequence[int] = (), code: str | None = None, **media: Any
    ) -> None:
        super().__init__(**media)
        self._percents = percents
        self._code = code
        self._taken: dict[str, int] = {}
        self._submit, self._watch = self.desk.submit, self.desk.watch
        self._work: set[asyncio.Task[None]] = set()
        self.desk.submit = self._paint  # type: ignore[method-assign]
        self.desk.watch = self._watched  # type: ignore[method-assign]

    @property
    def jobs(self) -> list[Job]:
        """All, in the order they came."""
        return list(self.desk.jobs.values())

    async def _paint(self, new: NewJob) -> Job:
        job = await self._submit(new)
        if not job.version:
            work = asyncio.create_task(self._made(job))
            self._work.add(work)
            work.add_done_callback(self._work.discard)
        return job

    async def _watched(self, job_id: str, owner: str) -> AsyncIterator[Seen]:
        async for seen in self._watch(job_id, owner):
            yield seen
            # Whoever watches is done with it, as it asks for the next.
            self._taken[job_id] = seen.job.version

    async def _made(self, job: Job) -> None:
        desk: FakeDesk = self.desk
        await desk.begin(job.id)
        for percent in self._percents:
            for at in range(len(job.tasks)):
                await desk.progress(job.id, percent, PREVIEW, at)
                version = desk.jobs[job.id].version
                await until(lambda now=version: self._taken.get(job.id, -1) >= now)  # type: ignore[misc]
        if self._code is not None:
            await desk.fail(job.id, self._code, "it went wrong")
            return
        form = job.asked["output_format"]
        assert form in FORMS
        names = ["content", *(f"content-{at}" for at in range(1, len(job.tasks)))]
        files = {name: (CONTENT_TYPES[form], painted(at)) for at, name in enumerate(names)}
        await desk.complete(job.id, files)


def painted(at: int) -> bytes:
    """What the file of a job's picture ``at`` has in it."""
    return f"picture {at} ".encode() * 20


def scene(width: int, height: int, *, alpha: bool = False) -> bytes:
    """A PNG that is red left of its middle and blue right of it, there clear with ``alpha``."""
    pixels = np.zeros((height, width, 4 if alpha else 3), np.uint8)
    pixels[:, : width // 2, 0] = 255
    pixels[:, width // 2 :, 2] = 255
    if alpha:
        pixels[:, : width // 2, 3] = 255
    return encode_picture(pixels)


def data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def refused(answer: Any, status: int, code: str, param: str | None = None) -> str:
    """The message of an answer that is a refusal."""
    assert answer.status_code == status, answer.text
    error: Json = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param), error
    return str(error["message"])
