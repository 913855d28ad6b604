"""Desk, queue and worker together, in one process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

import pytest
from tests.support.fake_diffuser import FakeDiffuser, expected_state
from tests.support.patience import patiently

from antiphon.engines.diffusion.task import MediaTask, Picture
from antiphon.engines.jobs.artefacts import Artefacts
from antiphon.engines.jobs.desk import JobRefused
from antiphon.engines.jobs.job import Job, NewJob
from antiphon.engines.jobs.making import File
from antiphon.engines.jobs.queue import Queue
from antiphon.engines.jobs.settings import JobSettings
from antiphon.engines.jobs.sql_desk import SqlDesk
from antiphon.engines.jobs.worker import Worker


def asked(prompt: str, *, steps: int = 5, count: int = 1, **more: object) -> NewJob:
    tasks = tuple(
        MediaTask(
            kind="image",
            model="fake",
            prompt=prompt,
            width=2,
            height=2,
            steps=steps,
            guidance=1.0,
            seed=seed,
            inputs={"image": "it"} if more.get("inputs") else {},
        )
        for seed in range(count)
    )
    return NewJob(kind="image", tasks=tasks, owner="me", **more)  # type: ignore[arg-type]


def encode(job: Job, at: int, picture: Picture) -> Sequence[File]:
    """The state itself, and what went in."""
    data = bytes.fromhex(picture.facts["state"]) + bytes.fromhex(picture.facts["inputs"])
    return [File(f"content-{at}" if at else "content", ".bin", "application/x", data)]


def settings(folder: Path, **more: object) -> JobSettings:
    return JobSettings(
        database=f"sqlite:///{folder}/jobs.sqlite",
        store=f"{folder}/files",
        poll_seconds=0.01,
        **more,  # type: ignore[arg-type]
    )


@asynccontextmanager
async def office(
    folder: Path, diffuser: FakeDiffuser, **more: object
) -> AsyncGenerator[tuple[SqlDesk, Callable[[], Awaitable[None]]]]:
    """A desk, and a worker that can be told to leave."""
    desk = SqlDesk(settings(folder, **more))
    await desk.start()
    stop = asyncio.Event()
    work = asyncio.create_task(
        Worker(settings(folder, **more), {"fake": diffuser}, encode).run(stop)
    )

    async def leave() -> None:
        stop.set()
        await work

    try:
        yield desk, leave
    finally:
        await leave()
        await desk.close()


async def ended(desk: SqlDesk, job_id: str) -> Job:
    job = None
    async for seen in desk.watch(job_id, "me"):
        job = seen.job
    assert job is not None
    return job


async def content(desk: SqlDesk, job: Job) -> list[bytes]:
    return [
        b"".join([piece async for piece in desk.content(artefact)]) for artefact in job.artefacts
    ]


def files(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder / "files"))
        for path in (folder / "files").rglob("*")
        if path.is_file()
    )


async def until(folder: Path, name: str) -> None:
    await patiently((folder / name).exists)


def test_a_job_is_made_and_told_of(tmp_path: Path) -> None:
    async def main() -> None:
        async with office(tmp_path, FakeDiffuser()) as (desk, _):
            new = asked("cat", count=2, inputs={"it": b"in"}, idempotency_key="k")
            job = await desk.submit(new)
            assert (job.state, job.progress) == ("queued", 0)
            assert (await desk.submit(new)).id == job.id
            with pytest.raises(JobRefused) as refused:
                await desk.submit(asked("dog", idempotency_key="k"))
            assert refused.value.code == "idempotency_mismatch"
            job = await ended(desk, job.id)
            assert (job.state, job.progress, job.attempts) == ("completed", 100, 1)
            assert await content(desk, job) == [expected_state(task) + b"in" for task in job.tasks]
            # Nothing but what went in and what came of it; no checkpoint is left.
            named = {each.key for each in job.artefacts} | {job.tasks[0].inputs["image"]}
            await patiently(lambda: set(files(tmp_path)) == named)
            await desk.delete(job.id, "me")
            assert files(tmp_path) == []

    asyncio.run(main())


def test_a_failure_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with office(tmp_path, FakeDiffuser()) as (desk, _):
            job = await ended(desk, (await desk.submit(asked("fail", count=2))).id)
            assert job.state == "failed"
            assert job.error is not None
            assert job.error.code == "bad_prompt"

    asyncio.run(main())


def test_cancelled_and_deleted_jobs_stop(tmp_path: Path) -> None:
    async def main() -> None:
        gates = tmp_path / "gates"
        gates.mkdir()
        diffuser = FakeDiffuser(gates)
        async with office(tmp_path, diffuser, jobs_at_once=2) as (desk, _):
            ids = [(await desk.submit(asked(prompt))).id for prompt in ("a", "b")]
            for prompt in ("a", "b"):
                await until(gates, f"{prompt}-0.here")
            ids.append((await desk.submit(asked("waits"))).id)
            assert (await desk.cancel(ids[2], "me")).state == "cancelled"
            assert (await desk.cancel(ids[0], "me")).state == "in_progress"
            job = await ended(desk, ids[0])
            assert job.state == "cancelled"
            assert job.error is not None
            assert job.error.code == "cancelled"
            await desk.delete(ids[1], "me")
            stopped = sorted(f"{each}/0" for each in ids[:2])
            await patiently(lambda: sorted(diffuser.closed) == stopped)
            with pytest.raises(JobRefused):
                await desk.get(ids[1], "me")
            assert not (gates / "waits-0.here").exists()

    asyncio.run(main())


def test_no_more_are_made_at_once_than_it_may(tmp_path: Path) -> None:
    register = Queue.register

    async def main() -> None:
        gates = tmp_path / "gates"
        gates.mkdir()
        async with office(tmp_path, FakeDiffuser(gates), jobs_at_once=2) as (desk, _):
            ids = [(await desk.submit(asked(prompt))).id for prompt in ("a", "b", "c")]
            await patiently(lambda: len([*gates.glob("*.here")]) == 2)
            jobs = [await desk.get(each, "me") for each in ids]
            assert sorted(job.state for job in jobs) == ["in_progress", "in_progress", "queued"]
            await desk.cancel(next(job.id for job in jobs if job.state == "in_progress"), "me")
            await patiently(lambda: len([*gates.glob("*.here")]) == 3)

    # As if all had been handed over.
    def register_all(queue: Queue, _at_once: int, poll: float) -> None:
        register(queue, 9, poll)

    with mock.patch.object(Queue, "register", register_all):
        asyncio.run(main())


def test_no_thread_stays_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())

    async def main() -> None:
        gates = tmp_path / "gates"
        gates.mkdir()
        async with office(tmp_path, FakeDiffuser(gates)) as (desk, leave):
            await desk.submit(asked("a"))
            await until(gates, "a-0.here")
            await leave()
            await patiently(lambda: not [*left()])

    def left() -> Iterator[threading.Thread]:
        for each in set(threading.enumerate()) - before:
            if not each.daemon and not each.name.startswith("asyncio"):
                yield each

    asyncio.run(main())


def test_a_worker_that_leaves_gives_back_and_the_next_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        gates = tmp_path / "gates"
        gates.mkdir()
        for at in range(3):
            (gates / f"cat-{at}.go").touch()
        async with office(tmp_path, FakeDiffuser(gates)) as (desk, leave):
            job_id = (await desk.submit(asked("cat"))).id
            await until(gates, "cat-3.here")
            await leave()
            job = await desk.get(job_id, "me")
            assert job.state == "queued"
            (gates / "open").touch()
            second = FakeDiffuser()
            async with office(tmp_path, second):
                job = await ended(desk, job_id)
            assert (job.state, job.attempts) == ("completed", 2)
            assert second.resumed == [(f"{job_id}/0", 2)]
            assert await content(desk, job) == [expected_state(job.tasks[0])]

    asyncio.run(main())


def test_files_that_no_record_names_are_swept(tmp_path: Path) -> None:
    async def main() -> None:
        async with office(tmp_path, FakeDiffuser()) as (desk, _):
            job = await ended(desk, (await desk.submit(asked("cat", inputs={"it": b"in"}))).id)
            key = job.artefacts[0].key
            store = Artefacts(str(tmp_path / "files"))
            # Of a job that was never recorded, and of a worker that had lost this one.
            for stray in ("jobs/image_0/in/0", f"jobs/{job.id}/9/content.bin"):
                await asyncio.to_thread(store.put, stray, b"x")
            worker = Worker(settings(tmp_path), {}, encode)
            await asyncio.to_thread(worker.sweep_orphans)
            assert len(files(tmp_path)) == 4
            await asyncio.to_thread(worker.sweep_orphans, 0.0)
            assert files(tmp_path) == sorted([key, job.tasks[0].inputs["image"]])

    asyncio.run(main())
