"""Frames, and sound if there is any, as one MP4 file whose index stands in front.

H.264 in 4:2:0 and AAC (ISO/IEC 14496-10, -3, in the file format of -12), through PyAV; it plays
while it is still being fetched. The same frames give the same bytes. All calls may take long, so
none belongs on an event loop.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from fractions import Fraction
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .h264 import Frame, add_video, check_film, to_yuv

CONTENT_TYPE = "video/mp4"

MAX_CHANNELS = 2

Sound: TypeAlias = NDArray[np.float32]
"""``(channels, n)`` in [-1, 1]."""

_AAC_RATES = (96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000)
_OTHER_RATE = 48_000
"""What sound of another rate is brought to."""

_UNITS = 1000
"""A frame lasts so many of the file's units."""

_AAC_BITS = 160_000
_LAYOUTS = {1: "mono", 2: "stereo"}
_COMMENT = "comment"


class MoviesMissing(RuntimeError):
    """PyAV is not installed."""


def encode_movie(
    frames: Iterable[Frame] | NDArray[np.uint8],
    fps: int,
    *,
    audio: Sound | None = None,
    audio_rate: int = 0,
    parameters: str = "",
) -> bytes:
    """Return an MP4 file of ``frames``, each uint8 ``(height, width, 3)``, all of one size.

    A side that is odd becomes longer by a pixel, the last one doubled. ``audio``: mono or stereo,
    from the first frame on; NaN is silence. ``parameters``: a text to be kept with the film, which
    :func:`read_movie_parameters` gives back.

    Raises:
        ValueError: no frame, frames that differ, or sizes, rates and channels that can't be.
        MoviesMissing: PyAV is not there.
    """
    rest = iter(frames)
    first = next(rest, None)
    if first is None or first.ndim != 3:
        raise ValueError("expected at least one frame of (height, width, 3)")
    height, width = first.shape[:2]
    check_film(width, height, fps)
    try:
        import av
    except ImportError as error:
        raise MoviesMissing(f"writing films needs PyAV: {error}") from None
    file = io.BytesIO()

    def again(url: str, flags: int, options: dict[str, str]) -> _Again:
        # To move the index to the front FFmpeg reads what it has written.
        return _Again(file)

    # The length stands in units of the whole file, thousandths unless it is told otherwise.
    options = {"movflags": "+faststart", "movie_timescale": str(fps * _UNITS)}
    with av.open(file, "w", format="mp4", options=options, io_open=again) as container:
        if parameters:
            container.metadata[_COMMENT] = parameters.replace("\0", "")
        video = add_video(container, width, height, fps, {})
        track = None if audio is None else _SoundTrack(container, audio, audio_rate)
        for index, pixels in enumerate(chain([first], rest)):
            picture = to_yuv(pixels, width, height)
            picture.pts, picture.time_base = index, Fraction(1, fps)
            container.mux(video.encode(picture))
            if track is not None:
                track.write((index + 1) / fps)
        container.mux(video.encode(None))
        if track is not None:
            track.finish()
    return file.getvalue()


def read_movie_parameters(data: bytes) -> str | None:
    """The text that :func:`encode_movie` put into a file of its own, or ``None``."""
    import av

    with av.open(io.BytesIO(data), "r", format="mp4") as container:
        return container.metadata.get(_COMMENT)


class _SoundTrack:
    """The AAC track of a file, written as far as the pictures are."""

    def __init__(self, container: Any, sound: Sound, rate: int) -> None:
        if sound.ndim != 2 or not 1 <= sound.shape[0] <= MAX_CHANNELS:
            raise ValueError(f"expected sound of (1 or 2, samples), got {sound.shape}")
        if not 1_000 <= rate <= 384_000:
            raise ValueError(f"expected a rate of 1,000 to 384,000 samples a second, got {rate}")
        import av

        self._container = container
        clean = np.nan_to_num(sound, posinf=1.0, neginf=-1.0)
        self._sound = np.clip(clean, -1.0, 1.0).astype(np.float32)
        self._rate = rate
        self._layout = _LAYOUTS[sound.shape[0]]
        self._written = 0
        kept = rate if rate in _AAC_RATES else _OTHER_RATE
        self._stream = container.add_stream("aac", rate=kept, layout=self._layout)
        self._stream.bit_rate = _AAC_BITS
        self._resampler: Any = av.AudioResampler("fltp", self._layout, kept)

    def write(self, until: float) -> None:
        """Write what is heard before ``until``, in seconds."""
        end = min(round(until * self._rate), self._sound.shape[1])
        if end > self._written:
            self._write(self._sound[:, self._written : end])
            self._written = end

    def finish(self) -> None:
        """Write the rest."""
        for at in range(self._written, self._sound.shape[1], self._rate):
            self._write(self._sound[:, at : at + self._rate])
        self._encode(self._resampler.resample(None))
        self._container.mux(self._stream.encode(None))

    def _write(self, samples: Sound) -> None:
        import av

        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(samples), format="fltp", layout=self._layout
        )
        frame.sample_rate = self._rate
        self._encode(self._resampler.resample(frame))

    def _encode(self, frames: Iterable[Any]) -> None:
        for frame in frames:
            self._container.mux(self._stream.encode(frame))


class _Again:
    """A second place in a file that is being written, to read from."""

    def __init__(self, file: io.BytesIO) -> None:
        self._file = file
        self._at = 0

    def read(self, size: int) -> bytes:
        with self._file.getbuffer() as written:
            piece = bytes(written[self._at : self._at + size])
        self._at += len(piece)
        return piece

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = offset + (self._file.getbuffer().nbytes if start is None else start)
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        """The file is its owner's."""
