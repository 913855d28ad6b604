"""Video files that come from outside: right, within bounds, whatever they hold."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import io
import re
import struct
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.files import file_of

from antiphon.codecs.clips import ClipError, measure_clip, read_clip, read_first_frame

COUNT, WIDTH, HEIGHT, FPS = 9, 64, 48, 8
MANY = 1 << 20


def pictures() -> NDArray[np.uint8]:
    """Green that becomes brighter, with a red quarter left above."""
    frames = np.zeros((COUNT, HEIGHT, WIDTH, 3), np.uint8)
    frames[:, :, :, 1] = 20 * np.arange(COUNT)[:, None, None]
    frames[:, : HEIGHT // 2, : WIDTH // 2] = (250, 20, 20)
    return frames


@cache
def video(kind: str = "mp4", codec: str = "libx264") -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=kind) as container:
        stream: Any = container.add_stream(codec, rate=FPS)
        stream.width, stream.height = WIDTH, HEIGHT
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for pixels in pictures():
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return file.getvalue()


def refused(data: bytes, max_pixels: int = MANY, max_frames: int = 100) -> str:
    with pytest.raises(ClipError) as caught:
        read_clip(data, max_pixels=max_pixels, max_frames=max_frames)
    with pytest.raises(ClipError) as again:
        measure_clip(data, max_pixels=max_pixels, max_frames=max_frames)
    assert caught.value.code == again.value.code
    assert caught.value.message.endswith(".")
    return caught.value.code


@pytest.mark.parametrize(
    ("kind", "codec"),
    [
        ("mp4", "libx264"),
        ("webm", "libvpx-vp9"),
        ("webm", "libvpx"),
        ("matroska", "mjpeg"),
        ("avi", "mpeg4"),
    ],
)
def test_frames_come_in_order(kind: str, codec: str) -> None:
    data = video(kind, codec)
    clip = read_clip(data, max_pixels=WIDTH * HEIGHT, max_frames=COUNT)
    assert clip.frames.shape == (COUNT, HEIGHT, WIDTH, 3)
    assert clip.fps == pytest.approx(FPS)
    assert np.abs(clip.frames.astype(int) - pictures())[:, 4:20, 4:28].max() <= 16
    assert np.abs(clip.frames.astype(int) - pictures())[:, 28:44, 4:60].max() <= 16
    facts = measure_clip(data, max_pixels=WIDTH * HEIGHT, max_frames=COUNT)
    assert (facts.width, facts.height, facts.frames) == (WIDTH, HEIGHT, COUNT)
    first = read_first_frame(io.BytesIO(data), max_pixels=MANY)
    assert (first == clip.frames[0]).all()


def test_a_video_is_turned_upright() -> None:
    data = bytearray(video())
    # The matrix of the track's header: a quarter turn to the right (ISO/IEC 14496-12, 8.3.2).
    at = data.index(b"tkhd") + 4 + 40
    one = 1 << 16
    matrix = (0, one, 0, -one, 0, 0, 0, 0, 1 << 30)
    data[at : at + 36] = b"".join(each.to_bytes(4, "big", signed=True) for each in matrix)
    clip = read_clip(bytes(data), max_pixels=MANY, max_frames=COUNT)
    assert clip.frames.shape == (COUNT, WIDTH, HEIGHT, 3)
    # What was left above is right above.
    assert clip.frames[0, 10, HEIGHT - 10, 0] > 230
    assert clip.frames[0, 10, 10, 0] < 30
    facts = measure_clip(bytes(data), max_pixels=MANY, max_frames=COUNT)
    assert (facts.width, facts.height) == (HEIGHT, WIDTH)


def test_more_than_allowed_is_refused() -> None:
    assert refused(video(), max_frames=COUNT - 1) == "too_many_frames"
    assert refused(video(), max_pixels=WIDTH * HEIGHT - 1) == "too_many_pixels"
    # The first picture alone may be had of any length.
    assert read_first_frame(video(), max_pixels=MANY).shape == (HEIGHT, WIDTH, 3)


def test_a_header_that_lies_about_the_size_changes_nothing() -> None:
    data = bytearray(video())
    # In the sample entry; the stream itself says what it is.
    at = data.index(b"avc1", data.index(b"stsd")) + 4 + 24
    assert int.from_bytes(data[at : at + 2], "big") == WIDTH
    data[at : at + 4] = b"\0\x10\0\x10"
    assert refused(bytes(data), max_pixels=WIDTH * HEIGHT - 1) == "too_many_pixels"


def test_pictures_that_change_their_size_are_refused() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        stream: Any = container.add_stream("mjpeg", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
        container.start_encoding()
        for index, size in enumerate((64, 320)):
            encoder: Any = av.CodecContext.create("mjpeg", "w")
            encoder.width = encoder.height = size
            encoder.pix_fmt, encoder.time_base = "yuvj420p", Fraction(1, FPS)
            frame = av.VideoFrame.from_ndarray(np.zeros((size, size, 3), np.uint8), "rgb24")
            frame = frame.reformat(format="yuvj420p")
            frame.pts = index
            for packet in encoder.encode(frame):
                packet.stream = stream
                container.mux_one(packet)
    assert refused(file.getvalue()) == "broken"
    assert refused(file.getvalue(), max_pixels=64 * 64) == "too_many_pixels"


def test_an_index_that_lists_too_much_is_not_opened() -> None:
    table = struct.pack(">I4s3I", 20, b"stsz", 0, 1, 5_000_000)
    index = struct.pack(">I4s", 8 + len(table), b"moov") + table
    assert refused(struct.pack(">I4s4s4s", 16, b"ftyp", b"isom", b"isom") + index) == "not_video"


def test_damaged_pictures_are_passed_over_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    data = video("matroska", "mjpeg")
    starts = [found.start() for found in re.finditer(rb"\xff\xd8\xff", data)]
    length = min(after - before for before, after in pairwise(starts)) - 20

    def without(pictures: list[int]) -> bytes:
        damaged = bytearray(data)
        for at in pictures:
            damaged[at : at + length] = bytes(length)
        return bytes(damaged)

    monkeypatch.setattr("antiphon.codecs.clips.MAX_FAILURES", 2)
    for damaged in (starts[3:4], starts[3:5], starts[1:8:2]):
        clip = read_clip(without(damaged), max_pixels=MANY, max_frames=COUNT)
        assert len(clip.frames) == COUNT - len(damaged)
    assert refused(without(starts[3:6])) == "broken"


def test_parts_that_show_nothing_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    # H.264 gives its first picture only after some packets.
    monkeypatch.setattr("antiphon.codecs.clips._SPARE_PACKETS", 0)
    with pytest.raises(ClipError, match="show nothing"):
        read_first_frame(video(), max_pixels=MANY)


def test_what_is_no_video_is_refused() -> None:
    for data in (b"", b"abc" * 1000, video()[:900], file_of("mp3"), file_of("wav")):
        assert refused(data) == "not_video"


@settings(max_examples=40)
@given(
    st.sampled_from(["mp4", "matroska"]),
    st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(0, 255)), max_size=40),
    st.integers(0, 1 << 14),
)
def test_damaged_files_are_read_or_refused(
    kind: str, changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(video(kind, "libx264"))
    for at, value in changes:
        data[at % len(data)] = value
    if cut % 3 == 0:
        del data[cut % len(data) :]
    try:
        clip = read_clip(bytes(data), max_pixels=MANY, max_frames=20)
        assert 1 <= len(clip.frames) <= 20
    except ClipError:
        pass
