"""A real worker is killed while a real pipeline denoises: another goes on from the checkpoint, and
what comes of it is, bit for bit, what an undisturbed run makes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.support.server import COMMAND, write_deployment

from antiphon.codecs.pictures import decode_picture
from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.artefacts import Artefacts
from antiphon.engines.jobs.job import Job, NewJob
from antiphon.engines.jobs.schema import JOBS, PARTS, WORKERS, open_database
from antiphon.engines.jobs.settings import JobSettings
from antiphon.engines.jobs.sql_desk import SqlDesk

pytestmark = [pytest.mark.server, pytest.mark.timeout(240)]

STEPS = 200
"""The most that are allowed: a second and more of work."""

TASK = MediaTask(
    kind="image",
    model="draw",
    prompt="a cat",
    width=64,
    height=64,
    steps=STEPS,
    guidance=4.0,
    seed=7,
)


@contextmanager
def workers(settings: JobSettings, folder: Path, count: int) -> Generator[None]:
    """So many ``antiphon worker``; those that are left have to leave by themselves."""
    model = {"path": "placeholder-image", "checkpoint_steps": 10}
    media = {"models": {"draw": model}, "database": settings.database, "store": settings.store}
    config = write_deployment({"media": media}, folder)
    command = [COMMAND, "worker", "--config", str(config), "--data", str(folder / "data")]
    environ = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen(command, env=environ) for _ in range(count)]
    try:
        yield
        for each in running:
            each.terminate()
        assert sorted(each.wait(20) for each in running) == [-signal.SIGKILL, *[0] * (count - 1)]
    finally:
        for each in running:
            each.kill()
            each.wait()


class Ledger:
    """What the records say of who works on what."""

    def __init__(self, settings: JobSettings) -> None:
        self._engine = open_database(settings.database)

    def holder(self, job_id: str) -> int:
        """The process that holds a job."""
        query = sa.select(WORKERS.c.process).join_from(JOBS, WORKERS, JOBS.c.worker == WORKERS.c.id)
        with self._engine.connect() as line:
            process: str = line.execute(query.where(JOBS.c.id == job_id)).scalar_one()
        return int(process.split()[0])

    def kept(self, job_id: str) -> int:
        """Steps of its last checkpoint."""
        query = sa.select(PARTS.c.checkpoint_done).where(PARTS.c.job_id == job_id)
        with self._engine.connect() as line:
            return int(line.execute(query).scalar_one())

    def close(self) -> None:
        self._engine.dispose()


async def follow(desk: SqlDesk, job_id: str) -> Job:
    """Return a job's end."""
    job: Job | None = None
    async with asyncio.timeout(90):
        async for seen in desk.watch(job_id, "me"):
            job = seen.job
    assert job is not None
    assert job.state == "completed", job.error
    return job


async def killed_on_the_way(desk: SqlDesk, ledger: Ledger, job_id: str) -> Job:
    """Kill who holds a job, between its second checkpoint and its end; return the job's end."""
    async with asyncio.timeout(90):
        async for seen in desk.watch(job_id, "me"):
            assert not seen.job.ended, "it was over before its worker could be killed"
            if seen.job.state == "in_progress" and ledger.kept(job_id) >= 20:
                break
    os.kill(ledger.holder(job_id), signal.SIGKILL)
    kept, told = ledger.kept(job_id), list[int]()
    async with asyncio.timeout(90):
        async for seen in desk.watch(job_id, "me"):
            if seen.job.attempts == 2:
                told.append(seen.job.progress)
    # What the dead one wrote last stands at first. Then it goes on from the checkpoint.
    news = [progress for progress in told if progress != told[0]]
    assert min(news) >= 100 * kept // STEPS
    return await follow(desk, job_id)


async def run(settings: JobSettings, folder: Path) -> None:
    desk, ledger = SqlDesk(settings), Ledger(settings)
    await desk.start()
    try:
        with workers(settings, folder, 2):
            new = NewJob(kind="image", tasks=(TASK,), owner="me")
            job_id = (await desk.submit(new)).id
            killed = await killed_on_the_way(desk, ledger, job_id)
            whole = await follow(desk, (await desk.submit(new)).id)
        assert (killed.attempts, whole.attempts) == (2, 1)
        store = Artefacts(settings.store)
        # The files tell how long it took as well; the pictures have to be the same.
        pictures = [
            decode_picture(store.get(job.artefacts[0].key), max_pixels=1 << 20)
            for job in (killed, whole)
        ]
        assert pictures[0].tobytes() == pictures[1].tobytes()
    finally:
        await desk.close()
        ledger.close()


def test_another_worker_goes_on_with_the_same_picture(tmp_path: Path) -> None:
    settings = JobSettings(
        database=f"sqlite:///{tmp_path}/jobs.sqlite", store=str(tmp_path / "files")
    )
    asyncio.run(run(settings, tmp_path))
