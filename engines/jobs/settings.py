"""What server and workers must know alike about jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Where jobs are kept, and the bounds."""

    database: str
    """``sqlite:////folder/jobs.sqlite`` or ``postgresql://user@host/name``."""

    store: str
    """Of files: a folder, or an ``s3://`` URL."""

    store_options: dict[str, Any] = field(default_factory=dict[str, Any])
    """Of an object store, as obstore names them."""

    queue_limit: int = 1000
    """Jobs that may wait."""

    keep_seconds: float | None = 7 * 24 * 3600.0
    """After its end, record and files of a job go; None: never."""

    jobs_at_once: int = 4
    """Of one worker."""

    poll_seconds: float = 0.2
    """Between a worker's looks at the queue; each takes the model some milliseconds."""

    silent_seconds: float = 15.0
    """After which a worker on another machine counts as dead."""

    webhook_secret: str | None = field(default=None, repr=False)
    """``whsec_`` and base64, which messages on an end are signed with; without it there are
    none."""
