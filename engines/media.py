"""The batch path as a deployment says it: ``media:``, and what follows from it.

Read by the server and by its workers, so no tensor library, no database and no store is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from .chunks import StageError
from .diffusion.abilities import Abilities
from .diffusion.named import EMBEDDED, abilities_of
from .diffusion.switches import DiffuserConfig
from .jobs.input_limits import FetchConfig, InputLimits
from .jobs.settings import JobSettings
from .stage import StageFailure

Positive = Annotated[int, Meta(ge=1)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]

DATABASE = "jobs.sqlite"
STORE = "media"
"""Where jobs and their files lie in the data folder, unless the deployment says otherwise."""


def _embedded() -> dict[str, DiffuserConfig]:
    return {name: DiffuserConfig(path=path) for name, path in EMBEDDED.items()}


class MediaConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pictures and clips, made by jobs."""

    models: dict[Name, DiffuserConfig] = msgspec.field(default_factory=_embedded)
    """By the name that clients ask for; the first of a kind is meant where none is named."""

    database: Name | None = None
    """``sqlite:////folder/jobs.sqlite`` or ``postgresql://user@host/name``; by default a file in
    the data folder."""

    store: Name | None = None
    """Of files: a folder, or an ``s3://`` URL; by default a folder in the data folder."""

    store_options: dict[str, Any] = {}
    """Of an object store, as obstore names them: ``endpoint``, ``region``, ..."""

    worker: Literal["embedded", "none"] = "embedded"
    """``embedded``: the server runs a worker as its child, from the first job on; ``none``: jobs
    wait for an ``antiphon worker``."""

    jobs_at_once: Positive = 4
    """Of one worker."""

    queue: Positive = 1000
    """Jobs that may wait; more are refused."""

    pictures: Annotated[int, Meta(ge=1, le=10)] = 10
    """Most that one request may ask for (``n``)."""

    keep_hours: Annotated[float, Meta(gt=0)] | None = 168.0
    """After its end a job is kept so long, with its files; ``null``: until it is deleted."""

    wait_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 600
    """How long a request that waits for its picture or clip does so before its job is stopped."""

    waiting: Positive = 64
    """Requests that may wait so, and streams that follow jobs; more are refused."""

    webhook_secret_file: Name | None = None
    """A file with ``whsec_`` and base64, which messages on the end of a job are signed with;
    without it a ``webhook`` is refused. Beside the deployment file unless absolute."""

    fetch: FetchConfig = FetchConfig()
    inputs: InputLimits = InputLimits()


@dataclass(frozen=True, slots=True)
class Served:
    """A model that is on offer."""

    name: str
    config: DiffuserConfig
    abilities: Abilities


def served_models(config: MediaConfig) -> Mapping[str, Served]:
    """What is on offer, in the deployment's order. Reads small files.

    Raises:
        StageFailure: a model's folder is missing, or no pipeline's that is known; the message
            names the key.
    """
    served: dict[str, Served] = {}
    for name, each in config.models.items():
        try:
            served[name] = Served(name, each, abilities_of(each))
        except StageFailure as failure:
            message = f"media.models.{name}: {failure.error.message}"
            raise StageFailure(StageError(failure.error.code, message)) from None
    return served


def job_settings(config: MediaConfig, data: Path) -> JobSettings:
    """Where jobs are kept. ``data``: the folder of what the server keeps.

    Raises:
        StageFailure: the file of the webhook secret can't be read.
    """
    return JobSettings(
        database=config.database or f"sqlite:///{(data / DATABASE).absolute()}",
        store=config.store or str((data / STORE).absolute()),
        store_options=dict(config.store_options),
        queue_limit=config.queue,
        keep_seconds=None if config.keep_hours is None else config.keep_hours * 3600.0,
        jobs_at_once=config.jobs_at_once,
        webhook_secret=_secret(config.webhook_secret_file),
    )


def _secret(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        message = f"media.webhook_secret_file: cannot read {file}: {error.strerror}"
        raise StageFailure(StageError("secret_missing", message)) from None


def check_secret(settings: JobSettings) -> None:
    """See that messages can be signed, if any are to be. It loads the database's libraries.

    Raises:
        StageFailure: the secret is none.
    """
    if settings.webhook_secret is None:
        return
    from .jobs.hooks import secret_bytes

    try:
        secret_bytes(settings.webhook_secret)
    except ValueError as error:
        message = f"media.webhook_secret_file: {error}"
        raise StageFailure(StageError("secret_invalid", message)) from None
