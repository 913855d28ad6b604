"""The records of jobs: the one place where their state is kept. The server's half.

All calls block, and may be made from any thread. Every change is one transaction that looks at
the state before it, so that what is read is true at every moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from .desk import JobRefused, Page
from .job import Artefact, Job, JobError, State
from .schema import IDEMPOTENCY, JOBS, PARTS

OPEN = ("queued", "in_progress")

CHUNK = 500
"""Ids in one query."""

Clock = Callable[[], float]

_LIVE = tuple(
    JOBS.c[name]
    for name in (
        "asked state version progress step_ms remaining_ms started_at ended_at expires_at "
        "error artefacts attempts"
    ).split()
)


@dataclass(frozen=True, slots=True)
class Preview:
    """A picture as it forms."""

    part: int
    version: int
    jpeg: bytes


@dataclass(frozen=True, slots=True)
class Ending:
    """What an end brings about: when record and files expire."""

    keep_seconds: float | None


def ended_values(
    state: Literal["completed", "failed", "cancelled"],
    now: float,
    ending: Ending,
    error: JobError | None,
    webhook: bool,
) -> dict[str, Any]:
    """The columns that an end sets."""
    return {
        "state": state,
        "version": JOBS.c.version + 1,
        "ended_at": now,
        "expires_at": None if ending.keep_seconds is None else now + ending.keep_seconds,
        "error": msgspec.json.encode(error) if error else None,
        "remaining_ms": None,
        "worker": None,
        "hook_due": now if webhook else None,
    }


def as_job(row: sa.Row[Any]) -> Job:
    """The job of a row that :func:`job_columns` selects."""
    job = msgspec.json.decode(row.asked, type=Job)
    return msgspec.structs.replace(
        job,
        state=row.state,
        version=row.version,
        progress=row.progress,
        step_ms=row.step_ms,
        remaining_ms=row.remaining_ms,
        started_at=row.started_at,
        ended_at=row.ended_at,
        expires_at=row.expires_at,
        attempts=row.attempts,
        error=msgspec.json.decode(row.error, type=JobError) if row.error else None,
        artefacts=(
            msgspec.json.decode(row.artefacts, type=tuple[Artefact, ...]) if row.artefacts else ()
        ),
    )


def job_columns() -> sa.Select[Any]:
    """Select what :func:`as_job` needs."""
    return sa.select(*_LIVE)


def chunks(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    """Parts of at most :data:`CHUNK`."""
    return (ids[at : at + CHUNK] for at in range(0, len(ids), CHUNK))


class Records:
    """What the server writes and reads."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        queue_limit: int = 1000,
        ending: Ending | None = None,
        clock: Clock = time.time,
    ) -> None:
        self._engine = engine
        self._queue_limit = queue_limit
        self._ending = ending or Ending(None)
        self._clock = clock

    def add(
        self,
        job: Job,
        *,
        key: str | None = None,
        digest: str = "",
        also: Callable[[sa.Connection], None] | None = None,
    ) -> Job:
        """Record a job, unless the idempotency key names one already: then return that.

        ``also``: what belongs to the same transaction.

        Raises:
            JobRefused: ``queue_full``, or ``idempotency_mismatch``.
        """
        try:
            with self._engine.begin() as line:
                return self._add(line, job, key, digest, also)
        except IntegrityError:
            # Another request with the same key was a moment earlier.
            earlier = self.of_key(job.owner, key, digest) if key else None
            if earlier is None:
                raise
            return earlier

    def _add(
        self,
        line: sa.Connection,
        job: Job,
        key: str | None,
        digest: str,
        also: Callable[[sa.Connection], None] | None,
    ) -> Job:
        if key:
            # First, as it takes SQLite's write lock: so nothing changes after the looks below.
            if (earlier := self._of_key(line, job.owner, key, digest)) is not None:
                return earlier
            line.execute(
                sa.insert(IDEMPOTENCY).values(
                    owner=job.owner, key=key, digest=digest, job_id=job.id
                )
            )
        line.execute(
            sa.insert(JOBS).values(
                id=job.id,
                owner=job.owner,
                kind=job.kind,
                state="queued",
                created_at=job.created_at,
                asked=msgspec.json.encode(job),
            )
        )
        # After the insert, which on SQLite keeps others from adding between the look and the end.
        waiting = line.execute(
            sa.select(sa.func.count()).select_from(JOBS).where(JOBS.c.state == "queued")
        ).scalar_one()
        if waiting > self._queue_limit:
            raise JobRefused(
                "queue_full",
                f"{self._queue_limit} jobs wait already, and no more may; try again later",
            )
        line.execute(
            sa.insert(PARTS), [{"job_id": job.id, "part": at} for at in range(len(job.tasks))]
        )
        if also is not None:
            also(line)
        return job

    def of_key(self, owner: str, key: str, digest: str) -> Job | None:
        """The job that an idempotency key names.

        Raises:
            JobRefused: ``idempotency_mismatch``: the key came with another request.
        """
        with self._engine.connect() as line:
            return self._of_key(line, owner, key, digest)

    def _of_key(self, line: sa.Connection, owner: str, key: str, digest: str) -> Job | None:
        row = line.execute(
            sa.select(IDEMPOTENCY.c.digest, IDEMPOTENCY.c.job_id).where(
                IDEMPOTENCY.c.owner == owner, IDEMPOTENCY.c.key == key
            )
        ).one_or_none()
        if row is None:
            return None
        if row.digest != digest:
            raise JobRefused(
                "idempotency_mismatch",
                "this Idempotency-Key came with another request before; use a new one",
                param="Idempotency-Key",
            )
        found = line.execute(job_columns().where(JOBS.c.id == row.job_id)).one_or_none()
        return as_job(found) if found is not None else None

    def get(self, job_id: str, owner: str | None) -> Job:
        """A job; ``owner`` ``None``: whoever's. Raises ``JobRefused`` (``not_found``)."""
        with self._engine.connect() as line:
            return self._get(line, job_id, owner)

    def _get(self, line: sa.Connection, job_id: str, owner: str | None) -> Job:
        asked = job_columns().where(JOBS.c.id == job_id)
        if owner is not None:
            asked = asked.where(JOBS.c.owner == owner)
        row = line.execute(asked).one_or_none()
        if row is None:
            raise JobRefused("not_found", f"there is no job {job_id!r}")
        return as_job(row)

    def list(
        self,
        kind: str | None,
        owner: str,
        *,
        after: str | None,
        limit: int,
        order: Literal["asc", "desc"],
        state: State | None = None,
    ) -> Page:
        """Jobs by their creation. Raises ``JobRefused`` where ``after`` names none."""
        query = job_columns().where(JOBS.c.owner == owner)
        if kind is not None:
            query = query.where(JOBS.c.kind == kind)
        if state is not None:
            query = query.where(JOBS.c.state == state)
        place = sa.tuple_(JOBS.c.created_at, JOBS.c.id)
        rising = order == "asc"
        with self._engine.connect() as line:
            if after is not None:
                seen = line.execute(
                    sa.select(JOBS.c.created_at).where(JOBS.c.id == after, JOBS.c.owner == owner)
                ).scalar()
                if seen is None:
                    raise JobRefused("not_found", f"there is no job {after!r}", param="after")
                mark = sa.tuple_(sa.literal(seen), sa.literal(after))
                query = query.where(place > mark if rising else place < mark)
            columns = (JOBS.c.created_at, JOBS.c.id)
            query = query.order_by(*(each.asc() if rising else each.desc() for each in columns))
            rows = line.execute(query.limit(limit + 1)).all()
        return Page(tuple(as_job(row) for row in rows[:limit]), more=len(rows) > limit)

    def cancel(self, job_id: str, owner: str) -> Job:
        """Stop a job: see :meth:`.desk.Desk.cancel`. Raises ``JobRefused`` (``not_found``)."""
        with self._engine.begin() as line:
            mine = (JOBS.c.id == job_id, JOBS.c.owner == owner)
            asked = line.execute(
                sa.update(JOBS)
                .where(*mine, JOBS.c.state.in_(OPEN))
                .values(cancelling=True)
                .returning(JOBS.c.state)
            ).scalar()
            if asked == "queued":
                webhook = bool(self._get(line, job_id, owner).webhook)
                error = JobError("cancelled", "the job was cancelled")
                values = ended_values("cancelled", self._clock(), self._ending, error, webhook)
                line.execute(
                    sa.update(JOBS).where(*mine, JOBS.c.state == "queued").values(**values)
                )
            return self._get(line, job_id, owner)

    def delete(self, job_id: str, owner: str) -> Job:
        """Take the record away; who works on it finds it gone. Raises ``JobRefused``."""
        with self._engine.begin() as line:
            # A change first, so that nothing comes between the look and the end of it.
            line.execute(
                sa.update(JOBS)
                .where(JOBS.c.id == job_id, JOBS.c.owner == owner)
                .values(cancelling=True)
            )
            job = self._get(line, job_id, owner)
            remove(line, job_id)
            return job

    def versions(self, ids: Sequence[str]) -> dict[str, int]:
        """The versions of those that are there; for those who watch them."""
        found: dict[str, int] = {}
        with self._engine.connect() as line:
            for some in chunks(ids):
                rows = line.execute(sa.select(JOBS.c.id, JOBS.c.version).where(JOBS.c.id.in_(some)))
                found.update((row.id, row.version) for row in rows)
        return found

    def unfinished(self) -> bool:
        """Whether any job, of whomever, has not ended."""
        asked = sa.select(JOBS.c.id).where(JOBS.c.state.in_(OPEN)).limit(1)
        with self._engine.connect() as line:
            return line.execute(asked).first() is not None

    def look(self, job_id: str, owner: str, since: int) -> tuple[Job, Sequence[Preview]]:
        """A job, and its previews that are newer than a version. Raises ``JobRefused``."""
        with self._engine.connect() as line:
            job = self._get(line, job_id, owner)
            rows = line.execute(
                sa.select(PARTS.c.part, PARTS.c.preview_version, PARTS.c.preview)
                .where(
                    PARTS.c.job_id == job_id,
                    PARTS.c.preview.is_not(None),
                    PARTS.c.preview_version > since,
                )
                .order_by(PARTS.c.part)
            ).all()
        return job, [Preview(row.part, row.preview_version, row.preview) for row in rows]


def remove(line: sa.Connection, job_id: str) -> None:
    """Delete all that belongs to a job."""
    line.execute(sa.delete(JOBS).where(JOBS.c.id == job_id))
    line.execute(sa.delete(PARTS).where(PARTS.c.job_id == job_id))
    line.execute(sa.delete(IDEMPOTENCY).where(IDEMPOTENCY.c.job_id == job_id))
