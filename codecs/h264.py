"""Frames into H.264 that every browser plays: 8 bits, 4:2:0, BT.709 with its colours named."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Frame: TypeAlias = NDArray[np.uint8]
"""``(height, width, 3)``, RGB."""

Film: TypeAlias = Sequence[Frame] | NDArray[np.uint8]
"""Frames of one size; as an array ``(count, height, width, 3)``."""

MAX_SIDE = 8192
"""Pixels a side, of level 6.2 of H.264."""

MAX_RATE = 240
"""Frames a second."""

QUALITY = 18
"""x264's constant rate factor; at 18 no difference is seen."""

TICKS = 1000
"""Units of time that a frame lasts: no rate is rounded."""

_PRESET = "fast"
_THREADS = 2
"""Fixed, since the bytes depend on it: a job that is done again gives the same file."""

_BT709 = 1
_LIMITED = 1


def check_film(width: int, height: int, fps: int) -> None:
    """Refuse sizes and rates that can't be encoded.

    Raises:
        ValueError: a side or the rate is out of range.
    """
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise ValueError(f"expected 1 to {MAX_SIDE} pixels a side, got {width}x{height}")
    if not 1 <= fps <= MAX_RATE:
        raise ValueError(f"expected 1 to {MAX_RATE} frames a second, got {fps}")


def even(side: int) -> int:
    """The size that is encoded: 4:2:0 has none that is odd."""
    return side + side % 2


def add_video(container: Any, width: int, height: int, fps: int, options: Mapping[str, str]) -> Any:
    """Add the video track to an output of PyAV; returns its stream."""
    settings = {"preset": _PRESET, "crf": str(QUALITY), **options}
    stream = container.add_stream("libx264", rate=fps, options=settings)
    stream.width, stream.height = even(width), even(height)
    stream.pix_fmt = "yuv420p"
    context = stream.codec_context
    context.thread_count = _THREADS
    context.color_range = _LIMITED
    context.colorspace = context.color_primaries = context.color_trc = _BT709
    return stream


def to_yuv(pixels: Frame, width: int, height: int) -> Any:
    """A frame of PyAV as the encoder takes it; an odd edge is doubled.

    Raises:
        ValueError: it is no RGB picture of that size.
    """
    import av

    if pixels.dtype != np.uint8 or pixels.shape != (height, width, 3):
        raise ValueError(
            f"expected uint8 of {(height, width, 3)}, got {pixels.dtype} of {pixels.shape}"
        )
    if width % 2 or height % 2:
        pixels = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
    return frame.reformat(format="yuv420p", dst_colorspace=_BT709, dst_color_range=_LIMITED)
