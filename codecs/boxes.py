"""How large the index of an MP4 or QuickTime file says it is.

Its tables are runs: a few bytes may stand for billions of samples, which FFmpeg writes out one
by one, 40 bytes each. So they are added up before it sees the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

UNCOUNTED = 1 << 62
"""Samples of an index that can't be counted: it is compressed."""

_SCANNED = 1 << 20
"""Bytes looked through at once."""

_MOST_BOXES = 1 << 16
"""Boxes at the top of a file that are visited: hours of fragments have some ten thousand."""

_SAMPLES = {b"stsz": 8, b"stz2": 8, b"trun": 4}
_CHUNKS = {b"stco": 4, b"co64": 4}
"""Where a table's number of entries stands: bytes behind its name."""

_RUNS = b"stsc"
_RUN = np.dtype([("first", ">u4"), ("samples", ">u4"), ("kind", ">u4")])
_MOST_RUNS = 1 << 20
"""Runs of all tables together that are looked at."""

_PACKED = 1024
"""Samples of PCM that FFmpeg lists as one."""

_COMPRESSED = b"cmov"
_FIELDS = {**_SAMPLES, **_CHUNKS, _RUNS: 4, _COMPRESSED: 0}
_NAMES = re.compile(b"|".join(_FIELDS))
_REACH = 16
"""Bytes from a name to the end of its number of entries."""


def sample_count(source: BinaryIO) -> int:
    """Return at least as many samples as FFmpeg would list for ``source``.

    All boxes but ``mdat``, which holds the samples themselves, are looked through for the names
    of tables, whatever they are nested in, so that no disguise hides one. A file that is no MP4
    may give any number.

    Raises:
        OSError: ``source`` could not be read.
    """
    samples = chunks = runs = longest = 0
    for start, end in _boxes(source):
        for name, at, count in _tables(source, start, end):
            runs += count if name == _RUNS else 0
            if name == _COMPRESSED or runs > _MOST_RUNS:
                return UNCOUNTED
            if name == _RUNS:
                longest = max(longest, _longest_run(source, at + 12, count))
            elif name in _CHUNKS:
                chunks += count
            else:
                samples += count
    return samples + chunks * -(-longest // _PACKED)


def _boxes(source: BinaryIO) -> Iterator[tuple[int, int]]:
    """Where the boxes at the top begin and end, but for those of samples."""
    size = source.seek(0, os.SEEK_END)
    at = 0
    for _ in range(_MOST_BOXES):
        source.seek(at)
        head = source.read(16)
        if len(head) < 8:
            return
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        end = min(at + length, size) if length >= 8 else size
        if head[4:8] != b"mdat":
            yield at, end
        at = end
    # Whatever is behind so many is looked through as one.
    yield at, size


def _tables(source: BinaryIO, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, position and number of entries of each table from ``start`` to ``end``."""
    for at in range(start, end, _SCANNED):
        source.seek(at)
        # A name across the edge is found once, by where it begins.
        data = source.read(min(_SCANNED + _REACH, end - at))
        for found in _NAMES.finditer(data):
            if found.start() >= _SCANNED:
                break
            name = found.group()
            field = found.end() + _FIELDS[name]
            yield name, at + found.start(), int.from_bytes(data[field : field + 4], "big")


def _longest_run(source: BinaryIO, at: int, count: int) -> int:
    source.seek(at)
    data = source.read(count * _RUN.itemsize)
    runs = np.frombuffer(data[: len(data) - len(data) % _RUN.itemsize], _RUN)
    return int(runs["samples"].max(initial=0))
