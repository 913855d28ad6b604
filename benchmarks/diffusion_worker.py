"""A worker in a process of its own for the benchmark of jobs, and the desk before it.

    python -m benchmarks.diffusion_worker SETTINGS

It says on its output when its model has nothing more to do.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from benchmarks.diffusion_models import ONE_THREAD, Case

from antiphon.engines.diffusion.pipeline_diffuser import PipelineDiffuser
from antiphon.engines.diffusion.switches import DiffuserConfig
from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.job import Job, NewJob
from antiphon.engines.jobs.process import run, work
from antiphon.engines.jobs.results import encode_result
from antiphon.engines.jobs.settings import JobSettings
from antiphon.engines.jobs.sql_desk import SqlDesk

OWNER = "benchmark"

START_SECONDS, END_SECONDS = 120.0, 600.0

LOOK_SECONDS = 0.002
"""Between looks whether the model is idle."""


@dataclass
class Office:
    """A desk, and the one worker behind it."""

    case: Case
    desk: SqlDesk
    process: asyncio.subprocess.Process

    async def submit(self, task: MediaTask) -> Job:
        return await self.desk.submit(NewJob(kind="image", tasks=(task,), owner=OWNER))

    async def made(self, task: MediaTask) -> Job:
        """Hand in a job and wait for its end.

        Raises:
            RuntimeError: it has failed.
        """
        job = await self.submit(task)
        async with asyncio.timeout(END_SECONDS):
            async for seen in self.desk.watch(job.id, OWNER):
                job = seen.job
        if job.state != "completed":
            raise RuntimeError(f"a job has {job.state}: {job.error}")
        return job

    async def stopped(self, task: MediaTask, progress: int) -> tuple[float, float]:
        """Delete a job when it is so far; returns the seconds from there to the model's rest,
        and of a step."""
        job = await self.submit(task)
        async for seen in self.desk.watch(job.id, OWNER):
            if seen.job.progress >= progress:
                break
        step = (await self.desk.get(job.id, OWNER)).step_ms / 1000
        began = time.time()
        await self.desk.delete(job.id, OWNER)
        assert self.process.stdout is not None
        async with asyncio.timeout(END_SECONDS):
            while (at := float(await self.process.stdout.readline())) < began:
                pass
        return at - began, step

    def cpu_s(self) -> float:
        """Processor time that the worker has taken."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)


@asynccontextmanager
async def office(folder: Path, case: Case, out: Path, *, watched: bool) -> AsyncGenerator[Office]:
    """Open a desk and start a worker; it is ready when this returns.

    ``watched``: it tells when its model rests, which takes a little from it.
    """
    settings = JobSettings(database=f"sqlite:///{out}/jobs.sqlite", store=str(out / "files"))
    said = {"model": case.name, "folder": str(folder), "watched": watched}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.diffusion_worker"),
        json.dumps(said | {"settings": asdict(settings)}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    desk = SqlDesk(settings)
    try:
        await desk.start()
        opened = Office(case, desk, process)
        async with asyncio.timeout(START_SECONDS):
            await opened.made(case.task(0, 2))
        yield opened
    finally:
        await desk.close()
        if process.returncode is None:
            process.terminate()
        await process.wait()


class _Watched(PipelineDiffuser):
    """Prints the moment, in Unix seconds, at which nothing is under way any more."""

    async def start(self) -> None:
        await super().start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        was = False
        while True:
            busy = self._hub is not None and self._hub.busy
            if was and not busy:
                print(time.time(), flush=True)
            was = busy
            time.sleep(LOOK_SECONDS)


def main() -> None:
    said = json.loads(sys.argv[1])
    kind = _Watched if said["watched"] else PipelineDiffuser
    config = DiffuserConfig(path=said["folder"], switches=ONE_THREAD)
    diffuser = kind(Path(said["folder"]), config)
    settings = JobSettings(**said["settings"])
    run(work(settings, {said["model"]: diffuser}, encode_result, parent=sys.stdin.buffer))


if __name__ == "__main__":
    main()
