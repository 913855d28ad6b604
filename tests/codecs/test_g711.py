"""G.711 against the Recommendation's values and an independent implementation."""

from __future__ import annotations

import hashlib
import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.codecs import g711
from antiphon.codecs.pcm import PcmError

Convert = Callable[[bytes], bytes]

ALL_CODES = bytes(range(256))
ALL_SAMPLES = np.arange(65536, dtype="<u2").tobytes()

LAWS = [
    pytest.param(g711.ulaw_encode, g711.ulaw_decode, id="ulaw"),
    pytest.param(g711.alaw_encode, g711.alaw_decode, id="alaw"),
]


def s16(*samples: int) -> bytes:
    return np.array(samples, "<i2").tobytes()


# G.711 tables 1 and 2: the decoder outputs at the ends of some segments, scaled to 16 bits.
@pytest.mark.parametrize(
    ("decode", "code", "sample"),
    [
        (g711.ulaw_decode, 0xFF, 0),
        (g711.ulaw_decode, 0x7F, 0),
        (g711.ulaw_decode, 0xFE, 2 * 4),
        (g711.ulaw_decode, 0xEF, 33 * 4),
        (g711.ulaw_decode, 0x80, 8031 * 4),
        (g711.ulaw_decode, 0x00, -8031 * 4),
        (g711.ulaw_decode, 0x8F, 4191 * 4),
        (g711.alaw_decode, 0xD5, 1 * 8),
        (g711.alaw_decode, 0x55, -1 * 8),
        (g711.alaw_decode, 0xC5, 33 * 8),
        (g711.alaw_decode, 0xAA, 4032 * 8),
        (g711.alaw_decode, 0x2A, -4032 * 8),
        (g711.alaw_decode, 0xA5, 2112 * 8),
    ],
)
def test_decoder_output_values(decode: Convert, code: int, sample: int) -> None:
    assert decode(bytes([code])) == s16(sample)


@pytest.mark.parametrize(
    ("convert", "data", "digest"),
    [
        (g711.ulaw_decode, ALL_CODES, "3dab54339e520bb2"),
        (g711.ulaw_encode, ALL_SAMPLES, "617fa4850d68d390"),
        (g711.alaw_decode, ALL_CODES, "e04788d110e58ff8"),
        (g711.alaw_encode, ALL_SAMPLES, "f77c76aa923ee256"),
    ],
)
def test_whole_tables_are_those_of_audioop(convert: Convert, data: bytes, digest: str) -> None:
    """The digests were taken of what CPython 3.11's ``audioop`` gives."""
    assert hashlib.sha256(convert(data)).hexdigest()[:16] == digest


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="audioop left Python in 3.13")
def test_whole_tables_against_audioop_itself() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        audioop: Any = importlib.import_module("audioop")
    assert g711.ulaw_decode(ALL_CODES) == audioop.ulaw2lin(ALL_CODES, 2)
    assert g711.alaw_decode(ALL_CODES) == audioop.alaw2lin(ALL_CODES, 2)
    assert g711.ulaw_encode(ALL_SAMPLES) == audioop.lin2ulaw(ALL_SAMPLES, 2)
    assert g711.alaw_encode(ALL_SAMPLES) == audioop.lin2alaw(ALL_SAMPLES, 2)


@pytest.mark.parametrize(("encode", "decode"), LAWS)
def test_every_code_keeps_its_value(encode: Convert, decode: Convert) -> None:
    assert decode(encode(decode(ALL_CODES))) == decode(ALL_CODES)


@pytest.mark.parametrize(("encode", "decode"), LAWS)
def test_encoding_is_monotonic_and_close(encode: Convert, decode: Convert) -> None:
    samples = np.arange(-32768, 32768, dtype="<i2")
    decoded = np.frombuffer(decode(encode(samples.tobytes())), "<i2").astype(np.int64)
    assert np.all(np.diff(decoded) >= 0)
    wanted = np.clip(samples.astype(np.int64), decoded[0], decoded[-1])
    # A step is a sixteenth of where its segment begins: at most half of it is lost.
    assert np.all(np.abs(decoded - wanted) <= np.abs(wanted) / 32 + 8)


@pytest.mark.parametrize(("encode", "decode"), LAWS)
@given(data=st.binary(max_size=300), at=st.integers(0, 300))
def test_chunks_convert_like_the_whole(
    encode: Convert, decode: Convert, data: bytes, at: int
) -> None:
    pcm = decode(data)
    assert len(pcm) == 2 * len(data)
    assert decode(data[:at]) + decode(data[at:]) == pcm
    assert encode(pcm[: 2 * at]) + encode(pcm[2 * at :]) == encode(pcm)


@pytest.mark.parametrize("encode", [g711.ulaw_encode, g711.alaw_encode])
def test_half_a_sample_is_refused(encode: Convert) -> None:
    with pytest.raises(PcmError, match="got 5"):
        encode(bytes(5))
