"""A thousand jobs wait: asking after one, and listing, cost what they cost with ten."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.claims import Claims
from antiphon.engines.jobs.job import Job
from antiphon.engines.jobs.records import Records
from antiphon.engines.jobs.schema import JOBS, PARTS, migrate, open_database

FEW, MANY = 10, 1000

TASK = MediaTask(
    kind="image", model="m", prompt="x", width=64, height=64, steps=2, guidance=1.0, seed=1
)

ASKED = ("poll", "look", "list", "list on", "list clips", "list from the end", "claim", "standing")


class Full:
    """Records of waiting jobs, of two owners in turns, and a count of SQLite's own steps."""

    def __init__(self, folder: Path, count: int) -> None:
        self.engine = open_database(f"sqlite:///{folder}/{count}.sqlite")
        event.listen(self.engine, "connect", self._count_steps)
        migrate(self.engine)
        self.ids = [f"image_{number:032x}" for number in range(count)]
        jobs = [
            Job(
                id=job_id,
                kind="video" if number % 4 == 0 else "image",
                tasks=(TASK,),
                owner="me" if number % 2 == 0 else "else",
                created_at=1000.0 + number,
            )
            for number, job_id in enumerate(self.ids)
        ]
        with self.engine.begin() as line:
            rows = [
                {
                    "id": job.id,
                    "owner": job.owner,
                    "kind": job.kind,
                    "state": "queued",
                    "created_at": job.created_at,
                    "asked": msgspec.json.encode(job),
                }
                for job in jobs
            ]
            line.execute(sa.insert(JOBS), rows)
            line.execute(sa.insert(PARTS), [{"job_id": each.id, "part": 0} for each in jobs])
        self.records = Records(self.engine)
        self.claims = Claims(self.engine, "worker")

    def _count_steps(self, connection: object, _record: object) -> None:
        def step() -> int:
            self.steps += 1
            return 0

        self.steps = 0
        set_handler = getattr(connection, "set_progress_handler")  # noqa: B009 - of any driver
        set_handler(step, 1)

    def cost(self, asked: str) -> int:
        """Steps of SQLite's machine; each reads or compares one thing."""
        # The middle, so that what would read all before it is seen.
        middle = self.ids[len(self.ids) // 2 // 4 * 4]
        self.steps = 0
        match asked:
            case "poll":
                assert self.records.get(middle, "me").state == "queued"
            case "look":
                self.records.look(middle, "me", -1)
            case "list":
                assert self._listed(None, None)
            case "list on":
                assert self._listed(None, middle)
            case "list clips":
                assert self._listed("video", middle)
            case "list from the end":
                assert self._listed(None, None, newest=False)
            case "claim":
                assert self.claims.begin(middle) is not None
            case _:
                claim = self.claims.begin(middle)
                assert claim is not None
                self.steps = 0
                self.claims.standings([claim])
        return self.steps

    def _listed(self, kind: str | None, after: str | None, *, newest: bool = True) -> int:
        page = self.records.list(
            kind, "me", after=after, limit=2, order="desc" if newest else "asc"
        )
        return len(page.jobs)


@pytest.mark.parametrize("asked", ASKED)
def test_a_question_costs_no_more_with_many_jobs(asked: str, tmp_path: Path) -> None:
    few, many = Full(tmp_path, FEW), Full(tmp_path, MANY)
    try:
        # Deeper trees: a little more, but nothing in proportion to their number.
        assert 0 < many.cost(asked) < 2 * few.cost(asked)
    finally:
        few.engine.dispose()
        many.engine.dispose()


def test_pages_give_each_of_many_once(tmp_path: Path) -> None:
    full = Full(tmp_path, MANY)
    seen, after = list[str](), None
    for _ in itertools.count():
        page = full.records.list(None, "me", after=after, limit=100, order="desc")
        seen += [job.id for job in page.jobs]
        if not page.more:
            break
        after = seen[-1]
    full.engine.dispose()
    assert seen == full.ids[-2::-2]
