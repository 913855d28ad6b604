"""The index of an MP4 is added up before anything reads it."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.files import file_of, made, tone

from antiphon.codecs.boxes import UNCOUNTED, sample_count


def box(name: bytes, *fields: int, inside: bytes = b"") -> bytes:
    body = struct.pack(f">{len(fields)}I", *fields) + inside
    return struct.pack(">I", 8 + len(body)) + name + body


def listed(data: bytes) -> int:
    return sample_count(io.BytesIO(data))


@pytest.mark.parametrize("options", [{}, {"movflags": "frag_keyframe+empty_moov"}])
def test_a_plain_file_lists_its_frames(options: dict[str, str]) -> None:
    data = made("mp4", "aac", tone(48_000, 1), 48_000, options=options)
    assert listed(data) == pytest.approx(2 * 48_000 / 1024, abs=3)


@pytest.mark.parametrize(
    "table",
    [
        box(b"stsz", 0, 1, 5_000_000),
        box(b"stz2", 0, 8, 5_000_000),
        box(b"trun", 0, 5_000_000),
        box(b"stsc", 0, 1, 1, 0xFFFFFFFF, 1) + box(b"stco", 0, 2, 0, 0),
        box(b"stsc", 0, 1, 1, 0xFFFFFFFF, 1) + box(b"co64", 0, 2, 0, 0, 0, 0),
    ],
    ids=["stsz", "stz2", "trun", "stco", "co64"],
)
@pytest.mark.parametrize("before", [0, (1 << 20) - 20, (1 << 20) - 10, (1 << 20) + 5])
def test_tables_are_found_wherever_they_stand(table: bytes, before: int) -> None:
    nested = box(b"moov", inside=box(b"free", inside=bytes(before) + table))
    for file in (nested, box(b"ftyp", 1, 2) + box(b"mdat", inside=b"abc") + nested):
        assert listed(file) >= 5_000_000


def test_several_are_added_up() -> None:
    assert listed(box(b"moov", inside=box(b"stsz", 0, 1, 70) + box(b"trun", 0, 30))) == 100


def test_the_samples_themselves_are_not_looked_at() -> None:
    table = box(b"stsz", 0, 1, 5_000_000)
    assert listed(box(b"ftyp") + box(b"mdat", inside=table)) == 0
    large = struct.pack(">I4sQ", 1, b"mdat", 16 + len(table)) + table
    assert listed(large + box(b"moov", inside=box(b"stsz", 0, 1, 7))) == 7
    assert listed(struct.pack(">I4s", 0, b"mdat") + table) == 0


def test_what_cannot_be_counted() -> None:
    assert listed(box(b"moov", inside=box(b"cmov", 1))) == UNCOUNTED
    assert listed(box(b"moov", inside=box(b"stsc", 0, 1 << 21))) == UNCOUNTED


@given(st.binary(max_size=300))
@example(b"\0\0\0\1free\xff\xff\xff\xff\xff\xff\xff\xff")
@example(b"\0\0\0\1free\0\0\0\0\0\0\0\0")
@example(b"\0\0\0\x08free" * 70_000)
def test_any_bytes_are_counted(data: bytes) -> None:
    assert listed(data) >= 0


def test_other_files_list_nothing() -> None:
    assert [listed(file_of(kind)) for kind in ("mp3", "wav", "ogg-opus", "flac")] == [0] * 4
