"""The records of jobs, the worker's half: what only the one who holds a job may write.

Each time that a job is begun its ``attempts`` count up, and every write of a worker names the
attempt that it holds. So one that was thought dead, and wakes up, changes nothing any more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from .job import Artefact, Job, JobError
from .records import OPEN, Clock, Ending, as_job, chunks, ended_values, job_columns, remove
from .schema import JOBS, PARTS, WORKERS

CRASHES = 2
"""Workers that may die with a job since its last checkpoint, before it is given up."""

CRASHED = JobError("worker_crashed", "the worker died twice while it made this; it is not retried")


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint in the store."""

    key: str
    done: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that a worker holds."""

    job: Job
    attempt: int
    checkpoints: Mapping[int, Kept] = field(default_factory=dict[int, Kept])
    made: Mapping[int, tuple[Artefact, ...]] = field(
        default_factory=dict[int, tuple[Artefact, ...]]
    )
    """What came of the tasks that are done."""


@dataclass(frozen=True, slots=True)
class News:
    """How far a held job is. ``previews``: of its parts, JPEG."""

    job_id: str
    attempt: int
    progress: int
    step_ms: float
    remaining_ms: float | None
    previews: Mapping[int, bytes] = field(default_factory=dict[int, bytes])


Standing = Literal["held", "cancelling", "lost"]


class Claims:
    """What a worker writes and reads. All calls block."""

    def __init__(
        self,
        engine: sa.Engine,
        worker: str,
        *,
        ending: Ending | None = None,
        clock: Clock = time.time,
    ) -> None:
        self._engine = engine
        self._worker = worker
        self._ending = ending or Ending(None)
        self._clock = clock

    def begin(self, job_id: str) -> Claim | None:
        """Take a job; None where it has ended, is gone, is held by a living worker, or ends now,
        as it was cancelled or killed its workers."""
        with self._engine.begin() as line:
            # Takes the lock on the row (SQLite: on the file) before the looks.
            line.execute(
                sa.update(JOBS).where(JOBS.c.id == job_id).values(attempts=JOBS.c.attempts)
            )
            row = line.execute(
                job_columns()
                .add_columns(JOBS.c.worker, JOBS.c.crashes, JOBS.c.cancelling)
                .where(JOBS.c.id == job_id, JOBS.c.state.in_(OPEN))
            ).one_or_none()
            if row is None or self._is_anothers(line, row.worker):
                return None
            crashes = row.crashes + (row.worker is not None)
            job = as_job(row)
            if row.cancelling:
                error = JobError("cancelled", "the job was cancelled")
                self._end(line, job, "cancelled", error)
                return None
            if crashes >= CRASHES:
                self._end(line, job, "failed", CRASHED)
                return None
            attempt = job.attempts + 1
            line.execute(
                sa.update(JOBS)
                .where(JOBS.c.id == job_id)
                .values(
                    state="in_progress",
                    worker=self._worker,
                    attempts=attempt,
                    crashes=crashes,
                    started_at=sa.func.coalesce(JOBS.c.started_at, self._clock()),
                    version=JOBS.c.version + 1,
                )
            )
            parts = line.execute(sa.select(PARTS).where(PARTS.c.job_id == job_id)).all()
        return Claim(
            msgspec.structs.replace(
                job, state="in_progress", attempts=attempt, version=job.version + 1
            ),
            attempt,
            checkpoints={
                row.part: Kept(row.checkpoint_key, row.checkpoint_done)
                for row in parts
                if row.checkpoint_key
            },
            made={
                row.part: msgspec.json.decode(row.made, type=tuple[Artefact, ...])
                for row in parts
                if row.made
            },
        )

    def is_suspect(self, job_id: str) -> bool:
        """Whether a worker died with it since its last checkpoint."""
        query = sa.select(JOBS.c.crashes, JOBS.c.worker).where(
            JOBS.c.id == job_id, JOBS.c.state.in_(OPEN)
        )
        with self._engine.connect() as line:
            row = line.execute(query).one_or_none()
            if row is None:
                return False
            died = bool(row.worker) and not self._is_anothers(line, row.worker)
            return row.crashes > 0 or died

    def _is_anothers(self, line: sa.Connection, worker: str | None) -> bool:
        """Whether another worker holds it that lives. What this one holds it knows: if it asks,
        it had failed to write how a job ended."""
        if worker is None or worker == self._worker:
            return False
        query = sa.select(WORKERS.c.id).where(WORKERS.c.id == worker, WORKERS.c.gone.is_(False))
        return line.execute(query).scalar() is not None

    def _end(
        self,
        line: sa.Connection,
        job: Job,
        state: Literal["completed", "failed", "cancelled"],
        error: JobError | None,
        **more: Any,
    ) -> None:
        values = ended_values(state, self._clock(), self._ending, error, bool(job.webhook))
        line.execute(sa.update(JOBS).where(JOBS.c.id == job.id).values(**values, **more))
        line.execute(
            sa.update(PARTS)
            .where(PARTS.c.job_id == job.id)
            .values(preview=None, checkpoint_key=None, made=None)
        )

    def _hold(self, line: sa.Connection, job_id: str, attempt: int, **values: Any) -> bool:
        """Change a held job; whether it is (still) held."""
        done = line.execute(
            sa.update(JOBS)
            .where(
                JOBS.c.id == job_id,
                JOBS.c.state == "in_progress",
                JOBS.c.worker == self._worker,
                JOBS.c.attempts == attempt,
            )
            .values(version=JOBS.c.version + 1, **values)
        )
        return done.rowcount == 1

    def tell(self, news: Sequence[News]) -> None:
        """Write how far jobs are; what is held no more is passed over."""
        with self._engine.begin() as line:
            for each in news:
                held = self._hold(
                    line,
                    each.job_id,
                    each.attempt,
                    progress=each.progress,
                    step_ms=each.step_ms,
                    remaining_ms=each.remaining_ms,
                )
                if held:
                    self._show(line, each)

    def _show(self, line: sa.Connection, news: News) -> None:
        version = sa.select(JOBS.c.version).where(JOBS.c.id == news.job_id).scalar_subquery()
        for part, jpeg in news.previews.items():
            line.execute(
                sa.update(PARTS)
                .where(PARTS.c.job_id == news.job_id, PARTS.c.part == part)
                .values(preview=jpeg, preview_version=version)
            )

    def keep(self, claim: Claim, part: int, kept: Kept) -> str | None:
        """Note a checkpoint that is in the store; returns the key of the one before it.

        Raises:
            LostClaim: the job is another's now, or gone.
        """
        return self._part(claim, part, checkpoint_key=kept.key, checkpoint_done=kept.done)

    def made(self, claim: Claim, part: int, artefacts: tuple[Artefact, ...]) -> str | None:
        """Note that a task is done and its files are in the store; returns the key of its last
        checkpoint, which is noted no more. Raises :class:`LostClaim`."""
        made = msgspec.json.encode(artefacts)
        return self._part(claim, part, made=made, checkpoint_key=None, preview=None)

    def _part(self, claim: Claim, part: int, **values: Any) -> str | None:
        here = (PARTS.c.job_id == claim.job.id, PARTS.c.part == part)
        with self._engine.begin() as line:
            # What got further did not kill its worker: whose fault the crash was starts anew.
            if not self._hold(line, claim.job.id, claim.attempt, crashes=0):
                raise LostClaim
            earlier = line.execute(sa.select(PARTS.c.checkpoint_key).where(*here)).scalar()
            line.execute(sa.update(PARTS).where(*here).values(**values))
            return earlier

    def complete(self, claim: Claim, artefacts: Sequence[Artefact]) -> None:
        """All is made, and in the store. Raises :class:`LostClaim`."""
        with self._engine.begin() as line:
            if not self._hold(line, claim.job.id, claim.attempt):
                raise LostClaim
            files = msgspec.json.encode(tuple(artefacts))
            self._end(line, claim.job, "completed", None, progress=100, artefacts=files)

    def fail(
        self, claim: Claim, error: JobError, state: Literal["failed", "cancelled"] = "failed"
    ) -> None:
        """It did not work out, or was cancelled. Raises :class:`LostClaim`."""
        with self._engine.begin() as line:
            if not self._hold(line, claim.job.id, claim.attempt):
                raise LostClaim
            self._end(line, claim.job, state, error)

    def give_back(self, claim: Claim) -> bool:
        """Let another worker go on with it; whether it was held."""
        with self._engine.begin() as line:
            return self._hold(line, claim.job.id, claim.attempt, state="queued", worker=None)

    def standings(self, claims: Sequence[Claim]) -> dict[str, Standing]:
        """Which held jobs were cancelled meanwhile, or are another's; one query for all."""
        found: dict[str, Standing] = dict.fromkeys((each.job.id for each in claims), "lost")
        attempts = {each.job.id: each.attempt for each in claims}
        columns = (JOBS.c.id, JOBS.c.attempts, JOBS.c.worker, JOBS.c.cancelling)
        with self._engine.connect() as line:
            for some in chunks(list(attempts)):
                for row in line.execute(sa.select(*columns).where(JOBS.c.id.in_(some))):
                    if row.worker == self._worker and row.attempts == attempts[row.id]:
                        found[row.id] = "cancelling" if row.cancelling else "held"
        return found

    def unfinished(self, among: Sequence[str] | None = None) -> list[str]:
        """Jobs that wait or are under way; ``among``: of these."""
        query = sa.select(JOBS.c.id).where(JOBS.c.state.in_(OPEN))
        with self._engine.connect() as line:
            if among is None:
                return list(line.execute(query.order_by(JOBS.c.created_at)).scalars())
            found: list[str] = []
            for some in chunks(among):
                found += line.execute(query.where(JOBS.c.id.in_(some))).scalars()
            return found

    def jobs(self, ids: Sequence[str]) -> list[Job]:
        """The jobs of some ids, of every owner."""
        found: list[Job] = []
        with self._engine.connect() as line:
            for some in chunks(ids):
                found += map(as_job, line.execute(job_columns().where(JOBS.c.id.in_(some))))
        return found

    def expire(self, limit: int = 100) -> list[str]:
        """Take away records whose time is over; returns whose files go with them."""
        with self._engine.begin() as line:
            over = list(
                line.execute(
                    sa.select(JOBS.c.id)
                    .where(JOBS.c.expires_at <= self._clock(), JOBS.c.state.not_in(OPEN))
                    .limit(limit)
                ).scalars()
            )
            for job_id in over:
                remove(line, job_id)
        return over


class LostClaim(Exception):
    """The job is held by another worker now, or is gone: what was made of it is thrown away."""
