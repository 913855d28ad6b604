"""Pictures out of video files that come from strangers.

Only the containers and codecs listed here are tried. What a file says of its length is not
believed: pictures are counted as they are decoded, and the size of each is checked before its
decoder makes it and again behind it. All calls may take long, so none belongs on an event loop.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .boxes import sample_count
from .containers import INDEXED, open_container
from .media import MAX_FAILURES, MAX_LISTED

_CONTAINERS = ["avi", "matroska", "webm"]
_CODECS = "av1 h264 hevc libdav1d libvpx-vp9 mjpeg mpeg4 vp8 vp9".split()

MAX_SIDE = 8192
"""Most pixels a side of a video."""

MAX_PACKET_BYTES = 32 << 20
"""Bytes of a picture, packed, above which it counts as one that can't be read."""

_MARGIN = 128 * MAX_SIDE
"""Pixels that decoders may add at the edges of a picture, for themselves."""

_SPARE_PACKETS = 1000
"""Packets without a picture that a file may have beside those with one."""

_NOT_VIDEO = (
    "This is no video file that can be read; mp4, mov, webm, mkv and avi are, with H.264, H.265, "
    "VP8, VP9, AV1, MPEG-4 or JPEG pictures. It may be something else, or be damaged."
)

Code: TypeAlias = Literal["not_video", "too_many_pixels", "too_many_frames", "broken"]


class ClipError(ValueError):
    """A file gives no pictures, or too many."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code: Code = code
        """``not_video``: nothing that is read here. ``too_many_pixels``, ``too_many_frames``:
        more than was allowed. ``broken``: too much of it can't be read."""

        self.message = message
        """One sentence, with nothing out of the file."""


@dataclass(frozen=True, slots=True)
class Clip:
    """What is to be seen in a file."""

    frames: NDArray[np.uint8]
    """``(count, height, width, 3)``, RGB, turned as the file says; all of the first one's size."""

    fps: float
    """Frames a second as the file says, or its times suggest; 0 if unknown."""


def read_clip(source: BinaryIO | bytes, *, max_pixels: int, max_frames: int) -> Clip:
    """Return all pictures of a file.

    ``max_pixels``: of one picture. ``source`` must be able to seek; it stays the caller's.

    Raises:
        ClipError: it is no video, has more or larger pictures than allowed, or is damaged.
        OSError: ``source`` could not be read.
    """
    with _Opened(source, max_pixels) as video:
        frames = [_pixels(frame) for frame in video.frames(max_frames)]
        return Clip(np.stack(frames), video.fps)


@dataclass(frozen=True, slots=True)
class ClipFacts:
    """What a clip is, found by decoding all of it."""

    width: int
    height: int
    """As it is shown, turned as the file says."""

    frames: int
    fps: float
    """As of a :class:`Clip`."""


def measure_clip(source: BinaryIO | bytes, *, max_pixels: int, max_frames: int) -> ClipFacts:
    """Decode all of a file and keep nothing: what passes here, :func:`read_clip` reads.

    Raises:
        ClipError: as there.
        OSError: ``source`` could not be read.
    """
    with _Opened(source, max_pixels) as video:
        count, first = 0, None
        for frame in video.frames(max_frames):
            first = first or _shown_size(frame)
            count += 1
        width, height = first or (0, 0)
        return ClipFacts(width, height, count, video.fps)


def read_first_frame(source: BinaryIO | bytes, *, max_pixels: int) -> NDArray[np.uint8]:
    """Return the first picture, ``(height, width, 3)``, RGB, of a file; as :func:`read_clip`.

    Raises:
        ClipError: as there.
        OSError: ``source`` could not be read.
    """
    with _Opened(source, max_pixels) as video:
        return _pixels(next(video.frames(1, more=True)))


class _Opened:
    """A file, and its first video track."""

    def __init__(self, source: BinaryIO | bytes, max_pixels: int) -> None:
        file = io.BytesIO(source) if isinstance(source, bytes) else source
        self._max_pixels = max_pixels
        container = open_container(file, _CONTAINERS, _CODECS)
        if container is None:
            if sample_count(file) > MAX_LISTED:
                raise ClipError("not_video", "The file's index lists more samples than are read.")
            container = open_container(file, INDEXED, _CODECS)
        if container is None:
            raise ClipError("not_video", _NOT_VIDEO)
        self._container: Any = container
        self._failures = 0

    def __enter__(self) -> _Opened:
        try:
            self._stream = self._track()
            self._check(self._stream.codec_context.width, self._stream.codec_context.height)
        except BaseException:
            self._container.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._container.close()

    @property
    def fps(self) -> float:
        rate = self._stream.average_rate or self._stream.guessed_rate
        return float(rate) if rate else 0.0

    def frames(self, most: int, *, more: bool = False) -> Iterator[Any]:
        """Pictures in the order they are shown, all of one size, at least one and at most
        ``most``; ``more``: it does not matter whether there are any behind."""
        count = packets = 0
        size: tuple[int, int] | None = None
        for packet in self._packets():
            packets += 1
            if packets > 2 * most + _SPARE_PACKETS:
                raise ClipError("broken", "The video has parts without end that show nothing.")
            for frame in self._decoded(packet):
                if count == most:
                    if more:
                        return
                    raise ClipError("too_many_frames", f"The video has more than {most} frames.")
                self._check(frame.width, frame.height)
                if size not in (None, _shown_size(frame)):
                    raise ClipError("broken", "The video's pictures change their size.")
                size = _shown_size(frame)
                count += 1
                yield frame
        if not count:
            raise ClipError("broken", "The video is damaged: nothing of it can be read.")

    def _track(self) -> Any:
        for stream in self._container.streams.video:
            context = stream.codec_context
            if context is not None and context.name in _CODECS:
                context.thread_count = 1
                context.options = {"max_pixels": str(2 * self._max_pixels + _MARGIN)}
                return stream
        raise ClipError("not_video", _NOT_VIDEO)

    def _check(self, width: int, height: int) -> None:
        if width * height > self._max_pixels or max(width, height) > MAX_SIDE:
            raise ClipError(
                "too_many_pixels",
                f"The video has {width}x{height} pixels; at most {self._max_pixels} are allowed, "
                f"and {MAX_SIDE} a side.",
            )

    def _packets(self) -> Iterator[Any]:
        from av.error import FFmpegError

        packets = self._container.demux(self._stream)
        while self._failures <= MAX_FAILURES:
            try:
                packet = next(packets, None)
            except (FFmpegError, ValueError):
                # It may go on behind what it can't read.
                self._failures += 1
                packets = self._container.demux(self._stream)
                continue
            if packet is None:
                return
            yield packet
        raise ClipError("broken", "The video is damaged: the rest can't be read.")

    def _decoded(self, packet: Any) -> list[Any]:
        from av.error import FFmpegError

        try:
            frames = packet.decode() if packet.size <= MAX_PACKET_BYTES else None
        except (FFmpegError, ValueError):
            frames = None
        if frames is None:
            self._failures += 1
            return []
        if frames:
            self._failures = 0
        return list(frames)


def _turns(frame: Any) -> int:
    """Quarter turns to the left until it is upright."""
    return int((frame.rotation + 45) // 90) % 4


def _shown_size(frame: Any) -> tuple[int, int]:
    size = (frame.width, frame.height)
    return size[::-1] if _turns(frame) % 2 else size


def _pixels(frame: Any) -> NDArray[np.uint8]:
    """RGB, turned upright."""
    return np.ascontiguousarray(np.rot90(frame.to_ndarray(format="rgb24"), _turns(frame)))
