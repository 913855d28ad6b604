"""Opus there and back."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.codecs.opus import (
    FRAME_MS,
    FRAME_SAMPLES,
    MAX_PACKET_BYTES,
    MAX_PACKET_MS,
    PRE_SKIP,
    RATE,
    OpusDecoder,
    OpusEncoder,
    OpusError,
    installed,
    load,
    loaded,
)

PACKET_BYTES = 2 * FRAME_SAMPLES
SHIFT = 2
"""Samples by which the way down from 48 kHz moves the sound: 0.08 ms."""


def tone(samples: int, hertz: float = 440.0) -> bytes:
    at = np.arange(samples) / RATE
    return (8000 * np.sin(2 * np.pi * hertz * at)).astype("<i2").tobytes()


def speech_like(samples: int, seed: int = 1) -> bytes:
    """Return noise with the spectrum of speech, about, that swells five times a second."""
    noise = np.random.default_rng(seed).standard_normal(samples + 40)
    low = np.convolve(noise, np.hanning(41), "valid")[:samples]
    swell = np.abs(np.sin(np.pi * 2.5 * np.arange(samples) / RATE))
    said: NDArray[np.int16] = (9000 * swell * low / np.abs(low).max()).astype("<i2")
    return said.tobytes()


def floats(pcm: bytes) -> NDArray[np.float64]:
    return np.frombuffer(pcm, "<i2").astype(np.float64)


def encoded(pcm: bytes, bit_rate: int = 32_000) -> list[bytes]:
    encoder = OpusEncoder(bit_rate)
    return encoder.feed(pcm) + encoder.flush()


def decoded(packets: list[bytes]) -> bytes:
    decoder = OpusDecoder()
    return b"".join([*(decoder.feed(packet) for packet in packets), decoder.flush()])


@pytest.mark.parametrize(
    ("pcm", "likeness", "snr_db"),
    [(tone(48_000), 0.999, 25.0), (speech_like(48_000), 0.95, 10.0)],
    ids=["tone", "speech"],
)
def test_what_comes_back_is_what_went_in(pcm: bytes, likeness: float, snr_db: float) -> None:
    packets = encoded(pcm)
    heard = floats(decoded(packets))[SHIFT:]
    said = floats(pcm)[: len(heard)]
    # The codec needs a few packets to find its pitch.
    said, heard = said[4 * FRAME_SAMPLES :], heard[4 * FRAME_SAMPLES : len(said)]
    assert np.corrcoef(said, heard)[0, 1] > likeness
    assert 10 * np.log10((said**2).mean() / ((said - heard) ** 2).mean()) > snr_db
    bits_a_second = 8 * sum(map(len, packets)) / (len(packets) * FRAME_MS / 1000)
    assert bits_a_second < 45_000


@given(st.integers(0, 3000))
@example(0)
@example(FRAME_SAMPLES)
@example(FRAME_SAMPLES - PRE_SKIP)
@example(FRAME_SAMPLES - PRE_SKIP + 1)
@settings(max_examples=20)
def test_all_of_it_comes_back_and_less_than_a_packet_more(samples: int) -> None:
    heard = len(decoded(encoded(tone(samples)))) // 2
    assert samples <= heard < samples + FRAME_SAMPLES + 1


@given(st.lists(st.integers(0, 6000), max_size=8))
@settings(max_examples=20)
def test_splitting_the_input_anywhere_changes_nothing(cuts: list[int]) -> None:
    pcm = speech_like(3000)
    at = [0, *sorted(cuts), len(pcm)]
    encoder = OpusEncoder()
    split = [
        packet for start, end in pairwise(at) for packet in encoder.feed(pcm[start:end])
    ] + encoder.flush()
    assert split == encoded(pcm)


def test_a_stream_goes_on_after_a_flush() -> None:
    first, second = tone(1000), tone(2000, 880)
    encoder = OpusEncoder()
    packets = encoder.feed(first) + encoder.flush()
    assert encoder.flush() == [], "nothing is left"
    between = len(packets) * FRAME_SAMPLES
    packets += encoder.feed(second) + encoder.flush()
    heard = floats(decoded(packets))
    after = heard[between + 400 : between + 1600]
    loudest = np.abs(np.fft.rfft(after)).argmax() * RATE / len(after)
    assert loudest == pytest.approx(880, abs=25)


def test_a_packet_is_out_as_soon_as_it_is_full() -> None:
    encoder = OpusEncoder()
    assert encoder.feed(tone(FRAME_SAMPLES - 1)) == []
    assert len(encoder.feed(b"\0\0")) == 1
    assert len(encoder.feed(tone(3 * FRAME_SAMPLES))) == 3


def test_the_decoder_holds_back_little() -> None:
    decoder = OpusDecoder()
    packets = encoded(tone(RATE))
    got = 0
    for number, packet in enumerate(packets, 1):
        got += len(decoder.feed(packet)) // 2
        assert number * FRAME_SAMPLES - PRE_SKIP - got <= RATE * 5 // 1000
    assert len(decoder.flush()) // 2 <= RATE * 5 // 1000


@given(st.binary(max_size=400))
@example(b"")
@example(b"\0" * 400)
@example(b"\xff" * 400)
@settings(max_examples=300)
def test_any_bytes_are_decoded_or_refused_and_the_stream_goes_on(data: bytes) -> None:
    decoder = OpusDecoder()
    try:
        pcm = decoder.feed(data)
    except OpusError:
        pcm = b""
    assert len(pcm) % 2 == 0
    assert len(pcm) // 2 <= (MAX_PACKET_MS + 5) * RATE // 1000
    before = len(pcm) + len(decoder.flush())
    packets = encoded(tone(4 * FRAME_SAMPLES))
    after = b"".join([*(decoder.feed(packet) for packet in packets), decoder.flush()])
    assert before + len(after) >= len(tone(4 * FRAME_SAMPLES))


def test_what_is_no_packet_is_refused() -> None:
    for data in (b"", b"\x03", bytes(MAX_PACKET_BYTES + 1)):
        with pytest.raises(OpusError):
            OpusDecoder().feed(data)


@pytest.mark.parametrize("bit_rate", [0, 5_999, 128_001])
def test_a_bit_rate_out_of_range_is_refused(bit_rate: int) -> None:
    with pytest.raises(ValueError, match="from 6000 to 128000"):
        OpusEncoder(bit_rate)


def test_a_lower_rate_takes_fewer_bytes() -> None:
    pcm = speech_like(RATE)
    assert sum(map(len, encoded(pcm, 12_000))) < 0.6 * sum(map(len, encoded(pcm)))


def test_it_is_here() -> None:
    assert installed()
    load()
    assert loaded()


def test_without_the_library_it_says_so() -> None:
    script = """
import sys
sys.modules["av"] = None
from antiphon.codecs import opus
for make in (opus.OpusEncoder, opus.OpusDecoder, opus.load):
    try:
        make()
    except opus.OpusMissing as error:
        assert "PyAV" in str(error)
    else:
        raise SystemExit("made without a library")
assert not opus.loaded()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
