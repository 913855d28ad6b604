"""Folders for the files that go into a task, on this machine. Each says in its name whose it is,
so that those of a killed worker are found and taken away by the next."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from .presence import process_mark, this_place

_PREFIX = "antiphon-job"


def scratch_prefix() -> str:
    """Of the names of this process's folders."""
    number, _, start = (process_mark(os.getpid()) or f"{os.getpid()} 0").partition(" ")
    return f"{_place_prefix()}{number}-{start}-"


def sweep_scratch(folder: Path | None = None) -> None:
    """Take away the folders of processes of this place that are no more."""
    where = folder or Path(tempfile.gettempdir())
    for path in where.glob(f"{_place_prefix()}*"):
        number, _, rest = path.name.removeprefix(_place_prefix()).partition("-")
        start = rest.partition("-")[0]
        if not number.isdigit() or process_mark(int(number)) == f"{number} {start}":
            continue
        if path.lstat().st_uid == os.getuid() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def _place_prefix() -> str:
    place = hashlib.sha256(this_place().encode()).hexdigest()[:12]
    return f"{_PREFIX}-{place}-"
