"""Small pictures of a film: a thumbnail, and a sheet of moments from its beginning to its end."""

from __future__ import annotations

import numpy as np

from .h264 import Film
from .pictures import Pixels, encode_picture

THUMBNAIL_TYPE = "image/webp"
SPRITESHEET_TYPE = "image/jpeg"

THUMBNAIL_SIDE = 480
"""Most pixels a side of a thumbnail."""

SPRITE_SIDE = 160
"""Most pixels a side of one picture of a sheet."""

MAX_SPRITES = 25
COLUMNS = 5

_QUALITY = 80


def encode_thumbnail(frames: Film, *, side: int = THUMBNAIL_SIDE) -> bytes:
    """Return a WebP picture of the middle of ``frames``, at most ``side`` pixels a side.

    Raises:
        ValueError: there is no frame.
    """
    if len(frames) == 0:
        raise ValueError("expected at least one frame")
    return encode_picture(shrink(frames[len(frames) // 2], side), "webp", quality=_QUALITY)


def encode_spritesheet(frames: Film, *, side: int = SPRITE_SIDE) -> bytes:
    """Return a JPEG of up to :data:`MAX_SPRITES` moments, evenly spaced, in rows of
    :data:`COLUMNS`, the first on the left above; what is left of the last row is black.

    Raises:
        ValueError: there is no frame.
    """
    if len(frames) == 0:
        raise ValueError("expected at least one frame")
    sprites = [shrink(frames[at], side) for at in moments(len(frames))]
    height, width = sprites[0].shape[:2]
    columns = min(COLUMNS, len(sprites))
    rows = -(-len(sprites) // columns)
    sheet = np.zeros((rows * height, columns * width, 3), np.uint8)
    for index, sprite in enumerate(sprites):
        top, left = index // columns * height, index % columns * width
        sheet[top : top + height, left : left + width] = sprite
    return encode_picture(sheet, "jpeg", quality=_QUALITY)


def moments(count: int) -> list[int]:
    """Which of ``count`` frames are on a sheet: the first, the last, and evenly between."""
    shown = min(count, MAX_SPRITES)
    return [round(index * (count - 1) / max(1, shown - 1)) for index in range(shown)]


def shrink(pixels: Pixels, side: int) -> Pixels:
    """The picture at most ``side`` pixels a side, its shape kept; a smaller one as it is."""
    from PIL import Image

    height, width = pixels.shape[:2]
    scale = side / max(height, width)
    if scale >= 1:
        return pixels
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize(size, Image.Resampling.LANCZOS), np.uint8)
