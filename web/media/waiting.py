"""Requests that wait for their picture or clip: who leaves, or waits too long, has its job stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

import msgspec
from starlette.responses import Response

from ...engines.jobs.desk import JobRefused, Seen
from ...engines.jobs.job import Job, JobError, NewJob
from ..errors import as_sentence, refusal
from .service import MediaService

logger = logging.getLogger(__name__)

T = TypeVar("T")

JOB_HEADER = "X-Antiphon-Job"
"""Tells which job an answer is of."""

CANCELLED = "cancelled"
TIMED_OUT = "wait_timeout"

_STATUS = {
    "invalid_task": 400,
    "bad_input": 400,
    "input_missing": 400,
    CANCELLED: 409,
    TIMED_OUT: 504,
    "busy": 503,
    "out_of_memory": 503,
    "stage_closed": 503,
    "store_unavailable": 503,
    "model_not_found": 503,
}
"""By the code of a job's error; what is not here is a fault of the server."""


async def made(service: MediaService, new: NewJob) -> Job:
    """Hand a job in and wait for its end, which :func:`answer_failed` tells unless it is
    ``completed``. Cancelled meanwhile, it stops the job.

    Raises:
        JobRefused: it was not accepted (no place to wait is ``queue_full``), or is gone.
    """
    async with handed_in(service, new) as job:
        return await finished(service, job, new.owner)


@contextlib.asynccontextmanager
async def handed_in(service: MediaService, new: NewJob) -> AsyncGenerator[Job, None]:
    """A job for as long as somebody waits for it: it has a place of :meth:`.MediaService.place`,
    and is stopped where the block is left by an exception, of whatever kind. Requests with the same
    idempotency key share a job: the first that leaves stops it for all of them.

    Raises:
        JobRefused: as :func:`made`.
    """
    with service.place():
        job = await submitted(service, new, lambda job: stopped(service, job.id, new.owner))
        try:
            yield job
        except BaseException:
            # The answer to whoever is still there is what happened, not how the stopping went.
            with contextlib.suppress(JobRefused):
                await stopped(service, job.id, new.owner)
            raise


async def finished(service: MediaService, job: Job, owner: str) -> Job:
    """A job as it is at its end; to be called within :func:`handed_in`.

    After ``media.wait_seconds`` it is stopped, and what is returned has failed with
    :data:`TIMED_OUT`.

    Raises:
        JobRefused: it was deleted meanwhile, or jobs can't be reached.
    """
    seconds = service.config.wait_seconds
    clock = asyncio.timeout(seconds)
    try:
        async with clock:
            return await _end(service, job, owner)
    except TimeoutError:
        if not clock.expired():
            raise
    last = await stopped(service, job.id, owner)
    if last.state in ("completed", "failed"):
        return last
    message = f"it took longer than {seconds} s (media.wait_seconds), and was stopped"
    return msgspec.structs.replace(last, state="failed", error=JobError(TIMED_OUT, message))


async def stopped(service: MediaService, job_id: str, owner: str) -> Job:
    """Cancel a job; this is done to its end also where its caller is cancelled.

    Raises:
        JobRefused: it is not there, or jobs can't be reached.
    """
    return await to_its_end(service.desk.cancel(job_id, owner))


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """What comes of ``work``, which is done to its end also where its caller is cancelled."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.gather(working, return_exceptions=True)
        raise


def answer_failed(job: Job) -> Response:
    """The answer to who waited for a job that did not complete, in OpenAI's envelope.

    Stock clients send a request again after such a status; here that would be the whole work
    again, so they are told not to.
    """
    error = job.error or JobError("internal_error", "the job did not complete")
    answer = refusal(_STATUS.get(error.code, 500), error.code, as_sentence(error.message))
    answer.headers["x-should-retry"] = "false"
    answer.headers[JOB_HEADER] = job.id
    return answer


async def submitted(
    service: MediaService, new: NewJob, undo: Callable[[Job], Awaitable[object]]
) -> Job:
    """Submit to the end: a job that is recorded after its client left, and would run for nobody,
    is undone.

    Raises:
        JobRefused: it was not accepted.
    """
    submitting = asyncio.ensure_future(service.submit(new))
    try:
        return await asyncio.shield(submitting)
    except asyncio.CancelledError:
        await asyncio.gather(submitting, return_exceptions=True)
        if not submitting.cancelled() and submitting.exception() is None:
            with contextlib.suppress(JobRefused):
                await undo(submitting.result())
        raise


async def _end(service: MediaService, job: Job, owner: str) -> Job:
    watch = cast("AsyncGenerator[Seen, None]", service.desk.watch(job.id, owner))
    async with contextlib.aclosing(watch):
        async for seen in watch:
            if seen.job.ended:
                return seen.job
    return await service.desk.get(job.id, owner)
