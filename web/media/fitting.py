"""Pictures that go in, brought to the size of what is made: pipelines would stretch them."""

from __future__ import annotations

import numpy as np

from ...codecs.pictures import MAX_PIXELS, decode_picture, encode_picture, flatten


def fit(png: bytes, width: int, height: int) -> bytes:
    """A picture scaled to cover ``width`` x ``height`` pixels, what stands over on two sides cut
    off alike; PNG without alpha, laid over white. Blocks for as long as the codecs need.

    Raises:
        PictureError: it is no picture.
    """
    from PIL import Image, ImageOps

    decoded = decode_picture(png, max_pixels=MAX_PIXELS)
    if decoded.shape == (height, width, 3):
        return png
    # Pipelines drop alpha, and what it hides is anything.
    image = Image.fromarray(flatten(decoded))
    if image.size != (width, height):
        image = ImageOps.fit(image, (width, height), Image.Resampling.LANCZOS)
    return encode_picture(np.asarray(image), "png")
