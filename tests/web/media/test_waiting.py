"""Requests that wait for their job: its end, its failure, too long a wait, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from tests.support.fake_desk import FakeDesk
from tests.support.loop import run_simulated
from tests.support.waiting import until

from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.desk import JobRefused
from antiphon.engines.jobs.job import Job, JobError, NewJob
from antiphon.engines.media import MediaConfig
from antiphon.web.media.service import MediaService
from antiphon.web.media.waiting import answer_failed, handed_in, made

NEW = NewJob(
    kind="image",
    owner="me",
    tasks=(
        MediaTask(
            kind="image",
            model="draw",
            prompt="a cat",
            width=64,
            height=64,
            steps=4,
            guidance=1.0,
            seed=1,
        ),
    ),
)


class Rig:
    """A service over a desk in memory, whose jobs wait until the test moves them on."""

    def __init__(self) -> None:
        self.desk = FakeDesk()
        config = MediaConfig(wait_seconds=50, waiting=1)
        self.service = MediaService(config, {}, self.desk, cast("Any", None))
        self.go = asyncio.Event()
        """Until it is set, jobs are on their way into the records."""

        self.go.set()
        self.coming = 0
        self._ids: list[str] = []
        self._submit = self.desk.submit
        self.desk.submit = self._slowly  # type: ignore[method-assign]

    async def _slowly(self, new: NewJob) -> Job:
        self.coming += 1
        await self.go.wait()
        job = await self._submit(new)
        self._ids.append(job.id)
        return job

    async def first(self) -> str:
        """Id of the job that is handed in first."""
        await until(lambda: bool(self._ids))
        return self._ids[0]

    async def state(self) -> str:
        """Of the only job."""
        (name,) = self._ids
        return (await self.desk.get(name, "me")).state


def test_what_waits_is_told_the_end() -> None:
    async def story() -> None:
        rig = Rig()
        waiting = asyncio.create_task(made(rig.service, NEW))
        name = await rig.first()
        await rig.desk.begin(name)
        await rig.desk.complete(name, {"content": ("image/png", b"png")})
        assert (await waiting).state == "completed"
        assert rig.service.waiting == 0

    run_simulated(story())


def test_who_waits_too_long_is_told_so_and_the_job_is_stopped() -> None:
    async def story() -> None:
        rig = Rig()
        job = await made(rig.service, NEW)
        assert asyncio.get_running_loop().time() == pytest.approx(50, abs=1)
        assert (job.state, job.error and job.error.code) == ("failed", "wait_timeout")
        assert await rig.state() == "cancelled"
        answer = answer_failed(job)
        assert answer.status_code == 504
        assert "50 s (media.wait_seconds)" in bytes(answer.body).decode()

    run_simulated(story())


def test_a_client_that_leaves_stops_its_job() -> None:
    async def story() -> None:
        rig = Rig()
        waiting = asyncio.create_task(made(rig.service, NEW))
        await rig.first()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await rig.state() == "cancelled"
        assert rig.service.waiting == 0

    run_simulated(story())


def test_a_client_that_leaves_while_its_job_is_recorded_stops_it_too() -> None:
    async def story() -> None:
        rig = Rig()
        rig.go.clear()
        waiting = asyncio.create_task(made(rig.service, NEW))
        await until(lambda: rig.coming == 1)
        waiting.cancel()
        await asyncio.sleep(1)
        assert not waiting.done()
        rig.go.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await rig.state() == "cancelled"

    run_simulated(story())


def test_without_a_place_nothing_is_handed_in() -> None:
    async def story() -> None:
        rig = Rig()
        async with handed_in(rig.service, NEW) as job:
            with pytest.raises(JobRefused) as refused:
                await made(rig.service, NEW)
            assert refused.value.code == "queue_full"
            assert (rig.coming, await rig.first()) == (1, job.id)
        assert await rig.state() == "queued"

    run_simulated(story())


def test_a_stream_that_breaks_stops_its_job() -> None:
    async def story() -> None:
        rig = Rig()
        with pytest.raises(RuntimeError, match="broke"):
            async with handed_in(rig.service, NEW):
                raise RuntimeError("broke")
        assert await rig.state() == "cancelled"
        assert rig.service.waiting == 0

    run_simulated(story())


def test_a_job_that_is_deleted_meanwhile_is_not_waited_for() -> None:
    async def story() -> None:
        rig = Rig()
        waiting = asyncio.create_task(made(rig.service, NEW))
        await rig.desk.delete(await rig.first(), "me")
        with pytest.raises(JobRefused) as refused:
            await waiting
        assert refused.value.code == "not_found"

    run_simulated(story())


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("bad_input", 400, "invalid_request_error"),
        ("cancelled", 409, "invalid_request_error"),
        ("out_of_memory", 503, "server_error"),
        ("worker_crashed", 500, "server_error"),
    ],
)
def test_a_failed_job_is_an_error(code: str, status: int, kind: str) -> None:
    job = Job(
        id="image_1",
        kind="image",
        tasks=NEW.tasks,
        created_at=0,
        state="failed",
        error=JobError(code, "it went wrong"),
    )
    answer = answer_failed(job)
    told = json.loads(bytes(answer.body))["error"]
    assert answer.status_code == status
    assert (told["type"], told["code"], told["message"]) == (kind, code, "It went wrong.")
    # Again would be the whole work again.
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["x-antiphon-job"] == "image_1"
