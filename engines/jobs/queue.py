"""The queue of jobs, by the library ``dbos``: one workflow a job, under the job's own id.

The record of a job says what is true; a workflow only says whose turn it is. Both lie in one
database, and are made in one transaction, so that what is accepted is queued.

Read in dbos 3.4.0: a dequeued workflow is PENDING under its executor's id until it ends; recovery
sets those of named executors back to ENQUEUED, in one guarded update, so that asking twice does no
harm. A workflow that ended can't be resumed, so :meth:`Queue.requeue` makes it anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, DBOSConfig
from dbos._error import DBOSException
from dbos._recovery import recover_pending_workflows

from .job import Job

if TYPE_CHECKING:
    from dbos import EnqueueOptions

APPLICATION = "antiphon"

APPLICATION_VERSION = "1"
"""One for all workers: a record tells all that a newer program needs to go on with a job."""

QUEUE = "media"
WORKFLOW = "media_job"

EPOCH = 1_767_225_600
"""2026-01-01: priorities of dbos are 31 bits, and count from there."""

VIDEO_HANDICAP_SECONDS = 60
"""A video's turn is that of a picture which came so much later. Time passes for both, so
neither starves."""

_MANY = 200
"""Workflows asked after in one query."""


def priority(job: Job) -> int:
    """The lower goes first: the moment it came, in seconds, and what a video waits more."""
    handicap = VIDEO_HANDICAP_SECONDS if job.kind == "video" else 0
    return max(1, int(job.created_at) - EPOCH + handicap)


def prepare(engine: sa.Engine) -> None:
    """Make the library's tables."""
    logging.getLogger("dbos").setLevel(logging.WARNING)
    url = engine.url.render_as_string(hide_password=False)
    DBOS.migrate(url.replace("postgresql+psycopg", "postgresql", 1))


class Queue:
    """Puts jobs in the queue, and takes them out. All calls block."""

    def __init__(self, engine: sa.Engine) -> None:
        self._client = DBOSClient(
            system_database_engine=engine,
            application_name=APPLICATION,
            retry_connection_errors=False,
        )

    def register(self, at_once: int, poll_seconds: float) -> None:
        """Say how a worker takes from the queue; before it launches, as it then looks for queues
        only once a second."""
        self._client.register_queue(
            QUEUE,
            worker_concurrency=at_once,
            polling_interval_sec=poll_seconds,
            on_conflict="always_update",
        )

    def add(self, line: sa.Connection, job: Job) -> None:
        """Queue a job, as a part of the transaction that records it."""
        self._client.enqueue_in_transaction(line, self._options(job), job.id)

    def remove(self, job_id: str) -> None:
        """Forget the workflow of a job that has ended."""
        self._client.delete_workflow(job_id)

    def cancel(self, job_id: str) -> None:
        """Take a job that was cancelled out of the queue."""
        self._client.cancel_workflow(job_id)

    def stray(self, ids: Sequence[str]) -> list[str]:
        """Which of these have no workflow that waits or runs."""
        found: list[str] = []
        for at in range(0, len(ids), _MANY):
            some = list(ids[at : at + _MANY])
            alive = self._client.list_workflows(
                workflow_ids=some,
                status=["ENQUEUED", "PENDING", "DELAYED"],
                load_input=False,
                load_output=False,
            )
            known = {each.workflow_id for each in alive}
            found += [each for each in some if each not in known]
        return found

    def clear(self) -> None:
        """Forget some workflows that have ended: the records tell all there is to know."""
        over = self._client.list_workflows(
            status=["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"],
            queue_name=QUEUE,
            limit=_MANY,
            load_input=False,
            load_output=False,
        )
        if over:
            self._client.delete_workflows([each.workflow_id for each in over])

    def executors(self) -> set[str]:
        """Workers under whose name workflows are under way."""
        pending = self._client.list_workflows(
            status="PENDING", queue_name=QUEUE, load_input=False, load_output=False
        )
        return {each.executor_id for each in pending if each.executor_id}

    def requeue(self, job: Job) -> None:
        """Queue a job anew whose workflow has ended without it."""
        self._client.delete_workflow(job.id)
        self._client.enqueue(self._options(job), job.id)

    def close(self) -> None:
        """Let go; the engine stays open."""
        self._client.destroy()

    def _options(self, job: Job) -> EnqueueOptions:
        return {
            "workflow_name": WORKFLOW,
            "queue_name": QUEUE,
            "workflow_id": job.id,
            "app_version": APPLICATION_VERSION,
            "priority": priority(job),
        }


class Runner:
    """The worker's side: hands over the jobs whose turn it is. One a process.

    ``carry_out`` is called in a thread for each, and returns when the job has ended, or is not
    this worker's.
    """

    def __init__(
        self,
        engine: sa.Engine,
        worker: str,
        carry_out: Callable[[str], None],
    ) -> None:
        config: DBOSConfig = {
            "name": APPLICATION,
            "application_version": APPLICATION_VERSION,
            "executor_id": worker,
            "system_database_url": engine.url.render_as_string(hide_password=False).replace(
                "postgresql+psycopg", "postgresql", 1
            ),
            "system_database_engine": engine,
            "run_migrations": True,
            "use_listen_notify": False,
            # Nothing here waits for a notification; it bounds how long the end of it all takes.
            "notification_listener_polling_interval_sec": 0.1,
            "log_level": "WARNING",
        }
        self._worker = worker
        self._dbos = DBOS(config=config)
        # Attempts are counted by the records, which know a crash from a restart.
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(_workflow(carry_out))

    def launch(self) -> None:
        """Begin to take jobs."""
        DBOS.launch()

    def recover(self, workers: Sequence[str]) -> None:
        """Queue what dead workers held."""
        if workers:
            recover_pending_workflows(self._dbos, list(workers))

    def stop_taking(self) -> None:
        """Take no more jobs; those under way go on."""
        for each in self._dbos.background_thread_stop_events:
            each.set()

    def hand_back(self) -> None:
        """Queue what this worker holds; its threads must not end their workflows any more."""
        # It warns of each workflow that is not its own any more, which is what is wanted here.
        logging.getLogger("dbos").setLevel(logging.ERROR)
        self.recover([self._worker])

    def destroy(self) -> None:
        """Let go. Threads whose workflow was handed back would ask for ever how it ends."""
        logging.getLogger("dbos").setLevel(logging.CRITICAL)
        records = self._dbos._sys_db  # pyright: ignore[reportPrivateUsage]

        def over(workflow_id: str, **_more: object) -> NoReturn:
            raise DBOSException(f"the worker left before {workflow_id} had ended")

        records.check_workflow_result = over  # type: ignore[method-assign]
        DBOS.destroy(destroy_registry=True)


def _workflow(carry_out: Callable[[str], None]) -> Callable[[str], None]:
    def media_job(job_id: str) -> None:
        carry_out(job_id)

    return media_job
