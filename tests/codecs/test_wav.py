"""WAV: what is written can be read, and nothing else gets through."""

from __future__ import annotations

import io
import struct
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.codecs.pcm import PcmError
from antiphon.codecs.wav import Wav, WavError, read_wav, wav_header, write_wav


def s16(*samples: int) -> bytes:
    return np.array(samples, "<i2").tobytes()


def file_of(frames: bytes, *, channels: int = 1, width: int = 2, rate: int = 8000) -> bytes:
    """What the standard library writes."""
    out = io.BytesIO()
    with wave.open(out, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(width)
        writer.setframerate(rate)
        writer.writeframes(frames)
    return out.getvalue()


even_bytes = st.binary(max_size=400).map(lambda data: data[: len(data) & ~1])
rates = st.integers(1000, 384000)


@given(even_bytes, rates)
def test_write_gives_the_bytes_of_the_standard_library(pcm: bytes, rate: int) -> None:
    assert write_wav(pcm, rate) == file_of(pcm, rate=rate)


@given(even_bytes, rates)
def test_read_gives_back_what_was_written(pcm: bytes, rate: int) -> None:
    assert read_wav(write_wav(pcm, rate)) == Wav(pcm, rate)


@given(even_bytes)
def test_a_stream_reads_to_where_it_stops(pcm: bytes) -> None:
    assert read_wav(wav_header(24000, None) + pcm) == Wav(pcm, 24000)
    assert read_wav(wav_header(24000, None) + pcm + b"\x7f") == Wav(pcm, 24000)


def test_a_stream_says_that_its_length_is_unknown() -> None:
    header = wav_header(24000, None)
    assert len(header) == 44
    assert struct.unpack_from("<I", header, 4) == struct.unpack_from("<I", header, 40)
    assert header[40:] == b"\xff\xff\xff\xff"


def test_a_truncated_file_gives_its_whole_frames() -> None:
    stereo = file_of(s16(10, 20, 30, 40), channels=2)
    assert read_wav(stereo[:-1]).pcm == s16(15)


@pytest.mark.parametrize(
    ("width", "frames", "expected"),
    [
        (1, b"\x80\x00\xff\x81", (0, -32768, 32512, 256)),
        (2, s16(0, -32768, 32767), (0, -32768, 32767)),
        (3, b"\x00\x00\x80\xff\xff\x7f\x00\x01\x00\x00\xff\xff", (-32768, 32767, 1, -1)),
        (4, struct.pack("<4i", -(2**31), 2**31 - 1, 1 << 16, -1 << 16), (-32768, 32767, 1, -1)),
    ],
)
def test_widths(width: int, frames: bytes, expected: tuple[int, ...]) -> None:
    assert read_wav(file_of(frames, width=width)).pcm == s16(*expected)


def test_channels_are_averaged() -> None:
    left_right = s16(100, 300, -100, 100, 32767, 32767)
    assert read_wav(file_of(left_right, channels=2)) == Wav(s16(200, 0, 32767), 8000)
    assert read_wav(file_of(s16(3, 6, 9, 12), channels=4)).pcm == s16(8)


def test_other_chunks_are_passed_over() -> None:
    plain = write_wav(s16(1, 2), 8000)
    tagged = plain[:12] + b"LIST\x03\x00\x00\x00abc\x00" + plain[12:]
    tagged = tagged[:4] + struct.pack("<I", len(tagged) - 8) + tagged[8:]
    assert read_wav(tagged) == Wav(s16(1, 2), 8000)


def patched(offset: int, layout: str, value: int) -> bytes:
    data = bytearray(write_wav(s16(1, 2, 3, 4), 8000))
    struct.pack_into(layout, data, offset, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "damaged"),
        (b"OggS" + bytes(60), "RIFF"),
        (write_wav(b"", 8000)[:30], "damaged"),
        (write_wav(b"", 8000)[:36], "missing"),
        (patched(20, "<H", 3), "unknown format: 3"),
        (patched(20, "<H", 7), "unknown format: 7"),
        (patched(22, "<H", 0), "channels"),
        (patched(24, "<I", 0), "samples a second, got 0"),
        (patched(24, "<I", 1), "samples a second, got 1"),
        (patched(24, "<I", 2**32 - 1), "samples a second"),
        (patched(34, "<H", 0), "sample width"),
        (patched(34, "<H", 64), "got 64"),
        (patched(16, "<I", 2**32 - 1), "damaged"),
    ],
)
def test_anything_else_is_named(data: bytes, message: str) -> None:
    with pytest.raises(WavError, match=message):
        read_wav(data)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_wav_error(data: bytes) -> None:
    with pytest.raises(WavError):
        read_wav(data)


@given(st.data())
def test_damaged_files_give_audio_or_a_wav_error(data: st.DataObject) -> None:
    channels, width = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    frames = data.draw(st.binary(max_size=8)) * channels * width
    damaged = bytearray(file_of(frames, channels=channels, width=width))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(damaged) - 1, 60)))
        damaged[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        damaged += b"\x00" * (60 - len(damaged))
    try:
        wav = read_wav(bytes(damaged))
    except WavError:
        return
    assert len(wav.pcm) % 2 == 0
    assert 1000 <= wav.rate <= 384000


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(PcmError, match="got 3"):
        write_wav(bytes(3), 8000)
    for rate, size in ((0, 0), (2**32, 0), (8000, -2), (8000, 2**32)):
        with pytest.raises(WavError):
            wav_header(rate, size)
