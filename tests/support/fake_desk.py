"""A desk in memory: jobs are handed in as usual, and the test moves them on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Literal

import msgspec

from antiphon.engines.jobs.desk import JobRefused, Page, Seen
from antiphon.engines.jobs.job import Artefact, Job, JobError, NewJob, State
from antiphon.engines.jobs.sql_desk import request_digest

replace = msgspec.structs.replace

STEP = 0.001
"""Seconds between two jobs, so that each has a moment of its own."""


class FakeDesk:
    """Implements ``Desk``. All that it keeps may be looked at."""

    def __init__(self, *, queue_limit: int = 1000) -> None:
        self.jobs: dict[str, Job] = {}
        """By id, in the order they came."""

        self.files: dict[str, bytes] = {}
        """By key: what went in, and what came of it."""

        self.started = False
        self.cancelled: list[str] = []
        self._limit = queue_limit
        self._keys: dict[tuple[str, str], tuple[str, str]] = {}
        self._previews: dict[str, tuple[int, int, bytes]] = {}
        self._count = 0
        self._watchers: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def stored_inputs(self) -> dict[str, bytes]:
        """What went in, by key."""
        return {key: data for key, data in self.files.items() if "/in/" in key}

    async def start(self) -> None:
        self.started = True

    async def close(self) -> None:
        self.started = False

    async def unfinished(self) -> bool:
        return any(not job.ended for job in self.jobs.values())

    async def submit(self, new: NewJob) -> Job:
        digest = request_digest(new)
        key = (new.owner, new.idempotency_key or "")
        if new.idempotency_key and key in self._keys:
            job_id, earlier = self._keys[key]
            if earlier != digest:
                raise JobRefused(
                    "idempotency_mismatch",
                    "the key was used for another request",
                    param="Idempotency-Key",
                )
            return self.jobs[job_id]
        if sum(job.state == "queued" for job in self.jobs.values()) >= self._limit:
            raise JobRefused("queue_full", f"{self._limit} jobs wait already (media.queue)")
        self._count += 1
        job_id = f"{new.kind}_{self._count:032x}"
        if new.idempotency_key:
            self._keys[key] = (job_id, digest)
        keys = {name: f"jobs/{job_id}/in/{at}" for at, name in enumerate(new.inputs)}
        self.files |= {keys[name]: data for name, data in new.inputs.items()}
        tasks = tuple(
            replace(task, inputs={name: keys.get(at, at) for name, at in task.inputs.items()})
            for task in new.tasks
        )
        job = Job(
            id=job_id,
            kind=new.kind,
            tasks=tasks,
            asked=new.asked,
            owner=new.owner,
            created_at=1_700_000_000 + self._count * STEP,
            webhook=new.webhook,
            remixed_from=new.remixed_from,
        )
        self.jobs[job_id] = job
        return job

    async def get(self, job_id: str, owner: str | None) -> Job:
        job = self.jobs.get(job_id)
        if job is None or owner not in (None, job.owner):
            raise JobRefused("not_found", f"there is no job {job_id!r}")
        return job

    async def list(
        self,
        kind: str | None,
        owner: str,
        *,
        after: str | None,
        limit: int,
        order: Literal["asc", "desc"],
        state: State | None = None,
    ) -> Page:
        mine = [job for job in self.jobs.values() if job.owner == owner]
        found = [job for job in mine if kind in (None, job.kind) and state in (None, job.state)]
        if order == "desc":
            found.reverse()
        if after is not None:
            last = next((job for job in mine if job.id == after), None)
            if last is None:
                raise JobRefused("not_found", f"there is no job {after!r}", param="after")
            sign = -1 if order == "desc" else 1
            found = [job for job in found if sign * (job.created_at - last.created_at) > 0]
        return Page(tuple(found[:limit]), len(found) > limit)

    async def cancel(self, job_id: str, owner: str) -> Job:
        job = await self.get(job_id, owner)
        self.cancelled.append(job_id)
        if not job.ended:
            error = JobError("cancelled", "the job was cancelled")
            self._change(job_id, state="cancelled", error=error, ended_at=job.created_at + 1)
        return self.jobs[job_id]

    async def delete(self, job_id: str, owner: str) -> Job:
        job = await self.get(job_id, owner)
        del self.jobs[job_id]
        self.files = {key: data for key, data in self.files.items() if job_id not in key}
        self._tell()
        return job

    async def watch(self, job_id: str, owner: str) -> AsyncIterator[Seen]:
        version, preview = -1, -1
        watcher = (asyncio.get_running_loop(), asyncio.Event())
        self._watchers.append(watcher)
        try:
            while True:
                watcher[1].clear()
                job = await self.get(job_id, owner)
                found = self._previews.get(job_id)
                if found is not None and found[0] > preview:
                    preview, part, jpeg = found
                    yield Seen(job, jpeg, part)
                elif job.version > version:
                    yield Seen(job)
                version = job.version
                if job.ended:
                    return
                await watcher[1].wait()
        finally:
            self._watchers.remove(watcher)

    async def content(
        self, artefact: Artefact, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        if artefact.key not in self.files:
            raise JobRefused("not_found", f"the file {artefact.name!r} is not there any more")
        data = self.files[artefact.key][start:end]
        for at in range(0, len(data), 64):
            yield data[at : at + 64]

    async def begin(self, job_id: str) -> None:
        """A worker takes it."""
        job = self.jobs[job_id]
        self._change(
            job_id, state="in_progress", started_at=job.created_at + 0.5, attempts=job.attempts + 1
        )

    async def progress(
        self, job_id: str, percent: int, preview: bytes | None = None, part: int = 0
    ) -> None:
        """It gets on."""
        if preview is not None:
            self._previews[job_id] = (self.jobs[job_id].version + 1, part, preview)
        self._change(job_id, progress=percent, step_ms=10.0, remaining_ms=100.0 - percent)

    async def complete(self, job_id: str, files: Mapping[str, tuple[str, bytes]]) -> None:
        """It is made; ``files`` are types and bytes by name."""
        made: list[Artefact] = []
        for name, (kind, data) in files.items():
            key = f"jobs/{job_id}/1/{name}"
            self.files[key] = data
            made.append(Artefact(name=name, key=key, type=kind, size=len(data)))
        self._change(
            job_id,
            state="completed",
            progress=100,
            remaining_ms=None,
            artefacts=tuple(made),
            ended_at=self.jobs[job_id].created_at + 2,
        )

    async def fail(self, job_id: str, code: str, message: str) -> None:
        """It can't be made."""
        ended = self.jobs[job_id].created_at + 2
        self._change(job_id, state="failed", error=JobError(code, message), ended_at=ended)

    def _change(self, job_id: str, **values: object) -> None:
        job = self.jobs[job_id]
        self.jobs[job_id] = replace(job, version=job.version + 1, **values)
        self._tell()

    def _tell(self) -> None:
        # The test may be in another thread than the server's loop.
        for loop, event in list(self._watchers):
            loop.call_soon_threadsafe(event.set)
