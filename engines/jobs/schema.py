"""The tables of jobs, and the database that they are in: SQLite or PostgreSQL, by one URL."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

VERSION = 1
"""Of the tables; what an older one lacks is made at the start."""

METADATA = sa.MetaData()

SCHEMA = sa.Table("antiphon_schema", METADATA, sa.Column("version", sa.Integer, primary_key=True))

JOBS = sa.Table(
    "antiphon_jobs",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("owner", sa.String(128), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    # What was asked and never changes, as JSON of a job.
    sa.Column("asked", sa.LargeBinary, nullable=False),
    sa.Column("version", sa.Integer, nullable=False, default=0),
    sa.Column("progress", sa.Integer, nullable=False, default=0),
    sa.Column("step_ms", sa.Double, nullable=False, default=0.0),
    sa.Column("remaining_ms", sa.Double),
    sa.Column("started_at", sa.Double),
    sa.Column("ended_at", sa.Double),
    sa.Column("expires_at", sa.Double),
    sa.Column("error", sa.LargeBinary),
    sa.Column("artefacts", sa.LargeBinary),
    # Who runs it, and how often it was begun: together what a late worker lacks.
    sa.Column("worker", sa.String(64)),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    # Workers that died with it since its last checkpoint.
    sa.Column("crashes", sa.Integer, nullable=False, default=0),
    sa.Column("cancelling", sa.Boolean, nullable=False, default=False),
    # Of the message on its end: when to send it, what was tried.
    sa.Column("hook_due", sa.Double),
    sa.Column("hook_tries", sa.Integer, nullable=False, default=0),
    sa.Index("antiphon_jobs_list", "owner", "created_at", "id"),
    sa.Index("antiphon_jobs_list_kind", "owner", "kind", "created_at", "id"),
    sa.Index("antiphon_jobs_state", "state"),
    sa.Index("antiphon_jobs_expiry", "expires_at"),
    sa.Index("antiphon_jobs_hook", "hook_due"),
)

PARTS = sa.Table(
    "antiphon_parts",
    METADATA,
    # One a task of a job: its preview, its checkpoint, and what came of it.
    sa.Column("job_id", sa.String(64), primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True),
    sa.Column("preview", sa.LargeBinary),
    sa.Column("preview_version", sa.Integer, nullable=False, default=0),
    sa.Column("checkpoint_key", sa.String(256)),
    sa.Column("checkpoint_done", sa.Integer, nullable=False, default=0),
    sa.Column("made", sa.LargeBinary),
)

IDEMPOTENCY = sa.Table(
    "antiphon_idempotency",
    METADATA,
    sa.Column("owner", sa.String(128), primary_key=True),
    sa.Column("key", sa.String(256), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("job_id", sa.String(64), nullable=False, index=True),
)

WORKERS = sa.Table(
    "antiphon_workers",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    # Where its process can be looked for by number, and the process; see `presence.py`.
    sa.Column("place", sa.String(256), nullable=False),
    sa.Column("process", sa.String(64), nullable=False),
    sa.Column("beat", sa.Integer, nullable=False, default=0),
    sa.Column("gone", sa.Boolean, nullable=False, default=False),
)


def database_url(url: str) -> sa.URL:
    """The URL with the driver that is used.

    Raises:
        ValueError: it is neither of SQLite nor of PostgreSQL.
    """
    parsed = sa.make_url(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise ValueError("database: SQLite needs a file, sqlite:////folder/jobs.sqlite")
        return parsed
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise ValueError(f"database: {backend!r} is not supported; use sqlite or postgresql")


def open_database(url: str, *, pool: int = 5) -> sa.Engine:
    """Connect. The folder of an SQLite file is made; the tables are not, see :func:`migrate`.

    Raises:
        ValueError: see :func:`database_url`.
    """
    parsed = database_url(url)
    if parsed.get_backend_name() != "sqlite":
        return sa.create_engine(parsed, pool_size=pool, max_overflow=5, pool_pre_ping=True)
    Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine = sa.create_engine(parsed, pool_size=pool, max_overflow=5)
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def migrate(engine: sa.Engine) -> None:
    """Make the tables, or bring older ones up to date. Several processes may do so at once."""
    with engine.begin() as line:
        _lock(line)
        METADATA.create_all(line)
        found = line.execute(sa.select(SCHEMA.c.version)).scalar()
        if found is None:
            line.execute(sa.insert(SCHEMA).values(version=VERSION))
        elif found > VERSION:
            raise ValueError(
                f"database: its tables are of version {found}, newer than this program's {VERSION}"
            )


def _lock(line: sa.Connection) -> None:
    """Let only one process change the tables."""
    if line.dialect.name == "sqlite":
        line.execute(sa.text("BEGIN IMMEDIATE"))
    else:
        line.execute(sa.text("SELECT pg_advisory_xact_lock(7306001)"))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Writers queue up instead of failing, readers never wait, and what is committed is on disk."""
    connection.isolation_level = "IMMEDIATE"
    connection.execute("PRAGMA busy_timeout=30000")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


class Changes:
    """Tells cheaply whether anything may have been written to the database, by whomever.

    SQLite says it by a number, in a few microseconds and without a transaction. Of PostgreSQL
    nothing is known but by asking what one wants to know. For one thread at a time; never waits.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._line: sqlite3.Connection | None = None
        if engine.dialect.name == "sqlite":
            # One of its own: what a connection writes itself does not count for it.
            self._line = sqlite3.connect(str(engine.url.database), timeout=0)

    def mark(self) -> int | None:
        """A number that differs from the last one if something was written since; None where
        that can't be told."""
        if self._line is None:
            return None
        try:
            number: int = self._line.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.OperationalError:
            return None
        return number

    def close(self) -> None:
        """Let go. Idempotent."""
        if self._line is not None:
            self._line.close()
            self._line = None
