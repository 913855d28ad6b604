"""The folder of added voices: pairs of ``NAME.onnx`` and ``NAME.onnx.json``, and no others.

People put files there while the server looks, so a pair counts only once nothing has changed
it for a moment; what a server adds appears in it whole.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from .family import NAME

GRAPH = ".onnx"
DESCRIPTION = ".onnx.json"

RECIPE = 4
"""Raised whenever :mod:`.intake` makes other files of the same pair."""

WORK_PREFIX = ".adding-"
"""Of files and folders that are being made; such names are never looked at."""

ABANDONED_SECONDS = 24 * 3600.0
"""Age at which what a killed server left of them is swept away."""

SETTLED_SECONDS = 2.0
"""A file that was written more lately may still be growing."""

Stamp: TypeAlias = tuple[int, ...]
"""Size and time of both files of a pair: another one means that they have changed."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The two files of a voice."""

    name: str
    graph: Path
    description: Path
    stamp: Stamp
    created_at: int
    """Unix time of when the graph was put there."""

    settled: bool
    """Whether neither was changed within :data:`SETTLED_SECONDS`."""


def pairs(folder: Path) -> list[Pair]:
    """The pairs there are, by name; none where there is no such folder."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return []
    found: list[Pair] = []
    for file in names:
        name = file.removesuffix(DESCRIPTION)
        if name != file and re.fullmatch(NAME, name) and (pair := look(folder, name)):
            found.append(pair)
    return found


def look(folder: Path, name: str) -> Pair | None:
    """The pair of a name, if both files are there."""
    graph, description = folder / (name + GRAPH), folder / (name + DESCRIPTION)
    try:
        both = [path.stat() for path in (graph, description)]
    except OSError:
        return None
    now = time.time()
    # A clock that is ahead of ours, on another machine, must not make a file wait for ever.
    settled = all(abs(now - each.st_mtime) >= SETTLED_SECONDS for each in both)
    stamp = tuple(number for each in both for number in (each.st_size, each.st_mtime_ns))
    return Pair(name, graph, description, stamp, int(both[0].st_ctime), settled)


def digest(graph: Path, description: Path) -> str:
    """Of what is in both files, and of the recipe, in hexadecimal."""
    whole = hashlib.sha256(str(RECIPE).encode())
    for path in (description, graph):
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:16]


def place(graph: Path, description: Path, folder: Path, name: str) -> None:
    """Move two files into the folder; both are on its file system.

    The pair is there with the second move, and whole at once.
    """
    description.rename(folder / (name + DESCRIPTION))
    graph.rename(folder / (name + GRAPH))


def remove(folder: Path, name: str) -> None:
    """Delete a pair."""
    for suffix in (DESCRIPTION, GRAPH):
        (folder / (name + suffix)).unlink(missing_ok=True)


@contextmanager
def workplace(folder: Path) -> Generator[Path]:
    """A new folder inside ``folder``, which is made if need be; deleted with what is left in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{WORK_PREFIX}*"):
        if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=folder) as made:
        yield Path(made)


def install(made: Path, target: Path) -> None:
    """Make a prepared folder appear as ``target``, in one step."""
    try:
        made.rename(target)
    except OSError:
        # Another server was faster, with the same files.
        if not target.is_dir():
            raise
