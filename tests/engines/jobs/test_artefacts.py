"""Files of jobs, in a folder and in an object store."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.object_store import object_store

from antiphon.engines.jobs.artefacts import PIECE_BYTES, Artefacts, Missing


@pytest.fixture(scope="module")
def bucket() -> Iterator[Artefacts]:
    with object_store("pieces") as options:
        yield Artefacts("s3://pieces", options)


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Artefacts:
    if request.param == "s3":
        found: Artefacts = request.getfixturevalue("bucket")
        return found
    return Artefacts(str(tmp_path / "files"))


def keys(store: Artefacts) -> list[str]:
    return sorted(key for key, _ in store.keys())


def test_files_are_kept_read_in_pieces_and_deleted(store: Artefacts, tmp_path: Path) -> None:
    data = bytes(range(256)) * (2 * PIECE_BYTES // 256) + b"rest"
    store.put("jobs/a/1/content.bin", b"before")
    store.put("jobs/a/1/content.bin", data)
    store.put("jobs/a/in/0", b"in")
    store.put("jobs/ab/1/content.bin", b"another's")
    pieces = list(store.pieces("jobs/a/1/content.bin"))
    assert [len(piece) for piece in pieces] == [PIECE_BYTES, PIECE_BYTES, 4]
    assert b"".join(pieces) == data
    assert (
        b"".join(store.pieces("jobs/a/1/content.bin", 3, PIECE_BYTES + 9))
        == (data[3 : PIECE_BYTES + 9])
    )
    store.fetch("jobs/a/in/0", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"in" == store.get("jobs/a/in/0")
    assert all(abs(age) < 60 for _, age in store.keys())
    store.delete_job("a", keep=["jobs/a/in/0"])
    assert keys(store) == ["jobs/a/in/0", "jobs/ab/1/content.bin"]
    for job_id in ("a", "ab", "a"):
        store.delete_job(job_id)
    assert keys(store) == []
    for call in (lambda: store.get("jobs/a/x"), lambda: list(store.pieces("jobs/a/x"))):
        with pytest.raises(Missing):
            call()


def test_half_written_files_are_swept_when_they_are_old(tmp_path: Path) -> None:
    store = Artefacts(f"file://{tmp_path}/files")
    store.put("jobs/a/x", b"whole")
    old, new = (tmp_path / "files/jobs/a" / name for name in ("x#1", "y#1"))
    for path in (old, new):
        path.write_bytes(b"half")
    before = time.time() - 7200
    os.utime(old, (before, before))
    # They are no files of the store.
    assert keys(store) == ["jobs/a/x"]
    store.sweep_staged()
    assert (old.exists(), new.exists()) == (False, True)
    store.delete_job("a")
    assert list((tmp_path / "files").rglob("*#*")) == []


def test_other_places_are_refused() -> None:
    with pytest.raises(ValueError, match="store:"):
        Artefacts("ftp://host/files")
