"""The desk over the database and the store. It runs no model."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Literal, ParamSpec, TypeVar

import msgspec
import sqlalchemy as sa

from ..chunks import StageError
from ..stage import StageFailure
from .artefacts import PREFIX, Artefacts, Missing
from .desk import JobRefused, Page, Seen
from .job import Artefact, Job, NewJob, State
from .making import DATABASE_AWAY
from .queue import Queue, prepare
from .records import Ending, Records
from .schema import migrate, open_database
from .settings import JobSettings

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

LOOK_SECONDS = 0.05
"""Between looks at what watched jobs changed; one look for all."""

MAX_WATCHERS = 1000


@dataclass(eq=False, slots=True)
class _Watcher:
    job_id: str
    version: int = -1
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class SqlDesk:
    """Implements :class:`.desk.Desk`."""

    def __init__(self, settings: JobSettings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._engine: sa.Engine | None = None
        self._kept: Records | None = None
        self._watchers: set[_Watcher] = set()
        self._looker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See :meth:`.desk.Desk.start`."""
        try:
            await asyncio.to_thread(self._open)
        except Exception as error:
            LOG.exception("the jobs can't be opened")
            raise StageFailure(
                StageError("jobs_unavailable", f"media: {type(error).__name__}: {error}")
            ) from error
        self._looker = asyncio.create_task(self._look_on())

    def _open(self) -> None:
        self._engine = engine = open_database(self._settings.database, pool=10)
        migrate(engine)
        prepare(engine)
        self._queue = Queue(engine)
        self._store = Artefacts(self._settings.store, self._settings.store_options)
        self._kept = Records(
            engine,
            queue_limit=self._settings.queue_limit,
            ending=Ending(self._settings.keep_seconds),
            clock=self._clock,
        )

    @property
    def _records(self) -> Records:
        if self._kept is None:
            # A server takes requests while it still opens them.
            raise JobRefused("store_unavailable", "jobs are not open yet; try again")
        return self._kept

    async def submit(self, new: NewJob) -> Job:
        """See :meth:`.desk.Desk.submit`."""
        digest = request_digest(new)
        return await self._ask(self._submit, new, digest)

    def _submit(self, new: NewJob, digest: str) -> Job:
        key = new.idempotency_key
        if key and (earlier := self._records.of_key(new.owner, key, digest)) is not None:
            return earlier
        job_id = f"{new.kind}_{uuid.uuid4().hex}"
        keys = {name: f"{PREFIX}/{job_id}/in/{at}" for at, name in enumerate(new.inputs)}
        try:
            for name, data in new.inputs.items():
                self._put(keys[name], data)
            job = Job(
                id=job_id,
                kind=new.kind,
                tasks=tuple(
                    msgspec.structs.replace(
                        task, inputs={name: keys.get(at, at) for name, at in task.inputs.items()}
                    )
                    for task in new.tasks
                ),
                asked=new.asked,
                owner=new.owner,
                created_at=self._clock(),
                webhook=new.webhook,
                remixed_from=new.remixed_from,
            )
            recorded = self._records.add(
                job, key=key, digest=digest, also=lambda line: self._queue.add(line, job)
            )
        except JobRefused:
            self._store.delete(keys.values())
            raise
        if recorded.id != job_id:
            self._store.delete(keys.values())
        return recorded

    def _put(self, key: str, data: bytes) -> None:
        try:
            self._store.put(key, data)
        except Exception as error:
            LOG.exception("the file store can't be written to")
            raise JobRefused("store_unavailable", "files can't be stored just now") from error

    async def get(self, job_id: str, owner: str | None) -> Job:
        """See :meth:`.desk.Desk.get`."""
        return await self._ask(self._records.get, job_id, owner)

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
        """See :meth:`.desk.Desk.list`."""
        return await self._ask(
            self._records.list,
            kind,
            owner,
            after=after,
            limit=limit,
            order=order,
            state=state,
        )

    async def cancel(self, job_id: str, owner: str) -> Job:
        """See :meth:`.desk.Desk.cancel`."""
        job = await self._ask(self._records.cancel, job_id, owner)
        if job.state == "cancelled":
            await self._aside(self._queue.cancel, job_id)
        return job

    async def delete(self, job_id: str, owner: str) -> Job:
        """See :meth:`.desk.Desk.delete`."""
        job = await self._ask(self._records.delete, job_id, owner)
        if job.state != "in_progress":
            await self._aside(self._queue.remove, job_id)
        await self._aside(self._store.delete_job, job_id)
        return job

    async def _aside(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Tidy up; a sweep does it later where this fails."""
        try:
            await asyncio.to_thread(call, *args, **kwargs)
        except Exception:
            LOG.exception("what is left of a job could not be taken away; it is tried again")

    async def watch(self, job_id: str, owner: str) -> AsyncIterator[Seen]:
        """See :meth:`.desk.Desk.watch`. Ends with ``JobRefused`` (``not_found``) where the job is
        deleted meanwhile."""
        if len(self._watchers) >= MAX_WATCHERS:
            raise JobRefused("queue_full", "too many watch jobs already; poll instead")
        watcher = _Watcher(job_id)
        self._watchers.add(watcher)
        previews_since = -1
        try:
            while True:
                watcher.changed.clear()
                job, previews = await self._ask(self._records.look, job_id, owner, previews_since)
                watcher.version = job.version
                for preview in previews:
                    previews_since = max(previews_since, preview.version)
                    yield Seen(job, preview.jpeg, preview.part)
                if not previews:
                    yield Seen(job)
                if job.ended:
                    return
                await watcher.changed.wait()
        finally:
            self._watchers.discard(watcher)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            waiting = [each for each in self._watchers if not each.changed.is_set()]
            if not waiting:
                continue
            ids = sorted({each.job_id for each in waiting})
            try:
                versions = await asyncio.to_thread(self._records.versions, ids)
            except DATABASE_AWAY:
                LOG.warning("the database of jobs can't be reached; watchers wait")
                continue
            for each in waiting:
                if versions.get(each.job_id) != each.version:
                    each.changed.set()

    async def unfinished(self) -> bool:
        """See :meth:`.desk.Desk.unfinished`."""
        return await self._ask(self._records.unfinished)

    async def content(
        self, artefact: Artefact, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """See :meth:`.desk.Desk.content`. Raises ``JobRefused`` (``not_found``)."""
        pieces = self._store.pieces(artefact.key, start, end)
        while True:
            try:
                piece = await asyncio.to_thread(next, pieces, None)
            except Missing:
                message = f"the file {artefact.name!r} is not there any more"
                raise JobRefused("not_found", message) from None
            if piece is None:
                return
            yield piece

    async def _ask(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await asyncio.to_thread(call, *args, **kwargs)
        except DATABASE_AWAY as error:
            LOG.warning("the database of jobs can't be reached: %s", type(error).__name__)
            raise JobRefused(
                "store_unavailable", "jobs can't be reached just now; try again"
            ) from error

    async def close(self) -> None:
        """See :meth:`.desk.Desk.close`."""
        looker, self._looker = self._looker, None
        if looker is not None:
            looker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looker
        engine, self._engine = self._engine, None
        self._kept = None
        if engine is not None:
            await asyncio.to_thread(self._queue.close)
            await asyncio.to_thread(engine.dispose)


def request_digest(new: NewJob) -> str:
    """Tells one request from another that came with the same idempotency key: SHA-256, hex."""
    digest = hashlib.sha256()
    plain = msgspec.structs.replace(new, idempotency_key=None, inputs={})
    digest.update(msgspec.json.encode(plain, order="deterministic"))
    for name in sorted(new.inputs):
        digest.update(hashlib.sha256(new.inputs[name]).digest())
    return digest.hexdigest()
