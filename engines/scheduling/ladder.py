"""Sizes of chunks for decoders whose frames have other lengths than those of the embedded voice."""

from __future__ import annotations

LADDER_MS = (20.0, 46.4, 92.9, 139.3, 185.8, 278.6, 371.5, 557.3)
"""Audio of the chunks: as of the embedded voice, and a shorter one for decoders to which a chunk
costs little more than its frames."""


def ladder_for(frame_ms: float) -> tuple[int, ...]:
    """Frames that a chunk may have, ascending, where one lasts ``frame_ms``.

    Raises:
        ValueError: the length is not positive.
    """
    if not frame_ms > 0:
        raise ValueError(f"expected frame_ms above 0, got {frame_ms}")
    return tuple(sorted({max(1, round(ms / frame_ms)) for ms in LADDER_MS}))
