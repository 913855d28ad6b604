"""What kind of picture a file is and how large, told by its first bytes alone.

A few kilobytes may unfold into gigabytes of pixels, so the size is read here before any decoder
sees the file: PNG after W3C PNG 3 (IHDR), JPEG after ITU-T T.81 (SOF markers), WebP after its
container specification (RFC 9649).
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

Form: TypeAlias = Literal["png", "jpeg", "webp"]

MAX_SCANS = 100
"""Scans of a JPEG. A progressive one has about ten; each goes over all of the picture, and may
cost the file only a few bytes."""

_PNG = b"\x89PNG\r\n\x1a\n"
_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""Markers that begin a frame of a JPEG, and hold its size."""

_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a length."""

_SCAN = re.compile(rb"\xff\xda")


class Header(NamedTuple):
    """What the first bytes say."""

    form: Form
    width: int
    height: int


def picture_form(data: bytes) -> Form | None:
    """The kind of file that ``data`` begins as."""
    if data.startswith(_PNG):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return None


def read_header(data: bytes) -> Header | None:
    """Kind and size in pixels, as stored: orientation is not yet applied. ``None`` if the file
    is of none of these kinds, or its size can't be found."""
    form = picture_form(data)
    if form is None:
        return None
    size = {"png": _png_size, "jpeg": _jpeg_size, "webp": _webp_size}[form](data)
    if size is None or size[0] < 1 or size[1] < 1:
        return None
    return Header(form, *size)


def scan_count(data: bytes) -> int:
    """Scans of a JPEG, or a few more: pictures within its metadata are counted as well."""
    return sum(1 for _ in _SCAN.finditer(data))


def _png_size(data: bytes) -> tuple[int, int] | None:
    if data[12:16] != b"IHDR" or len(data) < 24:
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF or marker in _BARE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in _SIZES:
            found = data[at + 5 : at + 9]
            if len(found) < 4:
                return None
            return int.from_bytes(found[2:], "big"), int.from_bytes(found[:2], "big")
        if marker in (0xD9, 0xDA):
            return None
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    chunk, body = data[12:16], data[20:30]
    if len(body) < 10:
        return None
    if chunk == b"VP8X":
        return (
            1 + int.from_bytes(body[4:7], "little"),
            1 + int.from_bytes(body[7:10], "little"),
        )
    if chunk == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        wide, high = int.from_bytes(body[6:8], "little"), int.from_bytes(body[8:10], "little")
        return wide & 0x3FFF, high & 0x3FFF
    if chunk == b"VP8L" and body[0] == 0x2F:
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return None
