"""The chunks of a film: each a job, read back and made a fragment of one MP4."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...codecs.clips import read_clip
from ...codecs.fragments import FragmentedMovie
from ...codecs.h264 import even
from ...codecs.pictures import encode_picture
from ...engines.diffusion.abilities import Abilities
from ...engines.diffusion.task import MediaTask
from ...engines.jobs.desk import JobRefused
from ...engines.jobs.job import Job, NewJob
from .contents import read_whole
from .fitting import fit
from .job_request import seed_at
from .live_state import Json
from .live_wire import Start
from .service import MediaService, seed_of
from .video_request import IMAGE, REFERENCE, AskedVideo, source_of, video_task
from .waiting import finished, submitted, to_its_end


class ChunkFailed(Exception):
    """A chunk can't be made; the message is fit for a client."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of the film."""

    data: bytes
    """The first one begins with what a player must know of all."""

    frames: int


async def begin_film(service: MediaService, start: Start, owner: str) -> Film:
    """A film whose settings were checked, and whose first picture, if it has one, was read.

    Raises:
        Refusal, Refused, InputRefused: it can't be made; the message says why.
    """
    source = source_of(start.input_reference)
    model = service.served(start.model, "video")
    seed = seed_of(owner, None) if start.seed is None else start.seed
    task = video_task(AskedVideo(start, source), model, seed)
    picture = None
    if source is not None:
        found = await service.reader.picture(source, REFERENCE)
        picture = await asyncio.to_thread(fit, found.png, task.width, task.height)
    movie = await asyncio.to_thread(
        FragmentedMovie, task.width, task.height, task.frames_per_second
    )
    return Film(service, owner, task, movie, picture, model.abilities)


class Film:
    """Makes the chunks, one after the other."""

    def __init__(
        self,
        service: MediaService,
        owner: str,
        task: MediaTask,
        movie: FragmentedMovie,
        picture: bytes | None,
        able: Abilities,
    ) -> None:
        """``picture``: a PNG that the first chunk begins with."""
        self._service = service
        self._owner = owner
        self._task = task
        self._movie = movie
        self._picture = picture
        self._goes_on = (IMAGE,) in able.inputs
        self.prompt_chars = able.max_prompt_chars
        """Most that a prompt may have."""

    @property
    def codec(self) -> str:
        """As players name it (RFC 6381)."""
        return self._movie.codec

    @property
    def config(self) -> Json:
        """What a client is told of it."""
        task = self._task
        return {
            "model": task.model,
            "size": f"{task.width}x{task.height}",
            "seed": task.seed,
            "steps": task.steps,
            "guidance": task.guidance,
            "frames": task.frames,
            "frames_per_second": task.frames_per_second,
            "continuous": self._goes_on,
        }

    async def chunk(self, index: int, prompt: str) -> Chunk:
        """Make chunk ``index``. Cancelled, it stops and takes away its job.

        Raises:
            ChunkFailed: the job did not complete.
            JobRefused: it was not accepted, or is gone.
        """
        clip = await self._clip(self._new(index, prompt))
        goes_on_now = index > 0 and self._goes_on and len(clip) > 1
        if self._goes_on:
            self._picture = await asyncio.to_thread(_last, clip)
        # It begins with the frame that the one before it ended with.
        frames = clip[1:] if goes_on_now else clip
        fragment = await asyncio.to_thread(self._movie.feed, frames)
        data = self._movie.init + fragment if index == 0 else fragment
        return Chunk(data, len(frames))

    def _new(self, index: int, prompt: str) -> NewJob:
        task = self._task
        inputs = {IMAGE: self._picture} if self._picture is not None else {}
        task = msgspec.structs.replace(
            task,
            prompt=prompt,
            seed=seed_at(task.seed, index),
            inputs={name: name for name in inputs},
        )
        return NewJob(kind="video", tasks=(task,), owner=self._owner, inputs=inputs)

    async def _clip(self, new: NewJob) -> NDArray[np.uint8]:
        """The frames of a job's clip; the job is taken away on every path."""
        service = self._service
        with service.place():
            job = await submitted(service, new, lambda job: _taken_away(service, job))
            try:
                done = await finished(service, job, new.owner)
                return await self._frames(done)
            finally:
                await _taken_away(service, job)

    async def _frames(self, job: Job) -> NDArray[np.uint8]:
        if job.state != "completed":
            error = job.error
            raise ChunkFailed(
                error.code if error is not None else "internal_error",
                f"A chunk did not complete: {error.message if error is not None else job.state}.",
            )
        file = next(each for each in job.artefacts if each.name == "content")
        data = await read_whole(self._service, file)
        task = self._task
        pixels = even(task.width) * even(task.height)
        clip = await asyncio.to_thread(read_clip, data, max_pixels=pixels, max_frames=task.frames)
        # A side that is odd was made longer by a pixel.
        return clip.frames[:, : task.height, : task.width]


def _last(clip: NDArray[np.uint8]) -> bytes:
    return encode_picture(np.ascontiguousarray(clip[-1]))


async def _taken_away(service: MediaService, job: Job) -> None:
    """Delete a job that nobody is to see; also where the caller is cancelled."""
    with contextlib.suppress(JobRefused):
        await to_its_end(service.desk.delete(job.id, job.owner))
