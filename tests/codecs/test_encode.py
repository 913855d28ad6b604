"""Files written as the sound is made: whole, at once, and as players read them."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import av
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.codecs.encode import BIT_RATE, FORMATS, RATE, Encoder, new_encoder
from antiphon.codecs.wav import read_wav

Samples = NDArray[np.float64]

FRAME = {"mp3": 576, "aac": 1024, "opus": 0, "flac": 0, "wav": 0, "pcm": 0}
"""Samples up to which silence may follow the sound."""

FIRST = {"mp3": 1152, "aac": 2048, "opus": 480, "flac": 480, "wav": 1, "pcm": 1}
"""Samples after which the first bytes of sound leave."""

COMPRESSED = ["mp3", "opus", "aac", "flac"]
LOSSLESS = ["flac", "wav", "pcm"]


def speech_like(samples: int, seed: int = 1) -> bytes:
    """Return noise with the spectrum of speech, about, loud from the first sample to the last."""
    noise = np.random.default_rng(seed).standard_normal(samples + 40)
    low = np.convolve(noise, np.hanning(41), "valid")[:samples]
    said: NDArray[np.int16] = (9000 * low / max(np.abs(low).max(initial=0), 1)).astype("<i2")
    return said.tobytes()


def floats(pcm: bytes) -> Samples:
    return np.frombuffer(pcm, "<i2").astype(np.float64)


def written(form: str, pcm: bytes, piece: int = 4800) -> bytes:
    encoder = new_encoder(form)
    pieces = [encoder.feed(pcm[at : at + piece]) for at in range(0, len(pcm), piece)]
    return b"".join([*pieces, encoder.finish()])


def frames(data: bytes, name: str | None = None) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Rate and samples of each frame that PyAV's decoder gives back."""
    with av.open(io.BytesIO(data), "r", format=name) as container:
        for frame in container.decode(audio=0):
            values = frame.to_ndarray().reshape(-1)
            scale = 1.0 if values.dtype.kind == "i" else 32768.0
            if values.dtype == np.int32:
                scale = 1 / 65536
            yield frame.sample_rate, values.astype(np.float64) * scale


def heard(form: str, data: bytes) -> Samples:
    """What a decoder gives back, at 24 kHz."""
    if form == "pcm":
        return floats(data)
    got = list(frames(data, form if form in ("mp3", "aac") else None))
    if not got:
        return np.empty(0)
    samples = np.concatenate([each for _, each in got])
    # Opus is decoded at 48 kHz; every other sample shows it well enough here.
    return samples[::2] if got[0][0] == 2 * RATE else samples


@pytest.mark.parametrize("form", FORMATS)
def test_what_comes_back_is_the_whole_sound(form: str) -> None:
    said = floats(speech_like(2 * RATE + 77))
    got = heard(form, written(form, said.astype("<i2").tobytes()))
    lead = new_encoder(form).lead_samples
    assert 0 <= len(got) - lead - len(said) <= FRAME[form]
    got = got[lead : lead + len(said)]
    likeness = {"opus": 0.93, "mp3": 0.97, "aac": 0.95}.get(form, 1.0)
    for part in (slice(None), slice(0, 2400), slice(-2400, None)):
        assert np.corrcoef(said[part], got[part])[0, 1] > likeness - 1e-9
    # At first AAC has few bits, and none to spare for the highest tones.
    assert got[4800:].std() == pytest.approx(said[4800:].std(), rel=0.01)


@given(st.integers(0, 5000))
@example(0)
@example(1)
@example(480)
@example(576)
@example(1024)
@example(2048)
@settings(max_examples=25)
@pytest.mark.parametrize("form", FORMATS)
def test_any_length_comes_back(form: str, samples: int) -> None:
    data = written(form, speech_like(samples))
    if not samples:
        assert len(data) < 200
        return
    got = len(heard(form, data)) - new_encoder(form).lead_samples
    assert samples <= got <= samples + FRAME[form]


@pytest.mark.parametrize("form", LOSSLESS)
def test_lossless_forms_give_back_every_sample(form: str) -> None:
    said = floats(speech_like(3333))
    assert np.array_equal(heard(form, written(form, said.astype("<i2").tobytes())), said)


@pytest.mark.parametrize("form", FORMATS)
def test_sound_leaves_as_soon_as_a_frame_is_full(form: str) -> None:
    encoder = new_encoder(form)
    header = encoder.feed(b"")
    assert bool(header) == (form in ("opus", "flac", "wav"))
    pcm = speech_like(FIRST[form])
    assert not encoder.feed(pcm[:-2])
    assert encoder.feed(pcm[-2:])
    # From then on it keeps up: every tenth of a second gives a tenth of the bytes, about.
    pieces = [encoder.feed(speech_like(RATE // 10, seed)) for seed in range(20)]
    assert all(pieces)
    assert max(map(len, pieces)) < 3 * min(map(len, pieces))
    encoder.close()


@pytest.mark.parametrize("form", FORMATS)
@given(cuts=st.lists(st.integers(0, 9000), max_size=8))
@settings(max_examples=15)
def test_splitting_the_input_anywhere_changes_nothing(form: str, cuts: list[int]) -> None:
    pcm = speech_like(4500)
    at = [0, *sorted(cuts), len(pcm)]
    encoder = new_encoder(form)
    split = b"".join([*(encoder.feed(pcm[a:b]) for a, b in pairwise(at)), encoder.finish()])
    whole = written(form, pcm, len(pcm))
    if form == "opus":
        # Its pages are cut as the packets come.
        assert np.array_equal(heard(form, split), heard(form, whole))
    else:
        assert split == whole


@pytest.mark.parametrize("form", COMPRESSED)
def test_a_long_piece_is_the_same_as_many(form: str) -> None:
    pcm = speech_like(5 * RATE)
    assert np.array_equal(
        heard(form, written(form, pcm, len(pcm))), heard(form, written(form, pcm))
    )


@pytest.mark.parametrize("form", FORMATS)
def test_it_finishes_once_and_closes(form: str) -> None:
    encoder = new_encoder(form)
    encoder.feed(speech_like(3000))
    encoder.finish()
    assert encoder.finish() == b""
    encoder.close()
    with pytest.raises(ValueError, match="finished"):
        encoder.feed(b"")
    left = new_encoder(form)
    left.feed(speech_like(3001) + b"\1")
    left.close()
    left.close()
    assert left.finish() == b""
    with pytest.raises(ValueError, match="finished"):
        left.feed(b"")


@pytest.mark.parametrize("form", FORMATS)
def test_half_a_sample_at_the_end_is_dropped(form: str) -> None:
    pcm = speech_like(3000)
    assert written(form, pcm + b"\1", len(pcm) + 1) == written(form, pcm, len(pcm))


def test_content_types() -> None:
    types = {form: new_encoder(form).content_type for form in FORMATS}
    assert types == {
        "mp3": "audio/mpeg",
        "opus": "audio/opus",
        "aac": "audio/aac",
        "flac": "audio/flac",
        "wav": "audio/wav",
        "pcm": "audio/pcm",
    }


def test_another_format_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"mp3, opus, aac, flac, wav, pcm, got 'wma'"):
        new_encoder("wma")


def test_wav_says_that_its_length_is_unknown_and_is_read() -> None:
    pcm = speech_like(1000)
    data = written("wav", pcm)
    assert data[4:8] == data[40:44] == b"\xff" * 4
    assert read_wav(data).pcm == pcm


def test_flac_says_that_its_length_is_unknown() -> None:
    data = written("flac", speech_like(1000))
    assert data[:8] == b"fLaC\x80\0\0\x22"
    streaminfo = data[8:42]
    # The 36 bits of the length and the 128 of the checksum.
    assert int.from_bytes(streaminfo[10:18], "big") & (1 << 36) - 1 == 0
    assert streaminfo[18:] == bytes(16)


def test_mp3_has_only_frames_of_sound() -> None:
    data = written("mp3", speech_like(RATE))
    frame = BIT_RATE // 8 * 576 // RATE
    assert len(data) % frame == 0
    # MPEG-2 Layer III without CRC, 64 kbit/s, 24 kHz, no padding; one channel.
    starts = {data[at : at + 3] for at in range(0, len(data), frame)}
    assert starts == {b"\xff\xf3\x84"}
    assert not any(tag in data for tag in (b"Xing", b"Info", b"ID3", b"TAG"))


def test_aac_frames_say_their_length() -> None:
    data = written("aac", speech_like(RATE))
    at = 0
    while at < len(data):
        bits = int.from_bytes(data[at : at + 7], "big")
        assert bits >> 40 == 0xFFF1
        at += bits >> 13 & 0x1FFF
    assert at == len(data)


def test_ogg_pages_are_whole_and_in_order() -> None:
    data = written("opus", speech_like(3 * RATE), 2 * 3 * RATE)
    number, at = 0, 0
    kinds: list[int] = []
    positions: list[int] = []
    while at < len(data):
        assert data[at : at + 5] == b"OggS\0"
        kinds.append(data[at + 5])
        positions.append(int.from_bytes(data[at + 6 : at + 14], "little"))
        assert int.from_bytes(data[at + 18 : at + 22], "little") == number
        segments = data[at + 26]
        body = sum(data[at + 27 : at + 27 + segments])
        end = at + 27 + segments + body
        page = data[at : at + 22] + bytes(4) + data[at + 26 : end]
        assert int.from_bytes(data[at + 22 : at + 26], "little") == slow_crc(page)
        number, at = number + 1, end
    assert kinds == [2, *[0] * (number - 2), 4]
    assert positions == sorted(positions)
    assert positions[-1] == 2 * 3 * RATE + 312


def slow_crc(data: bytes) -> int:
    """Ogg's checksum as its specification writes it."""
    crc = 0
    for value in data:
        crc ^= value << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc & 1 << 31 else 0)) & 0xFFFFFFFF
    return crc


class Late:
    """Holds the last 1001 bytes back."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, pcm: bytes) -> bytes:
        self._held += pcm
        ready, self._held = self._held[:-1001], self._held[-1001:]
        return ready

    def flush(self) -> bytes:
        return self._held


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "opus"])
def test_what_a_shaper_holds_back_is_in_the_file(form: str) -> None:
    pcm = speech_like(RATE)
    encoder = new_encoder(form)
    encoder.shaper = Late()
    # Pages of Ogg are cut where pieces are; the others don't tell how they were fed.
    out = encoder.feed(b"") + encoder.feed(pcm[:501]) + encoder.feed(pcm[501:]) + encoder.finish()
    assert out == written(form, pcm, 10_000)


def test_an_hour_is_written_as_it_comes() -> None:
    """What is held back does not grow."""
    encoder: Encoder = new_encoder("flac")
    second = speech_like(RATE)
    sizes = [len(encoder.feed(second)) for _ in range(60)]
    assert max(sizes[1:]) - min(sizes[1:]) < 2000
    assert len(encoder.finish()) < 2000


def test_without_the_library_it_says_so() -> None:
    script = """
import sys
sys.modules["av"] = None
from antiphon.codecs import encode
for form in encode.FORMATS:
    try:
        encode.new_encoder(form)
    except encode.EncoderMissing as error:
        assert "PyAV" in str(error)
        assert form not in ("wav", "pcm")
    else:
        assert form in ("wav", "pcm")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
