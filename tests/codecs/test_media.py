"""Files of many kinds read a piece at a time: right, within bounds, whatever they hold."""

from __future__ import annotations

import io
import resource
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.files import KINDS, LEVEL, SECONDS, Samples, file_of, made, tone

from antiphon.codecs.media import MAX_FAILURES, MAX_LISTED, RATE, MediaError, open_audio
from antiphon.codecs.wav import wav_header, write_wav


def pieces(data: bytes, rate: int = RATE, max_seconds: float = 60.0) -> list[bytes]:
    source = open_audio(io.BytesIO(data), rate=rate, max_seconds=max_seconds)
    got: list[bytes] = []
    while piece := source.read():
        got.append(piece)
    assert source.read() == b""
    source.close()
    return got


def heard(data: bytes, rate: int = RATE) -> Samples:
    return np.frombuffer(b"".join(pieces(data, rate)), "<i2") / 32768


def pitch(samples: Samples, rate: int = RATE) -> float:
    return (
        float(np.abs(np.fft.rfft(samples * np.hanning(len(samples)))).argmax())
        * rate
        / len(samples)
    )


def refused(data: bytes) -> str:
    with pytest.raises(MediaError) as caught:
        pieces(data)
    assert caught.value.message.endswith(".")
    return caught.value.code


@pytest.mark.parametrize("kind", KINDS)
def test_pitch_level_and_length_are_right(kind: str) -> None:
    samples = heard(file_of(kind))
    # Codecs may pad by a few frames of their own.
    assert SECONDS * RATE <= len(samples) <= SECONDS * RATE + 1500
    middle = samples[RATE // 2 : -RATE // 2]
    assert pitch(middle) == pytest.approx(440, abs=1.5)
    # LAME takes 5 % away when it writes.
    assert middle.std() == pytest.approx(LEVEL * (0.95 if kind == "mp3" else 1), rel=0.02)


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 96_000])
@pytest.mark.parametrize("wanted", [16_000, 24_000])
def test_any_rate_and_channels(channels: int, rate: int, wanted: int) -> None:
    samples = heard(file_of("wav", rate, channels), wanted)
    assert abs(len(samples) - SECONDS * wanted) <= 1
    middle = samples[wanted // 2 : -wanted // 2]
    assert pitch(middle, wanted) == pytest.approx(440, abs=1.5)
    assert middle.std() == pytest.approx(LEVEL, rel=0.01)


def test_channels_are_averaged() -> None:
    both = tone(16_000, 2)
    both[1] = 0
    assert heard(made("wav", "pcm_s16le", both, 16_000)).std() == pytest.approx(LEVEL / 2, rel=0.01)


def test_pcm_at_the_wanted_rate_is_given_as_it_is() -> None:
    pcm = np.random.default_rng(1).integers(-32768, 32767, 50_001).astype("<i2").tobytes()
    assert b"".join(pieces(write_wav(pcm, RATE))) == pcm


@pytest.mark.parametrize("container", ["mp4", "matroska", "mov"])
def test_the_sound_of_a_video_is_read(container: str) -> None:
    samples = heard(made(container, "aac", tone(48_000, 2), 48_000, video=True))
    assert pitch(samples[RATE // 2 : -RATE // 2]) == pytest.approx(440, abs=1.5)


def test_a_fragmented_video_is_read() -> None:
    options = {"movflags": "frag_keyframe+empty_moov"}
    samples = heard(made("mp4", "aac", tone(48_000, 2), 48_000, True, options))
    assert len(samples) >= SECONDS * RATE


@pytest.mark.parametrize("container", ["mp4", "matroska", "avi"])
def test_a_video_without_sound_has_no_audio(container: str) -> None:
    assert refused(made(container, "", np.empty((0, 0)), 48_000, video=True)) == "no_audio"


def zipped() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("speech.wav", write_wav(bytes(9998), RATE))
    return sink.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"Hello, this is a letter.\n" * 500,
        b'{"error": null}',
        zipped(),
        bytes(50_000),
        b"\x89PNG\r\n\x1a\n" + bytes(500),
        b"%PDF-1.7\n" + bytes(500),
        b"RIFF\xff\xff\xff\xffWAVE",
    ],
    ids=["empty", "byte", "text", "json", "zip", "zeros", "png", "pdf", "no-fmt"],
)
def test_what_is_no_audio_file(data: bytes) -> None:
    assert refused(data) == "not_audio"


def test_a_file_with_no_sound_in_it() -> None:
    assert refused(write_wav(b"", RATE)) == "no_audio"


@pytest.mark.parametrize(
    "listing",
    [
        b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n%s\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile %s\n",
        b'<?xml version="1.0"?><MPD><Period><BaseURL>%s</BaseURL></Period></MPD>',
        b"v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=audio 9 RTP/AVP 0\na=%s\n",
    ],
    ids=["hls", "concat", "dash", "sdp"],
)
def test_a_file_cannot_name_another(listing: bytes) -> None:
    assert refused(listing % __file__.encode()) == "not_audio"


def test_a_truncated_mp3_gives_what_is_there() -> None:
    data = file_of("mp3")
    assert len(heard(data[: len(data) // 2])) == pytest.approx(SECONDS * RATE / 2, rel=0.1)


def test_a_truncated_wav_gives_what_is_there() -> None:
    data = write_wav(bytes(2 * RATE), RATE)
    assert len(heard(data[: len(data) // 2])) == pytest.approx(RATE / 2, abs=30)


def test_a_wav_of_unknown_length_is_read_to_its_end() -> None:
    assert len(heard(wav_header(RATE, None) + bytes(2 * RATE))) == RATE


@pytest.mark.parametrize("kind", ["mp3", "ogg-opus", "flac", "aac", "webm"])
def test_garbage_in_the_middle_is_passed_over(kind: str) -> None:
    seconds = 20
    data = made(*KINDS[kind], tone(48_000, 1, seconds), 48_000)
    cut = len(data) // 2
    samples = heard(data[:cut] + np.random.default_rng(3).bytes(2000) + data[cut:])
    # A cluster of WebM is 5 s, and is lost as a whole; others lose less.
    assert len(samples) > (seconds - 6) * RATE
    for part in (samples[RATE : 2 * RATE], samples[-2 * RATE : -RATE]):
        assert pitch(part) == pytest.approx(440, abs=2)


def unreadable_aac(frames: int) -> bytes:
    """Frames of AAC that look whole, and hold a channel that the file doesn't have."""
    payload = b"\x60" + bytes(99)
    length = len(payload) + 7
    bits = 0xFFF1 << 40 | 1 << 38 | 3 << 34 | 2 << 30 | length << 13 | 0x7FF << 2
    return (bits.to_bytes(7, "big") + payload) * frames


def test_some_frames_that_cannot_be_read_are_passed_over() -> None:
    data = file_of("aac")
    got = heard(data + unreadable_aac(MAX_FAILURES) + data)
    assert len(got) > 1.9 * SECONDS * RATE


def test_too_many_are_broken_after_the_sound_that_there_was() -> None:
    data = file_of("aac")
    source = open_audio(io.BytesIO(data + unreadable_aac(MAX_FAILURES + 1) + data))
    got: list[int] = []
    with pytest.raises(MediaError, match="the rest can't be read") as caught:
        got.extend(map(len, iter(source.read, b"")))
    assert caught.value.code == "broken"
    assert sum(got) == pytest.approx(2 * SECONDS * RATE, abs=5000)
    with pytest.raises(MediaError):
        source.read()


def test_nothing_but_garbage_behind_a_header_is_broken() -> None:
    data = file_of("m4a")
    at = data.index(b"mdat") + 4
    end = data.index(b"moov") - 4
    spoilt = data[:at] + np.random.default_rng(1).bytes(end - at) + data[end:]
    assert refused(spoilt) == "broken"


def test_pieces_are_a_second_and_the_last_is_the_rest() -> None:
    sizes = [len(each) for each in pieces(file_of("flac"))]
    assert sizes == [2 * RATE] * SECONDS
    sizes = [len(each) for each in pieces(write_wav(bytes(2 * 100_001), 44_100))]
    assert sizes[:-1] == [2 * RATE] * 2
    assert 0 < sizes[-1] < 2 * RATE


def test_duration_is_what_the_file_says() -> None:
    for kind in ("mp3", "m4a", "ogg-opus", "wav", "webm"):
        source = open_audio(io.BytesIO(file_of(kind)))
        assert source.rate == RATE
        assert source.duration_s == pytest.approx(SECONDS, abs=0.1)
        source.close()


class Endless(io.RawIOBase):
    """A WAV file of silence with a position, never held in memory."""

    def __init__(self, seconds: int, rate: int = RATE) -> None:
        self._header = wav_header(rate, None)
        self._size = len(self._header) + seconds * rate * 2
        self._at = 0
        self.furthest = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        size = max(0, min(size, self._size - self._at))
        data = (self._header[self._at : self._at + size]).ljust(size, b"\0")
        self._at += size
        self.furthest = max(self.furthest, self._at)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + {0: 0, 1: self._at, 2: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at


def test_an_hour_is_read_as_it_is_asked_for() -> None:
    file = Endless(3600)
    source = open_audio(cast(BinaryIO, file))
    assert file.furthest < 6_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = 0
    while piece := source.read():
        assert len(piece) <= 2 * RATE
        total += len(piece)
        assert file.furthest < max(6_000_000, total + 200_000)
    assert total == 2 * 3600 * RATE
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 32_000
    source.close()


def test_no_more_is_given_than_allowed() -> None:
    source = open_audio(cast(BinaryIO, Endless(3600)), max_seconds=2.5)
    assert [len(source.read()) for _ in range(3)] == [2 * RATE, 2 * RATE, RATE]
    for _ in range(2):
        with pytest.raises(MediaError) as caught:
            source.read()
        assert caught.value.code == "too_long"
    assert len(pieces(file_of("wav"), max_seconds=SECONDS)) == SECONDS


def test_a_rate_nobody_records_at_is_not_believed() -> None:
    data = bytearray(write_wav(bytes(20_000), RATE))
    data[24:28] = struct.pack("<I", 1)
    assert refused(bytes(data)) in ("broken", "not_audio")


def listed(count: int, spelled: Callable[[bytearray, int], None]) -> bytes:
    data = bytearray(file_of("m4a"))
    spelled(data, count)
    return bytes(data)


def many_samples(data: bytearray, count: int) -> None:
    at = data.index(b"stsz") + 4
    data[at : at + 12] = struct.pack(">III", 0, 1, count)
    at = data.index(b"stsc") + 4
    data[at + 8 : at + 16] = struct.pack(">II", 1, count)
    at = data.index(b"stts") + 4
    data[at + 8 : at + 12] = struct.pack(">I", count)


def long_chunks(data: bytearray, count: int) -> None:
    """The other way that FFmpeg lists samples: as PCM, one of the index for 1024."""
    at = data.index(b"stts") + 4
    data[at + 4 : at + 16] = struct.pack(">III", 1, 1, 1)
    at = data.index(b"stsc") + 4
    data[at + 8 : at + 16] = struct.pack(">II", 1, min(count * 1024, 0xFFFFFFFF))


@pytest.mark.parametrize("spelled", [many_samples, long_chunks])
def test_an_index_of_billions_is_refused_unread(
    spelled: Callable[[bytearray, int], None],
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for count in (MAX_LISTED + 1, 0xFFFFFFFF):
        assert refused(listed(count, spelled)) == "too_long"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16_000


def test_memory_that_a_file_asks_for_is_refused() -> None:
    """A list of 2 GB in a file of 64 kB, which would be allocated and cleared."""
    data = file_of("wav", RATE, 1)
    at = data.index(b"LIST") + 4
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size, text = struct.pack("<I", 0x70000000), struct.pack("<I", 0x6FFFFF00)
    refused(data[:at] + size + b"INFOISFT" + text + data[at + 16 :])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32_000


def test_the_file_stays_open_and_close_is_idempotent() -> None:
    with SpooledTemporaryFile(max_size=1000) as file:
        file.write(file_of("mp3"))
        source = open_audio(cast(BinaryIO, file))
        assert source.read()
        source.close()
        source.close()
        assert source.read() == b""
        assert not file.closed


class Unreadable(io.BytesIO):
    """A file that fails from some position on."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() >= 300_000:
            raise OSError("the disk is gone")
        return super().read(size)


def test_a_file_object_that_fails_is_no_matter_of_the_media() -> None:
    source = open_audio(Unreadable(write_wav(bytes(600_000), RATE)))
    with pytest.raises(OSError, match="the disk is gone"):
        list(iter(source.read, b""))
    # What was read before is still given.
    assert len(list(iter(source.read, b""))) <= 1


def test_rates_and_bounds_are_positive() -> None:
    for rate, bound in ((0, 1.0), (-1, 1.0), (16_000, 0.0), (16_000, float("nan"))):
        with pytest.raises(ValueError, match="positive"):
            open_audio(io.BytesIO(b"x"), rate=rate, max_seconds=bound)


def read_or_refused(data: bytes) -> None:
    try:
        got = pieces(data)
    except MediaError:
        return
    assert all(0 < len(each) <= 2 * RATE for each in got)


MAGIC = (
    b"",
    b"RIFF\0\0\0\0WAVEfmt ",
    b"OggS\0\2",
    b"fLaC",
    b"ID3\4\0\0",
    b"\xff\xfb\x90\xc4",
    b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom",
    b"\x1aE\xdf\xa3",
    b"\xff\xf1\x50\x80",
    b"FORM",
)


@given(st.sampled_from(MAGIC), st.binary(max_size=2000))
@example(b"", b"")
@settings(max_examples=200)
def test_any_bytes_are_read_or_refused(magic: bytes, data: bytes) -> None:
    read_or_refused(magic + data)


@given(st.sampled_from([*KINDS]), st.data())
@settings(max_examples=120)
def test_a_damaged_file_is_read_or_refused(kind: str, data: st.DataObject) -> None:
    file = bytearray(file_of(kind, 16_000, 1))
    for _ in range(data.draw(st.integers(1, 6))):
        # Headers are at both ends.
        at = data.draw(st.integers(-300, 600)) if data.draw(st.booleans()) else 0
        at = at % len(file) if at else data.draw(st.integers(0, len(file) - 1))
        new = data.draw(st.binary(max_size=8))
        file[at : at + data.draw(st.integers(0, 8))] = new
    read_or_refused(bytes(file[: data.draw(st.integers(1, len(file)))]))


def test_without_the_library_it_says_so() -> None:
    script = """
import io, sys
sys.modules["av"] = None
from antiphon.codecs import media
try:
    media.open_audio(io.BytesIO(b"RIFF"))
except media.MediaMissing as error:
    assert "PyAV" in str(error)
else:
    raise SystemExit("opened without a library")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
