"""Where files of jobs are kept: a folder, or an object store by URL (``s3://``, ``gs://``, ...).

All lie under ``jobs/<id>/``. A file is there whole or not at all. What no record names, as the
process was killed before it was recorded, is swept away when it is an hour old.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import obstore
from obstore.store import LocalStore, from_url

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PREFIX = "jobs"

PIECE_BYTES = 256 * 1024

ORPHAN_SECONDS = 3600.0
"""Younger ones may belong to a job that is about to be recorded."""

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs")


class Missing(Exception):
    """There is no such file."""


class Artefacts:
    """The store. All calls block.

    ``place``: a folder, or a URL. ``options``: of the store behind a URL, as obstore names them
    (``endpoint``, ``region``, keys, ...); credentials are else taken from the environment.

    Raises:
        ValueError: the URL is of no kind that is known.
    """

    def __init__(self, place: str, options: dict[str, Any] | None = None) -> None:
        scheme = urlsplit(place).scheme
        self._folder: Path | None = None
        self._store: ObjectStore
        if scheme in ("", "file"):
            folder = Path(url2pathname(urlsplit(place).path) if scheme else place).absolute()
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._folder = folder
            self._store = LocalStore(folder, automatic_cleanup=True)
        elif scheme in SCHEMES:
            # Its types know each store's options apart; here they come from a file.
            make: Any = from_url
            self._store = make(place, **(options or {}))
        else:
            raise ValueError(f"store: {scheme!r} is not supported; use a folder or an s3:// URL")

    def put(self, key: str, data: bytes) -> None:
        """Write a file, whole or not at all, and on the disk when this returns."""
        obstore.put(self._store, key, data)
        if self._folder is not None:
            _settle(self._folder / key)

    def get(self, key: str) -> bytes:
        """A small file. Raises :class:`Missing`."""
        try:
            return bytes(obstore.get(self._store, key).bytes())
        except FileNotFoundError:
            raise Missing(key) from None

    def pieces(self, key: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """A file in pieces, from ``start`` up to ``end``. Raises :class:`Missing`."""
        try:
            size = obstore.head(self._store, key)["size"]
            for at in range(start, size if end is None else min(size, end), PIECE_BYTES):
                stop = min(at + PIECE_BYTES, size if end is None else min(size, end))
                yield bytes(obstore.get_range(self._store, key, start=at, end=stop))
        except FileNotFoundError:
            raise Missing(key) from None

    def fetch(self, key: str, target: Path) -> None:
        """Copy a file to this machine. Raises :class:`Missing`."""
        with target.open("wb") as out:
            for each in self.pieces(key):
                out.write(each)

    def delete(self, keys: Collection[str]) -> None:
        """Take files away; those that are not there are no error."""
        for key in keys:
            try:
                obstore.delete(self._store, key)
            except FileNotFoundError:
                continue

    def keys(self, under: str = PREFIX) -> Iterator[tuple[str, float]]:
        """All files there, and how old they are, in seconds."""
        now = time.time()
        found = obstore.list(self._store, under)  # pyright: ignore[reportUnknownMemberType]
        for some in found:
            for each in some:
                yield each["path"], now - each["last_modified"].timestamp()

    def delete_job(self, job_id: str, *, keep: Collection[str] = ()) -> None:
        """Take away what a job has, or all but some of it."""
        self.delete([key for key, _ in self.keys(f"{PREFIX}/{job_id}") if key not in keep])
        if self._folder is not None:
            _sweep_staged(self._folder / PREFIX / job_id, 0.0)

    def sweep_staged(self) -> None:
        """Take away what was left half-written in a folder by a killed process."""
        if self._folder is not None:
            _sweep_staged(self._folder / PREFIX, ORPHAN_SECONDS)


def job_of(key: str) -> str:
    """The job that a key belongs to."""
    return key.split("/", 2)[1]


def _settle(path: Path) -> None:
    """See that a file, and its name, are on the disk."""
    for each in (path, path.parent):
        handle = os.open(each, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep_staged(folder: Path, age: float) -> None:
    # obstore writes NAME#1 and renames it; its lists pass such files over.
    before = time.time() - age
    for path in folder.rglob("*#*"):
        try:
            if path.stat().st_mtime <= before:
                path.unlink()
        except FileNotFoundError:
            continue
