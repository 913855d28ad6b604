"""Audio and video files of a tone, as other programs write them."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]

SECONDS = 2
LEVEL = 0.25

KINDS = {
    "mp3": ("mp3", "libmp3lame"),
    "m4a": ("mp4", "aac"),
    "ogg-opus": ("ogg", "libopus"),
    "flac": ("flac", "flac"),
    "wav": ("wav", "pcm_s16le"),
    "wav-float": ("wav", "pcm_f32le"),
    "wav-24": ("wav", "pcm_s24le"),
    "wav-u8": ("wav", "pcm_u8"),
    "webm": ("webm", "libopus"),
    "mpga": ("mp2", "mp2"),
    "aac": ("adts", "aac"),
    "aiff": ("aiff", "pcm_s16be"),
    "mpeg-ts": ("mpegts", "mp2"),
    "alac": ("mp4", "alac"),
}
"""Container and codec."""


def tone(rate: int, channels: int, seconds: float = SECONDS, hertz: float = 440.0) -> Samples:
    """A tone of :data:`LEVEL`, the same in all channels: shape ``(channels, n)``."""
    at = np.arange(int(rate * seconds)) / rate
    return np.tile(LEVEL * np.sqrt(2) * np.sin(2 * np.pi * hertz * at), (channels, 1))


@cache
def file_of(kind: str, rate: int = 48_000, channels: int = 2, video: bool = False) -> bytes:
    """A file of :func:`tone`, with pictures too if ``video``."""
    return made(*KINDS[kind], tone(rate, channels), rate, video)


def made(
    container: str,
    codec: str,
    samples: Samples,
    rate: int,
    video: bool = False,
    options: dict[str, str] | None = None,
) -> bytes:
    """A file of ``samples``, shape ``(channels, n)``; of none if there are no channels."""
    sink = io.BytesIO()
    # PyAV's types leave open what a stream encodes.
    out: Any = av.open(sink, "w", format=container, options=options or {})
    with out:
        layout = {1: "mono", 2: "stereo", 6: "5.1"}[len(samples)] if len(samples) else "mono"
        audio: Any = out.add_stream(codec, rate=rate, layout=layout) if len(samples) else None
        if video:
            pictures: Any = out.add_stream("mpeg4", rate=10, width=64, height=48, pix_fmt="yuv420p")
            for number in range(20):
                picture = av.VideoFrame(64, 48, "yuv420p")
                picture.pts = number
                out.mux(pictures.encode(picture))
            out.mux(pictures.encode(None))
        if audio is not None:
            pcm = np.round(samples.T.reshape(1, -1) * 32767).astype("<i2")
            frame = av.AudioFrame.from_ndarray(pcm, "s16", layout)
            frame.sample_rate, frame.pts = rate, 0
            out.mux(audio.encode(frame))
            out.mux(audio.encode(None))
    return sink.getvalue()
