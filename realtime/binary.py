"""Audio as binary frames: a header of 16 bytes, then samples or one Opus packet.

The header, little-endian:

====== ======== ==========================================================================
offset type     what
====== ======== ==========================================================================
0      u8       version: 1
1      u8       kind of the payload: 1 is s16le mono at 24 kHz, 2 is one Opus packet
2      u16      flags; bit 0: nothing more comes of this part. Others are 0, and ignored
4      u32      epoch of the session
8      u32      number of the response among those of the session, from 1
12     u32      where the first sample of the payload lies in the response, ms
====== ======== ==========================================================================

From a client, epoch and number are 0, and the position is ignored.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1

HEADER = struct.Struct("<BBHIII")
HEADER_BYTES = HEADER.size

LAST = 1
"""Flag of the last frame of a part; its payload may be empty."""


class Kind(IntEnum):
    """What a payload is."""

    PCM16 = 1
    """s16le, 24 kHz, mono."""

    OPUS = 2
    """One packet."""


class BinaryError(ValueError):
    """No frame that is understood; ``param`` names what is wrong."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True)
class BinaryFrame:
    """One frame."""

    kind: Kind
    payload: bytes
    epoch: int = 0
    number: int = 0
    position_ms: int = 0
    last: bool = False

    def pack(self) -> bytes:
        """Return it as it is sent."""
        flags = LAST if self.last else 0
        head = HEADER.pack(VERSION, self.kind, flags, self.epoch, self.number, self.position_ms)
        return head + self.payload


def unpack(data: bytes) -> BinaryFrame:
    """Read a frame.

    Raises:
        BinaryError: it is too short for a header, or of a version or kind that is not known.
    """
    if len(data) < HEADER_BYTES:
        raise BinaryError(
            "binary.header",
            f"binary.header must have {HEADER_BYTES} bytes; the frame has {len(data)}.",
        )
    version, kind, flags, epoch, number, position_ms = HEADER.unpack_from(data)
    if version != VERSION:
        raise BinaryError("binary.version", f"binary.version must be {VERSION}, not {version}.")
    try:
        known = Kind(kind)
    except ValueError:
        allowed = ", ".join(f"{each.value} ({each.name.lower()})" for each in Kind)
        raise BinaryError(
            "binary.kind", f"binary.kind must be one of: {allowed}; not {kind}."
        ) from None
    payload = data[HEADER_BYTES:]
    return BinaryFrame(known, payload, epoch, number, position_ms, bool(flags & LAST))
