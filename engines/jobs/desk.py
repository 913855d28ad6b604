"""The contract of the server's side of jobs: where they are handed in and asked after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from .job import Artefact, Job, NewJob, State


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a list."""

    jobs: tuple[Job, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """A job as it changed, or a picture of it that forms."""

    job: Job
    preview: bytes | None = None
    """JPEG; only where it is new."""

    preview_of: int = 0
    """Which picture of the job it is of."""


class JobRefused(Exception):
    """A job was not accepted, or can't be had; the message is fit for a client."""

    def __init__(self, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        """``queue_full``, ``idempotency_mismatch``, ``not_found``, ``not_ready``, ``store_unavailable``."""

        self.message = message
        self.param = param


class Desk(Protocol):
    """Hands in jobs and tells of them; every answer is true when it is given."""

    async def start(self) -> None:
        """Open the records and the store. Raises ``StageFailure`` where that can't be done."""
        ...

    async def submit(self, new: NewJob) -> Job:
        """Accept a job: on return it is recorded, and survives anything.

        Raises:
            JobRefused: too many wait, or the idempotency key belongs to another request.
        """
        ...

    async def get(self, job_id: str, owner: str | None) -> Job:
        """A job; ``owner`` ``None``: whoever's, for who knows its id.

        Raises:
            JobRefused: there is none (``not_found``).
        """
        ...

    async def list(
        self,
        kind: str | None,
        owner: str,
        *,
        after: str | None,
        limit: int,
        order: Literal["asc", "desc"],
        state: State | None = None,
    ) -> Page:
        """Jobs by their creation, of one kind or state where it is said; ``after`` names the last
        one that was seen."""
        ...

    async def cancel(self, job_id: str, owner: str) -> Job:
        """Stop a job: one that waits is cancelled at once, one under way at its next step. One
        that has ended stays as it is."""
        ...

    async def delete(self, job_id: str, owner: str) -> Job:
        """Stop it, and take away the record and the files; returns what it was."""
        ...

    def watch(self, job_id: str, owner: str) -> AsyncIterator[Seen]:
        """Every change from now on, at first the job as it is, last its end. Changes that follow
        each other quickly are told as one."""
        ...

    def content(
        self, artefact: Artefact, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """The bytes of a file, from ``start`` up to ``end``; ``JobRefused`` (``not_found``) where
        it is not there any more."""
        ...

    async def unfinished(self) -> bool:
        """Whether any job, of whomever, has not ended."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...
