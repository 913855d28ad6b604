"""Hands in jobs one after the other, and says which were accepted, until it is killed."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.job import NewJob
from antiphon.engines.jobs.settings import JobSettings
from antiphon.engines.jobs.sql_desk import SqlDesk


async def main(settings: JobSettings, accepted: Path) -> None:
    desk = SqlDesk(settings)
    await desk.start()
    for number in itertools.count():
        task = MediaTask(
            kind="image",
            model="fake",
            prompt=f"s{number}",
            width=2,
            height=2,
            steps=2,
            guidance=1.0,
            seed=number,
            inputs={"image": "it"},
        )
        new = NewJob(kind="image", tasks=(task,), owner="me", inputs={"it": b"x" * 100_000})
        job = await desk.submit(new)
        with accepted.open("a") as told:
            told.write(f"{job.id}\n")


def serve(settings: JobSettings, accepted: Path) -> None:
    asyncio.run(main(settings, accepted))
