"""The message on a job's end."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa

from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.claims import Claims
from antiphon.engines.jobs.hooks import LEASE_SECONDS, WAITS, HookSender, secret_bytes
from antiphon.engines.jobs.job import Job
from antiphon.engines.jobs.records import Records
from antiphon.engines.jobs.schema import migrate, open_database

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
URL = "https://example.com/hook"
TASK = MediaTask(
    kind="video", model="m", prompt="p", width=8, height=8, steps=4, guidance=1.0, seed=1
)


class Post:
    """Answers with the given statuses, then with 204."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.got: list[tuple[str, bytes, Mapping[str, str]]] = []

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        self.got.append((url, body, headers))
        status = self.statuses.pop(0) if self.statuses else 204
        if not status:
            raise OSError("no way there")
        return status


class Clock:
    now = 5000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = open_database(f"sqlite:///{tmp_path}/jobs.sqlite")
    migrate(engine)
    yield engine
    engine.dispose()


def ended(engine: sa.Engine, clock: Clock, *, webhook: str | None = URL) -> Job:
    job = Job(id="video_1", kind="video", tasks=(TASK,), created_at=1.0, webhook=webhook)
    Records(engine).add(job)
    claims = Claims(engine, "w", clock=clock)
    claim = claims.begin(job.id)
    assert claim is not None
    claims.complete(claim, ())
    return job


def test_it_is_signed_and_sent_once(engine: sa.Engine) -> None:
    clock, post = Clock(), Post()
    ended(engine, clock)
    sender = HookSender(engine, post, SECRET, clock=clock)
    asyncio.run(sender.send_due())
    clock.now += 1e6
    asyncio.run(sender.send_due())
    ((url, body, headers),) = post.got
    assert url == URL
    assert json.loads(body) == {
        "id": "evt_video_1",
        "object": "event",
        "type": "video.completed",
        "created_at": 5000,
        "data": {"id": "video_1", "status": "completed"},
    }
    mac = hmac.new(KEY, b"evt_video_1.5000." + body, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(mac).decode()
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("evt_video_1", "5000")


def test_it_is_tried_again_and_at_last_given_up(engine: sa.Engine) -> None:
    clock, post = Clock(), Post(*([500, 0] * 10))
    ended(engine, clock)
    for wait in (*WAITS, 1e6):
        sender = HookSender(engine, post, SECRET, clock=clock)
        asyncio.run(sender.send_due())
        before = len(post.got)
        clock.now += wait - 1
        asyncio.run(sender.send_due())
        assert len(post.got) == before
        clock.now += 1
    assert len(post.got) == len(WAITS) + 1
    assert len({headers["webhook-id"] for _, _, headers in post.got}) == 1


def test_it_is_sent_by_another_when_its_sender_died(engine: sa.Engine) -> None:
    clock = Clock()
    ended(engine, clock)

    class Dies(Post):
        async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(HookSender(engine, Dies(), SECRET, clock=clock).send_due())
    post = Post()
    sender = HookSender(engine, post, SECRET, clock=clock)
    asyncio.run(sender.send_due())
    assert post.got == []
    clock.now += LEASE_SECONDS
    asyncio.run(sender.send_due())
    assert len(post.got) == 1


def test_nothing_is_sent_where_nothing_was_asked(engine: sa.Engine) -> None:
    clock, post = Clock(), Post()
    ended(engine, clock, webhook=None)
    asyncio.run(HookSender(engine, post, SECRET, clock=clock).send_due())
    assert post.got == []


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_####", SECRET[6:], "whsec_AAAA"])
def test_a_secret_of_another_form_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="webhook_secret"):
        secret_bytes(secret)
