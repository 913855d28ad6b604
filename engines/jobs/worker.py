"""A worker: takes jobs from the queue, works on several at once, and writes how they stand."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import sqlalchemy as sa

from ..diffusion.diffuser import Diffuser
from .artefacts import ORPHAN_SECONDS, Artefacts, job_of
from .claims import Claim, Claims, LostClaim
from .job import Artefact, Job, JobError
from .making import Encode, Making, Stopped, as_error, persistently
from .presence import BEAT_SECONDS, Presence
from .queue import Queue, Runner, prepare, priority
from .records import Ending
from .schema import Changes, migrate, open_database
from .scratch import sweep_scratch
from .settings import JobSettings
from .turns import Turns

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
"""Between looks for cancelled jobs."""

TELL_SECONDS = 0.25
"""Between writes of progress."""

SWEEP_SECONDS = 10.0
ORPHAN_SWEEP_SECONDS = 600.0

LEAVE_SECONDS = 6.0
"""For the model to stop, when the worker is told to leave."""


class Hooks(Protocol):
    """Sends the messages that are due."""

    async def send_due(self) -> None:
        """Send some; failures are noted and tried again later."""
        ...


class Worker:
    """One in a process. Its event loop is the diffusers' as well.

    ``encode`` makes files of results; ``name`` tells it from other workers.
    """

    def __init__(
        self,
        settings: JobSettings,
        diffusers: Mapping[str, Diffuser],
        encode: Encode,
        *,
        name: str = "",
        hooks: Callable[[sa.Engine], Hooks] | None = None,
    ) -> None:
        self._settings = settings
        self._diffusers = diffusers
        self._encode = encode
        self.name = name or f"worker_{uuid.uuid4().hex}"
        self._engine = open_database(settings.database, pool=10)
        self._store = Artefacts(settings.store, settings.store_options)
        self._claims = Claims(self._engine, self.name, ending=Ending(settings.keep_seconds))
        self._presence = Presence(self._engine, self.name, silent_seconds=settings.silent_seconds)
        self._hooks = hooks(self._engine) if hooks else None
        self._held: dict[str, Making] = {}
        self._turns = Turns()
        # The library may hand over one too many: it counts what its threads have begun.
        self._places = asyncio.Semaphore(settings.jobs_at_once)
        self._idle = asyncio.Event()
        self._idle.set()
        self._leaving = False
        self._handed_back = asyncio.Event()
        self._next_orphans = 0.0
        self._changes: Changes | None = None
        self._looked: object = None

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop``; then give back what is under way, and leave.

        Raises:
            ValueError: the database is newer than this program.
        """
        loop = asyncio.get_running_loop()

        def in_thread(job_id: str) -> None:
            asyncio.run_coroutine_threadsafe(self._carry_out(job_id), loop).result()

        queue, runner = await asyncio.to_thread(self._open, in_thread)
        self._changes = Changes(self._engine)
        turns = [
            self._regularly(BEAT_SECONDS, lambda: self._others(runner)),
            self._regularly(LOOK_SECONDS, self._look),
            self._regularly(TELL_SECONDS, self._tell),
            self._regularly(SWEEP_SECONDS, lambda: asyncio.to_thread(self._sweep, queue, runner)),
        ]
        if self._hooks is not None:
            turns.append(self._regularly(BEAT_SECONDS, self._hooks.send_due))
        tasks = [asyncio.create_task(each) for each in turns]
        try:
            await stop.wait()
        finally:
            await self._leave(runner)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._changes.close()
            await asyncio.to_thread(self._close, queue, runner)

    def _open(self, in_thread: Callable[[str], None]) -> tuple[Queue, Runner]:
        sweep_scratch()
        migrate(self._engine)
        prepare(self._engine)
        self._presence.beat()
        queue = Queue(self._engine)
        queue.register(self._settings.jobs_at_once, self._settings.poll_seconds)
        runner = Runner(self._engine, self.name, in_thread)
        runner.launch()
        return queue, runner

    def _close(self, queue: Queue, runner: Runner) -> None:
        self._presence.leave()
        queue.close()
        runner.destroy()
        self._engine.dispose()

    async def _leave(self, runner: Runner) -> None:
        self._leaving = True
        runner.stop_taking()
        for making in self._held.values():
            making.stop("leaving")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._idle.wait()
        await asyncio.to_thread(runner.hand_back)
        self._handed_back.set()
        # The threads of the workflows come to their end, now that it counts no more.
        await asyncio.sleep(0)

    async def _regularly(self, seconds: float, call: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await call()
            except Exception:
                LOG.exception("a regular duty of the worker failed; it is tried again")
            await asyncio.sleep(seconds)

    async def _others(self, runner: Runner) -> None:
        await asyncio.to_thread(self._presence.beat)
        dead = await asyncio.to_thread(self._presence.dead)
        if dead:
            LOG.warning("%d workers died; their jobs are taken up again", len(dead))
            await asyncio.to_thread(runner.recover, dead)
            await asyncio.to_thread(self._presence.bury, dead)

    async def _look(self) -> None:
        claims = [making.claim for making in self._held.values()]
        if not claims:
            return
        mark = self._changes.mark() if self._changes is not None else None
        # With the attempts: a job that came in since was in no look yet.
        sight = (mark, [(claim.job.id, claim.attempt) for claim in claims])
        if mark is not None and sight == self._looked:
            return
        standings = await asyncio.to_thread(self._claims.standings, claims)
        for job_id, standing in standings.items():
            making = self._held.get(job_id)
            if making is not None and standing != "held":
                making.stop(standing)
        self._looked = sight

    async def _tell(self) -> None:
        news = [each for making in self._held.values() if (each := making.news()) is not None]
        if news:
            await asyncio.to_thread(self._claims.tell, news)

    def _sweep(self, queue: Queue, runner: Runner) -> None:
        """What was missed: jobs without a workflow, workflows without a worker, what expired,
        files that nothing names."""
        # In this order: a job ends before its workflow does.
        stray = queue.stray(self._claims.unfinished())
        for job in self._claims.jobs(self._claims.unfinished(stray)):
            if job.id not in self._held:
                queue.requeue(job)
        queue.clear()
        running = queue.executors()
        runner.recover(sorted(running - self._presence.known()))
        for job_id in self._claims.expire():
            self._store.delete_job(job_id)
        if time.monotonic() >= self._next_orphans:
            self._next_orphans = time.monotonic() + ORPHAN_SWEEP_SECONDS
            self.sweep_orphans()

    def sweep_orphans(self, age: float = ORPHAN_SECONDS) -> None:
        """Take away files of at least that age, in seconds, that no record names. Blocks."""
        old = [key for key, seconds in self._store.keys() if seconds >= age]
        named = {job.id: job for job in self._claims.jobs(sorted({job_of(key) for key in old}))}
        for key in old:
            job = named.get(job_of(key))
            if job is None or (job.ended and key not in named_keys(job)):
                self._store.delete([key])
        self._store.sweep_staged()

    async def _carry_out(self, job_id: str) -> None:
        """A job, until its record has ended or is not ours; only then its workflow may end."""
        if job_id in self._held:
            return
        suspect = await persistently(self._claims.is_suspect, job_id)
        turn = self._turns.alone() if suspect else self._turns.together()
        async with self._places, turn:
            if not self._leaving:
                claim = await persistently(self._claims.begin, job_id)
                if claim is not None:
                    await self._make(claim)
        if self._leaving:
            await self._handed_back.wait()
        else:
            await self._tidy(job_id)

    async def _make(self, claim: Claim) -> None:
        making = Making(
            claim,
            self._claims,
            self._store,
            self._diffusers,
            self._encode,
            rank=priority(claim.job),
        )
        self._held[claim.job.id] = making
        self._idle.clear()
        if self._leaving:
            making.stop("leaving")
        try:
            await self._settle(claim, making)
        finally:
            del self._held[claim.job.id]
            if not self._held:
                self._idle.set()

    async def _settle(self, claim: Claim, making: Making) -> None:
        try:
            artefacts = await making.carry_out()
            await persistently(self._claims.complete, claim, artefacts)
        except LostClaim:
            LOG.warning("a job is another worker's now, or was deleted")
        except Stopped as stopped:
            await self._stopped(claim, stopped)
        except Exception as error:
            await self._failed(claim, error)

    async def _stopped(self, claim: Claim, stopped: Stopped) -> None:
        try:
            if stopped.why == "leaving":
                await persistently(self._claims.give_back, claim)
            elif stopped.why == "cancelling":
                error = JobError("cancelled", "the job was cancelled")
                await persistently(self._claims.fail, claim, error, "cancelled")
        except LostClaim:
            return

    async def _failed(self, claim: Claim, failure: Exception) -> None:
        error = as_error(failure)
        if error.code == "internal_error":
            LOG.error("a job failed", exc_info=failure)
        try:
            await persistently(self._claims.fail, claim, error)
        except LostClaim:
            return

    async def _tidy(self, job_id: str) -> None:
        try:
            await asyncio.to_thread(self._remove_rest, job_id)
        except Exception:
            LOG.exception("files of a job could not be taken away; a later sweep does it")

    def _remove_rest(self, job_id: str) -> None:
        """Of an ended job, all files that its record does not name; of a deleted one all."""
        found = self._claims.jobs([job_id])
        if not found:
            self._store.delete_job(job_id)
        elif found[0].ended:
            self._store.delete_job(job_id, keep=named_keys(found[0]))


def named_keys(job: Job) -> set[str]:
    """The files that a record names: what went in, and what came of it."""
    files: Sequence[Artefact] = job.artefacts
    return {each.key for each in files} | {
        key for task in job.tasks for key in task.inputs.values()
    }
