"""A PostgreSQL of a test's own, in a temporary folder, reached by a socket in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        # Debian keeps them off the path.
        newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        if not newest:
            pytest.fail(f"{name} is missing: install postgresql")
        found = str(newest[-1])
    return found


@contextmanager
def postgres() -> Generator[str]:
    """The URL of an empty database. It refuses to run as root, so root lends it a user."""
    folder = Path(tempfile.mkdtemp(prefix="antiphon-pg-", dir="/tmp"))
    who: dict[str, Any] = {}
    if os.getuid() == 0:
        who = {"user": "postgres", "group": "postgres", "extra_groups": []}
        shutil.chown(folder, "postgres", "postgres")
    data = folder / "data"
    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=100"
    control = [_program("pg_ctl"), "-D", str(data), "-w", "-s"]

    def run(*command: str) -> None:
        log = folder / "out"
        with log.open("ab") as out:
            status = subprocess.call(command, stdout=out, stderr=out, cwd=folder, **who)
        assert status == 0, log.read_text()

    try:
        run(_program("initdb"), "-D", str(data), "-U", "jobs", "-A", "trust", "--no-sync")
        run(*control, "-o", options, "-l", str(folder / "log"), "start")
        try:
            yield f"postgresql://jobs@/postgres?host={folder}"
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
