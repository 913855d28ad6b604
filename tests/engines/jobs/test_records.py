"""The records: every change guarded by the state before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.claims import Claims, Kept, LostClaim, News
from antiphon.engines.jobs.desk import JobRefused
from antiphon.engines.jobs.job import Artefact, Job
from antiphon.engines.jobs.presence import Presence
from antiphon.engines.jobs.queue import Queue, prepare, priority
from antiphon.engines.jobs.records import Ending, Records
from antiphon.engines.jobs.schema import SCHEMA, database_url, migrate, open_database
from antiphon.engines.jobs.settings import JobSettings
from antiphon.engines.jobs.sql_desk import SqlDesk

TASK = MediaTask(
    kind="image", model="m", prompt="p", width=8, height=8, steps=4, guidance=1.0, seed=1
)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = open_database(f"sqlite:///{tmp_path}/jobs.sqlite")
    migrate(engine)
    migrate(engine)
    yield engine
    engine.dispose()


def job(number: int, *, kind: str = "image", owner: str = "me", **more: object) -> Job:
    made = Job(
        id=f"{kind}_{number:032x}",
        kind="image",
        tasks=(TASK, TASK),
        owner=owner,
        created_at=float(number),
    )
    return msgspec.structs.replace(made, kind=kind, **more)


def hired(engine: sa.Engine, name: str) -> Claims:
    Presence(engine, name).beat()
    return Claims(engine, name)


def died(engine: sa.Engine, name: str) -> None:
    Presence(engine, name).leave()


def test_lists_page_by_creation_and_show_only_the_owners(engine: sa.Engine) -> None:
    records = Records(engine)
    for number in range(5):
        records.add(job(number, kind="video" if number % 2 else "image"))
    records.add(job(9, owner="another"))

    def page(order: str, after: int | None = None, kind: str | None = None) -> tuple[str, bool]:
        name = None if after is None else job(after, kind="video" if after % 2 else "image").id
        found = records.list(kind, "me", after=name, limit=2, order=order)  # type: ignore[arg-type]
        return "".join(each.id[-1] for each in found.jobs), found.more

    assert page("desc") == ("43", True)
    assert page("desc", 3) == ("21", True)
    assert page("desc", 1) == ("0", False)
    assert page("asc", 2) == ("34", False)
    assert page("asc", kind="video") == ("13", False)
    with pytest.raises(JobRefused, match="no job"):
        records.list(None, "me", after=job(9).id, limit=2, order="asc")
    with pytest.raises(JobRefused):
        records.get(job(9).id, "me")


def test_the_queue_is_bounded_and_a_key_names_one_job(engine: sa.Engine) -> None:
    records = Records(engine, queue_limit=2)
    first = records.add(job(1), key="k", digest="a")
    assert records.add(job(2), key="k", digest="a") == first
    with pytest.raises(JobRefused) as refused:
        records.add(job(2), key="k", digest="b")
    assert refused.value.code == "idempotency_mismatch"
    records.add(job(3, owner="another"), key="k", digest="b")
    with pytest.raises(JobRefused) as refused:
        records.add(job(4), key="new", digest="a")
    assert refused.value.code == "queue_full"
    # Refused means not recorded, neither is the key.
    assert records.of_key("me", "new", "other") is None
    records.delete(first.id, "me")
    assert records.add(job(5), key="k", digest="b").id == job(5).id


def test_a_late_worker_changes_nothing(engine: sa.Engine) -> None:
    records = Records(engine)
    records.add(job(1))
    first, second = hired(engine, "first"), hired(engine, "second")
    late = first.begin(job(1).id)
    assert late is not None
    assert second.begin(job(1).id) is None
    assert first.keep(late, 0, Kept("key-2", 2)) is None
    died(engine, "first")
    claim = second.begin(job(1).id)
    assert claim is not None
    assert claim.attempt == 2
    assert claim.checkpoints == {0: Kept("key-2", 2)}
    seen = records.get(job(1).id, "me")
    first.tell([News(job(1).id, late.attempt, 50, 1.0, None, {0: b"late"})])
    calls: list[Callable[[], object]] = [
        lambda: first.keep(late, 0, Kept("key-4", 4)),
        lambda: first.made(late, 0, ()),
        lambda: first.complete(late, ()),
    ]
    for call in calls:
        with pytest.raises(LostClaim):
            call()
    assert not first.give_back(late)
    assert records.look(job(1).id, "me", -1) == (seen, [])
    assert first.standings([late]) == {job(1).id: "lost"}
    assert second.standings([claim]) == {job(1).id: "held"}
    files = (Artefact(name="content", key="k", type="t", size=1),)
    second.complete(claim, files)
    done = records.get(job(1).id, "me")
    assert (done.state, done.progress, done.artefacts) == ("completed", 100, files)
    assert records.cancel(job(1).id, "me") == done
    assert second.begin(job(1).id) is None


def test_previews_are_told_once(engine: sa.Engine) -> None:
    records = Records(engine)
    records.add(job(1))
    claims = hired(engine, "first")
    claim = claims.begin(job(1).id)
    assert claim is not None
    claims.tell([News(job(1).id, 1, 25, 2.0, 6.0, {1: b"jpeg"})])
    seen, previews = records.look(job(1).id, "me", claim.job.version)
    assert (seen.progress, seen.step_ms, seen.remaining_ms) == (25, 2.0, 6.0)
    assert [(each.part, each.jpeg) for each in previews] == [(1, b"jpeg")]
    assert records.look(job(1).id, "me", previews[0].version)[1] == []


def test_a_job_that_kills_its_workers_is_given_up(engine: sa.Engine) -> None:
    records = Records(engine)
    records.add(job(1))
    for at, name in enumerate("abc"):
        claims = hired(engine, name)
        claim = claims.begin(job(1).id)
        assert claim is not None
        if at == 0:
            # Given back is no crash; got further neither.
            assert claims.give_back(claim)
            assert records.get(job(1).id, "me").state == "queued"
        died(engine, name)
        if at == 1:
            claim = (claims := hired(engine, "d")).begin(job(1).id)
            assert claim is not None
            claims.keep(claim, 0, Kept("key", 2))
            died(engine, "d")
    assert hired(engine, "e").begin(job(1).id) is None
    failed = records.get(job(1).id, "me")
    assert failed.state == "failed"
    assert failed.error is not None
    assert failed.error.code == "worker_crashed"


def test_cancelled_while_its_worker_was_dead(engine: sa.Engine) -> None:
    records = Records(engine)
    records.add(job(1))
    assert hired(engine, "a").begin(job(1).id) is not None
    assert records.cancel(job(1).id, "me").state == "in_progress"
    died(engine, "a")
    assert hired(engine, "b").begin(job(1).id) is None
    assert records.get(job(1).id, "me").state == "cancelled"


def test_what_expired_goes(engine: sa.Engine) -> None:
    clock = Clock()
    records = Records(engine, ending=Ending(60.0), clock=clock)
    records.add(job(1), key="k", digest="a")
    records.add(job(2))
    assert records.cancel(job(1).id, "me").expires_at == 1060.0
    claims = Claims(engine, "a", clock=clock)
    assert claims.expire() == []
    clock.now = 1060.0
    assert claims.expire() == [job(1).id]
    assert records.of_key("me", "k", "b") is None
    assert [each.id for each in claims.jobs([job(1).id, job(2).id])] == [job(2).id]


def test_who_is_silent_is_dead(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    module = "antiphon.engines.jobs.presence"
    here = Presence(engine, "here", clock=clock, silent_seconds=15)
    here.beat()
    monkeypatch.setattr(f"{module}.this_place", lambda: "far away")
    far = Presence(engine, "far")
    far.beat()
    assert here.dead() == []
    clock.now += 10
    far.beat()
    assert here.dead() == []
    clock.now += 16
    assert here.dead() == ["far"]
    here.bury(["far"])
    assert here.known() == {"here"}
    # It was only slow: it comes in again.
    far.beat()
    assert here.dead() == []
    # On the same machine the process is looked for.
    monkeypatch.undo()

    def other(_pid: int) -> str:
        return "1 other start"

    monkeypatch.setattr(f"{module}.process_mark", other)
    Presence(engine, "killed").beat()
    monkeypatch.undo()
    assert here.dead() == ["killed"]


def test_a_newer_database_and_other_kinds_are_refused(engine: sa.Engine) -> None:
    with engine.begin() as line:
        line.execute(sa.update(SCHEMA).values(version=99))
    with pytest.raises(ValueError, match="newer"):
        migrate(engine)
    for url in ("sqlite://", "mysql://a/b"):
        with pytest.raises(ValueError, match="database:"):
            database_url(url)


def test_pictures_go_first_and_nothing_starves(engine: sa.Engine) -> None:
    at = 1_800_000_000.0
    video = priority(job(1, kind="video", created_at=at))
    assert priority(job(1, created_at=at + 59)) < video < priority(job(1, created_at=at + 61))


def test_a_job_that_fell_out_of_the_queue_is_found(engine: sa.Engine) -> None:
    prepare(engine)
    queue = Queue(engine)
    records = Records(engine)
    kept = records.add(job(1), also=lambda line: queue.add(line, job(1)))
    lost = records.add(job(2))
    with pytest.raises(JobRefused):
        # In one transaction with the record, or not at all.
        Records(engine, queue_limit=2).add(job(3), also=lambda line: queue.add(line, job(3)))
    assert queue.stray([kept.id, lost.id, job(3).id]) == [lost.id, job(3).id]
    queue.requeue(lost)
    queue.cancel(kept.id)
    assert queue.stray([kept.id, lost.id]) == [kept.id]
    queue.close()


def test_lists_can_show_one_state_alone(engine: sa.Engine) -> None:
    records = Records(engine)
    for number in range(1, 6):
        records.add(job(number))
    for number in (2, 4):
        records.cancel(job(number).id, "me")

    def found(after: str | None, limit: int) -> tuple[list[str], bool]:
        page = records.list("image", "me", after=after, limit=limit, order="asc", state="queued")
        return [each.id for each in page.jobs], page.more

    assert found(None, 2) == ([job(1).id, job(3).id], True)
    # One of another state may be what was seen last.
    assert found(job(4).id, 2) == ([job(5).id], False)


def test_a_desk_that_is_not_open_says_so(tmp_path: Path) -> None:
    desk = SqlDesk(JobSettings(database=f"sqlite:///{tmp_path}/jobs.sqlite", store=str(tmp_path)))

    async def story() -> str:
        await desk.start()
        await desk.close()
        with pytest.raises(JobRefused) as refused:
            await desk.get("image_1", "me")
        return refused.value.code

    with pytest.raises(JobRefused, match="not open"):
        asyncio.run(desk.unfinished())
    assert asyncio.run(story()) == "store_unavailable"


def test_lists_go_by_an_index(engine: sa.Engine) -> None:
    records = Records(engine)
    for number in range(3):
        records.add(job(number))
    asked: list[tuple[str, Any]] = []

    def note(*all_of_it: Any) -> None:
        asked.append((all_of_it[2], all_of_it[3]))

    event.listen(engine, "before_cursor_execute", note)
    for kind in (None, "image"):
        records.list(kind, "me", after=job(1).id, limit=20, order="desc")
        statement, parameters = asked[-1]
        with engine.connect() as line:
            plan = str(line.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all())
        assert "antiphon_jobs_list" in plan
        assert "(created_at,id)<" in plan
        assert "TEMP B-TREE" not in plan
