"""A job: what was asked, how far it is, and what came of it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ..diffusion.task import MediaTask

State: TypeAlias = Literal["queued", "in_progress", "completed", "failed", "cancelled"]

ENDED: tuple[State, ...] = ("completed", "failed", "cancelled")


class JobError(msgspec.Struct, frozen=True):
    """Why a job did not complete."""

    code: str
    message: str


class Artefact(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a job, in the artefact store."""

    name: str
    """``content``, ``thumbnail``, ``spritesheet``, ``input-image``, ...; pictures of one job are
    ``content``, ``content-1``, ..."""

    key: str
    type: str
    """Of its content, as HTTP names it."""

    size: int
    """Bytes."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a job, as it is now. Times are Unix seconds."""

    id: str
    """``video_`` or ``image_`` and 32 hexadecimal digits."""

    kind: Literal["image", "video"]
    state: State = "queued"
    tasks: tuple[MediaTask, ...]
    """One a picture; of a video one."""

    asked: dict[str, object] = {}
    """What its answer repeats of the request: size, seconds, quality, ..., plain JSON."""

    owner: str = ""
    """Digest of the key that it was asked with; others don't see it."""

    progress: int = 0
    """Per cent, 0 to 100; 100 only when completed."""

    step_ms: float = 0.0
    """Of late."""

    remaining_ms: float | None = None
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    expires_at: float | None = None
    error: JobError | None = None
    artefacts: tuple[Artefact, ...] = ()
    attempts: int = 0
    """How often a worker began it."""

    webhook: str | None = None
    remixed_from: str | None = None
    version: int = 0
    """Counts the changes of the record."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in ENDED


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be accepted."""

    kind: Literal["image", "video"]
    tasks: tuple[MediaTask, ...]
    asked: dict[str, object] = {}
    owner: str = ""
    idempotency_key: str | None = None
    """With the same key and owner the same job is meant."""

    webhook: str | None = None
    remixed_from: str | None = None
    inputs: dict[str, bytes] = {}
    """Files that go in, by the name the tasks' :attr:`.MediaTask.inputs` use as value; they are
    stored, and the values replaced by their keys, before the job is recorded."""
