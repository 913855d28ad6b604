"""The message on a job's end, to the address that was asked for, signed as Standard Webhooks says
(https://www.standardwebhooks.com): HMAC-SHA256 over id, time and body.

What is to be sent stands in the job's record since its end, so it survives a kill. It may arrive
twice; its ``webhook-id`` is then the same.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Mapping
from typing import Protocol

import sqlalchemy as sa

from .job import Job
from .records import Clock, as_job, job_columns
from .schema import JOBS

LOG = logging.getLogger(__name__)

AT_ONCE = 8

WAITS = (5.0, 30.0, 120.0, 600.0, 1800.0, 7200.0)
"""Seconds before each further try; after the last one the message is given up."""

LEASE_SECONDS = 60.0
"""After which a message is tried again whose sender died."""

_PREFIX = "whsec_"


class Poster(Protocol):
    """Sends to an address that a client named, and knows which it may."""

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Return the status of the answer."""
        ...


def secret_bytes(secret: str) -> bytes:
    """The key of ``whsec_`` and base64.

    Raises:
        ValueError: it is not of that form, or shorter than 24 bytes.
    """
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(_PREFIX) or len(key) < 24:
        raise ValueError("webhook_secret: expected whsec_ and the base64 of 24 to 64 bytes")
    return key


def signed(secret: bytes, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers of a message."""
    content = f"{message_id}.{at}.".encode() + body
    mac = base64.b64encode(hmac.new(secret, content, hashlib.sha256).digest()).decode()
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{mac}",
    }


def message(job: Job) -> bytes:
    """What is said: as OpenAI's ``video.completed`` and ``video.failed`` events. A cancelled job
    has failed there, with the code ``cancelled``."""
    status = "completed" if job.state == "completed" else "failed"
    data: dict[str, object] = {"id": job.id, "status": status}
    if job.error is not None:
        data["error"] = {"code": job.error.code, "message": job.error.message}
    event = {
        "id": f"evt_{job.id}",
        "object": "event",
        "type": f"{job.kind}.{status}",
        "created_at": int(job.ended_at or 0),
        "data": data,
    }
    return json.dumps(event).encode()


class HookSender:
    """Sends what is due. Several workers may do so at once."""

    def __init__(
        self,
        engine: sa.Engine,
        poster: Poster,
        secret: str,
        *,
        clock: Clock = time.time,
    ) -> None:
        self._engine = engine
        self._poster = poster
        self._secret = secret_bytes(secret)
        self._clock = clock

    async def send_due(self) -> None:
        """Send some; what fails is tried again later, a bounded number of times."""
        due = await asyncio.to_thread(self._take)
        await asyncio.gather(*(self._send(job, tries) for job, tries in due))

    def _take(self) -> list[tuple[Job, int]]:
        now = self._clock()
        with self._engine.begin() as line:
            rows = line.execute(
                job_columns()
                .add_columns(JOBS.c.id, JOBS.c.hook_due, JOBS.c.hook_tries)
                .where(JOBS.c.hook_due <= now)
                .order_by(JOBS.c.hook_due)
                .limit(AT_ONCE)
            ).all()
            taken: list[tuple[Job, int]] = []
            for row in rows:
                mine = line.execute(
                    sa.update(JOBS)
                    .where(JOBS.c.id == row.id, JOBS.c.hook_due == row.hook_due)
                    .values(hook_due=now + LEASE_SECONDS)
                )
                if mine.rowcount:
                    taken.append((as_job(row), row.hook_tries))
        return taken

    async def _send(self, job: Job, tries: int) -> None:
        body = message(job)
        headers = signed(self._secret, f"evt_{job.id}", int(self._clock()), body)
        try:
            status = await self._poster.post(job.webhook or "", body, headers)
            failure = "" if 200 <= status < 300 else f"status {status}"
        except Exception as error:
            failure = type(error).__name__
        due = None
        if failure:
            due = self._clock() + WAITS[tries] if tries < len(WAITS) else None
            end = "tried again later" if due else "given up"
            LOG.warning("the webhook of a job failed (%s); it is %s", failure, end)
        await asyncio.to_thread(self._note, job.id, due, tries + 1)

    def _note(self, job_id: str, due: float | None, tries: int) -> None:
        with self._engine.begin() as line:
            line.execute(
                sa.update(JOBS).where(JOBS.c.id == job_id).values(hook_due=due, hook_tries=tries)
            )
