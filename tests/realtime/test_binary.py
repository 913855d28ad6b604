"""Headers of binary frames."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.realtime.binary import HEADER_BYTES, BinaryError, BinaryFrame, Kind, unpack

U32 = st.integers(0, 2**32 - 1)


def test_a_frame_is_laid_out_as_documented() -> None:
    frame = BinaryFrame(Kind.OPUS, b"abc", epoch=3, number=7, position_ms=260, last=True)
    assert frame.pack() == struct.pack("<BBHIII", 1, 2, 1, 3, 7, 260) + b"abc"
    assert HEADER_BYTES == 16


@given(
    st.builds(
        BinaryFrame, st.sampled_from(Kind), st.binary(max_size=9), U32, U32, U32, st.booleans()
    )
)
def test_what_was_packed_is_read(frame: BinaryFrame) -> None:
    assert unpack(frame.pack()) == frame


def test_flags_of_later_versions_are_ignored() -> None:
    assert unpack(struct.pack("<BBHIII", 1, 1, 0xFFFE, 0, 0, 0)) == BinaryFrame(Kind.PCM16, b"")


@pytest.mark.parametrize(
    ("data", "param", "words"),
    [
        (b"", "binary.header", "must have 16 bytes; the frame has 0"),
        (b"\1" * 15, "binary.header", "must have 16 bytes; the frame has 15"),
        (b"\0\1" + bytes(14), "binary.version", "must be 1, not 0"),
        (b"\2\1" + bytes(14), "binary.version", "must be 1, not 2"),
        (b"\1\0" + bytes(14), "binary.kind", "1 (pcm16), 2 (opus); not 0"),
        (b"\1\3" + bytes(14), "binary.kind", "1 (pcm16), 2 (opus); not 3"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, param: str, words: str) -> None:
    with pytest.raises(BinaryError) as caught:
        unpack(data)
    assert caught.value.param == param
    assert words in str(caught.value)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        frame = unpack(data)
    except BinaryError:
        return
    assert frame.payload == data[HEADER_BYTES:]
