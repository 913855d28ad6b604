"""Workers and servers are killed at every moment; no job is lost, and none comes out different.

``ANTIPHON_KILLS=30`` makes the loop over the moments longer.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from tests.support import jobs_server, jobs_worker
from tests.support.fake_diffuser import expected_state
from tests.support.object_store import object_store
from tests.support.patience import patiently
from tests.support.postgres import postgres

from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.artefacts import Artefacts
from antiphon.engines.jobs.job import Job, NewJob
from antiphon.engines.jobs.records import Records
from antiphon.engines.jobs.schema import open_database
from antiphon.engines.jobs.settings import JobSettings
from antiphon.engines.jobs.sql_desk import SqlDesk

MOMENTS = ("queued", "0", "3", "5", "written", "both")
"""Before any worker has it, before a step, between two checkpoints, before the result, and
between its two files; last a kill of workers and server together."""

KILLS = int(os.environ.get("ANTIPHON_KILLS", str(len(MOMENTS))))

STEPS = 5

pytestmark = pytest.mark.timeout(60 + 10 * KILLS)


@pytest.fixture(params=["sqlite and a folder", "postgresql and s3"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobSettings]:
    if "sqlite" in request.param:
        yield JobSettings(
            database=f"sqlite:///{tmp_path}/jobs.sqlite",
            store=str(tmp_path / "files"),
            poll_seconds=0.05,
        )
    else:
        with postgres() as url, object_store("media") as options:
            yield JobSettings(
                database=url, store="s3://media", store_options=options, poll_seconds=0.05
            )


NURSERY = multiprocessing.get_context("forkserver")
"""Processes that begin with all modules loaded: tens of them start in this test."""


class Crew:
    """Worker processes, as many as were started and not killed."""

    def __init__(self, settings: JobSettings, gates: Path) -> None:
        self._settings = settings
        self._gates = gates
        gates.mkdir()
        NURSERY.set_forkserver_preload([jobs_worker.__name__, jobs_server.__name__])
        self.workers: dict[int, ForkServerProcess] = {}

    def hire(self, count: int = 1) -> None:
        for _ in range(count):
            worker = NURSERY.Process(target=jobs_worker.serve, args=(self._settings, self._gates))
            worker.start()
            assert worker.pid is not None
            self.workers[worker.pid] = worker

    def kill(self, pid: int) -> None:
        self.end(self.workers.pop(pid))

    def serve(self, accepted: Path) -> ForkServerProcess:
        server = NURSERY.Process(target=jobs_server.serve, args=(self._settings, accepted))
        server.start()
        return server

    def end(self, process: ForkServerProcess) -> None:
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL

    def dismiss(self) -> None:
        """All leave by themselves, and in time."""
        for worker in self.workers.values():
            worker.terminate()
        for worker in self.workers.values():
            worker.join(10)
            worker.kill()
        # The one that was hired last may not have come so far as to heed the signal.
        ends = [worker.exitcode for worker in self.workers.values()]
        assert 0 in ends
        assert set(ends) <= {0, -signal.SIGTERM}

    def prepare(self, prompt: str, moment: str) -> None:
        """Let a job go as far as the moment."""
        for each in self._gates.iterdir():
            each.unlink()
        (self._gates / f"{prompt}.writes").touch()
        stop = STEPS + 1 if moment == "written" else int(moment)
        for at in range(stop):
            (self._gates / f"{prompt}-{at}.go").touch()

    async def at(self, prompt: str, moment: str) -> int:
        """The worker that has come there."""
        here = self._gates / f"{prompt}-{moment}.here"
        await patiently(here.exists)
        return int(here.read_text())

    def open(self, prompt: str) -> None:
        (self._gates / f"{prompt}.open").touch()


def job_of(prompt: str, seed: int) -> NewJob:
    task = MediaTask(
        kind="image",
        model="fake",
        prompt=prompt,
        width=2,
        height=2,
        steps=STEPS,
        guidance=1.0,
        seed=seed,
    )
    return NewJob(kind="image", tasks=(task,), owner="me")


async def ended(desk: SqlDesk, job_id: str) -> Job:
    job = None
    async with asyncio.timeout(30):
        async for seen in desk.watch(job_id, "me"):
            job = seen.job
    assert job is not None
    return job


async def check(desk: SqlDesk, job: Job) -> None:
    """It is whole, and what an undisturbed run makes."""
    assert (job.state, job.progress) == ("completed", 100), job.error
    content, thumbnail = job.artefacts
    state = expected_state(job.tasks[0])
    assert b"".join([each async for each in desk.content(content)]) == state
    assert b"".join([each async for each in desk.content(thumbnail)]) == state[:4]


class Trial:
    """Kills, and looks what comes of it."""

    def __init__(self, settings: JobSettings, gates: Path) -> None:
        self.settings = settings
        self.gates = gates
        self.crew = Crew(settings, gates)
        self.desk = SqlDesk(settings)
        self.engine = open_database(settings.database)
        self.records = Records(self.engine)

    async def run(self) -> None:
        await self.desk.start()
        self.crew.hire(2)
        try:
            for number in range(KILLS):
                moment = MOMENTS[number % len(MOMENTS)]
                if moment == "both":
                    await self.both()
                else:
                    await self.one(f"p{number}", moment, number)
            await patiently(self.nothing_is_left)
        finally:
            self.crew.dismiss()
            await self.desk.close()
            self.engine.dispose()

    async def one(self, prompt: str, moment: str, number: int) -> None:
        crew, queued = self.crew, moment == "queued"
        crew.prepare(prompt, "0" if queued else moment)
        if queued:
            for pid in list(crew.workers):
                crew.kill(pid)
        job_id = (await self.desk.submit(job_of(prompt, number))).id
        if queued:
            crew.hire(2)
        else:
            crew.kill(await crew.at(prompt, moment))
            crew.hire()
        crew.open(prompt)
        job = await ended(self.desk, job_id)
        assert job.attempts == (1 if queued else 2)
        await check(self.desk, job)

    async def both(self) -> None:
        self.crew.prepare("s0", "1")
        accepted = self.gates.with_name("accepted")
        server = self.crew.serve(accepted)
        held = await self.crew.at("s0", "1")
        self.crew.end(server)
        self.crew.kill(held)
        (self.gates / "open").touch()
        self.crew.hire()
        ids = accepted.read_text().split()
        assert ids
        for job_id in ids:
            await check(self.desk, await ended(self.desk, job_id))

    async def poison(self) -> None:
        """A job that kills its worker each time, and one beside it that is to blame for nothing."""
        crew = self.crew
        await self.desk.start()
        try:
            crew.hire()
            poison, innocent = [
                (await self.desk.submit(job_of(prompt, 0))).id for prompt in ("poison", "innocent")
            ]
            for prompt in ("poison", "innocent"):
                await crew.at(prompt, "0")
            for prompt in ("poison", "innocent"):
                crew.open(prompt)
            for _ in range(2):
                ((_, worker),) = crew.workers.items()
                await asyncio.to_thread(worker.join, 30)
                assert worker.exitcode == 9
                crew.workers.clear()
                crew.hire()
            job = await ended(self.desk, poison)
            assert job.error is not None
            assert (job.state, job.error.code, job.attempts) == ("failed", "worker_crashed", 2)
            await check(self.desk, await ended(self.desk, innocent))
        finally:
            crew.dismiss()
            await self.desk.close()
            self.engine.dispose()

    def nothing_is_left(self) -> bool:
        """Of files that no record names. A server may have died between a file and its record:
        that one waits an hour."""
        jobs = self.records.list(None, "me", after=None, limit=5000, order="asc").jobs
        named = {each.key for job in jobs for each in job.artefacts}
        named |= {key for job in jobs for key in job.tasks[0].inputs.values()}
        store = Artefacts(self.settings.store, self.settings.store_options)
        left = {key for key, _ in store.keys()} - named
        return len(left) <= KILLS // len(MOMENTS) and all("/in/" in key for key in left)


def test_killed_at_every_moment(settings: JobSettings, tmp_path: Path) -> None:
    asyncio.run(Trial(settings, tmp_path / "gates").run())


def test_a_job_that_kills_its_worker_is_given_up_alone(tmp_path: Path) -> None:
    settings = JobSettings(database=f"sqlite:///{tmp_path}/jobs.sqlite", store=str(tmp_path))
    asyncio.run(Trial(settings, tmp_path / "gates").poison())
