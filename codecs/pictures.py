"""Pictures out of files and into them: PNG, JPEG and WebP, through Pillow.

Pixels are uint8, ``(height, width, 3)`` RGB or ``(height, width, 4)`` RGBA with alpha not
multiplied in. A file can carry the parameters that its picture was made with, a text that
:func:`read_parameters` gives back: PNG in an ``iTXt`` chunk named ``parameters``, JPEG and WebP
in EXIF's ``UserComment`` (CIPA DC-008, 0x9286), where other tools look as well.

Files that are read come from strangers: only these three kinds are tried, and no decoder sees a
file before its header has told that it has no more pixels than are allowed. All calls may take
long, so none belongs on an event loop.
"""

from __future__ import annotations

import io
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .picture_headers import MAX_SCANS, Form, read_header, scan_count

Pixels: TypeAlias = NDArray[np.uint8]

FORMS: tuple[Form, ...] = ("png", "jpeg", "webp")

CONTENT_TYPES: dict[Form, str] = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
}

MAX_SIDE: dict[Form, int] = {"png": 65_535, "jpeg": 65_535, "webp": 16_383}
"""Pixels a side that a file of that kind can have; PNG's is ours."""

MAX_PIXELS = 64 << 20
"""Most pixels of a picture that can be allowed: what Pillow reads without a word."""

QUALITY = 90
"""Of JPEG and WebP where none is asked for."""

_PNG_LEVEL = 6
_EXIF_TEXT = 30_000
"""Characters that fit into the EXIF of a JPEG, which is one segment of 64 KiB in UTF-16."""

_NAME = "parameters"
_EXIF_IFD = 0x8769
_USER_COMMENT = 0x9286
_ORIENTATION = 0x0112
_UNICODE = b"UNICODE\0"
_READERS = {"png": "PNG", "jpeg": "JPEG", "webp": "WEBP"}

Code: TypeAlias = Literal["not_picture", "too_many_pixels", "broken"]


class PictureError(ValueError):
    """A file gives no picture."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code: Code = code
        """``not_picture``: it is no PNG, JPEG or WebP. ``too_many_pixels``: more than allowed.
        ``broken``: it can't be read to its end."""

        self.message = message
        """One sentence, with nothing out of the file."""


def encode_picture(
    pixels: Pixels,
    form: Form = "png",
    *,
    quality: int | None = None,
    parameters: str = "",
    background: tuple[int, int, int] = (255, 255, 255),
) -> bytes:
    """Return a file of ``pixels``.

    ``quality``: 0 to 100, of JPEG and WebP (:data:`QUALITY` if ``None``); PNG loses nothing and
    has none. ``background``: what shows through where a picture with alpha becomes a JPEG, which
    can't keep it; PNG and WebP do. ``parameters``: a text to be kept with the picture. A JPEG
    has room for 30,000 characters, and a longer one is left out of it.

    Raises:
        ValueError: the array is no picture, too large for the form, or the quality is not one.
    """
    from PIL import Image

    _check(pixels, form)
    if quality is not None and not 0 <= quality <= 100:
        raise ValueError(f"expected a quality from 0 to 100, got {quality}")
    if form == "jpeg" and pixels.shape[2] == 4:
        pixels = flatten(pixels, background)
    image = Image.fromarray(np.ascontiguousarray(pixels))
    parameters = parameters.encode("utf-8", "replace").decode()
    options: dict[str, Any] = {"quality": QUALITY if quality is None else quality}
    if form == "png":
        options = {"compress_level": _PNG_LEVEL, "pnginfo": _png_text(parameters)}
    elif parameters and (form == "webp" or len(parameters) <= _EXIF_TEXT):
        options["exif"] = _exif(parameters)
    if form == "jpeg" and options["quality"] >= QUALITY:
        # Colour as sharp as brightness: text and line art show the difference.
        options["subsampling"] = 0
    if form == "webp":
        # Colours under full transparency are kept: they show where an edit begins.
        options |= {"method": 4, "exact": True}
    file = io.BytesIO()
    image.save(file, _READERS[form], **options)
    return file.getvalue()


def decode_picture(data: bytes, *, max_pixels: int) -> Pixels:
    """Return the pixels of a file, turned as its orientation says; RGBA if it has any alpha.

    Of an animation it is the first picture. Colour profiles are not applied.

    Raises:
        PictureError: it is none, has more pixels than ``max_pixels``, or is damaged.
    """
    image = _open(data, max_pixels)
    try:
        turned = _oriented(image)
        return _pixels(turned)
    except Exception as error:
        raise PictureError("broken", "The picture is damaged: it can't be read.") from error


def picture_size(data: bytes) -> tuple[int, int]:
    """Width and height that the header states, without decoding or turning anything.

    Raises:
        PictureError: it is no PNG, JPEG or WebP.
    """
    header = read_header(data)
    if header is None:
        raise PictureError(
            "not_picture", "This is no picture that can be read; PNG, JPEG, WebP are."
        )
    return header.width, header.height


def read_parameters(data: bytes) -> str | None:
    """The text that :func:`encode_picture` put into the file, or ``None``.

    Raises:
        PictureError: it is no PNG, JPEG or WebP, or damaged.
    """
    image = _open(data, MAX_PIXELS)
    try:
        if image.format == "PNG":
            found: object = image.info.get(_NAME)
            return str(found) if isinstance(found, str) else None
        comment = image.getexif().get_ifd(_EXIF_IFD).get(_USER_COMMENT)
    except Exception as error:
        raise PictureError("broken", "What the picture says of itself can't be read.") from error
    if isinstance(comment, bytes) and comment.startswith(_UNICODE):
        return comment[len(_UNICODE) :].decode("utf-16-be", "replace")
    return None


def flatten(pixels: Pixels, background: tuple[int, int, int] = (255, 255, 255)) -> Pixels:
    """RGB of an RGBA picture laid over one colour; RGB stays as it is."""
    if pixels.shape[2] == 3:
        return pixels
    alpha = pixels[:, :, 3:].astype(np.uint32)
    ground = np.array(background, np.uint32)
    mixed = pixels[:, :, :3] * alpha + ground * (255 - alpha)
    return ((mixed + 127) // 255).astype(np.uint8)


def _check(pixels: Pixels, form: Form) -> None:
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (3, 4):
        raise ValueError(
            f"expected uint8 of (height, width, 3 or 4), got {pixels.dtype} of {pixels.shape}"
        )
    height, width = pixels.shape[:2]
    if not (1 <= width <= MAX_SIDE[form] and 1 <= height <= MAX_SIDE[form]):
        raise ValueError(f"{form} holds up to {MAX_SIDE[form]} pixels a side: {width}x{height}")


def _png_text(parameters: str) -> Any:
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    if parameters:
        info.add_itxt(_NAME, parameters)
    return info


def _exif(parameters: str) -> Any:
    from PIL.Image import Exif

    exif = Exif()
    exif.get_ifd(_EXIF_IFD)[_USER_COMMENT] = _UNICODE + parameters.encode("utf-16-be")
    return exif


def _open(data: bytes, max_pixels: int) -> Any:
    """A Pillow image whose header was read, and nothing decoded."""
    from PIL import Image

    width, height = picture_size(data)
    if width * height > min(max_pixels, MAX_PIXELS):
        raise PictureError(
            "too_many_pixels",
            f"The picture has {width}x{height} pixels; at most {min(max_pixels, MAX_PIXELS)} are "
            "allowed.",
        )
    if data.startswith(b"\xff\xd8") and scan_count(data) > MAX_SCANS:
        raise PictureError("broken", f"The JPEG has more than {MAX_SCANS} scans.")
    try:
        image = Image.open(io.BytesIO(data), formats=list(_READERS.values()))
    except Exception as error:
        raise PictureError("broken", "The picture is damaged: it can't be read.") from error
    if image.size != (width, height):
        # A second header further on: what was checked is not what would be decoded.
        raise PictureError("broken", "The picture states two sizes.")
    return image


def _oriented(image: Any) -> Any:
    from PIL import ImageOps

    try:
        turn = image.getexif().get(_ORIENTATION, 1)
    except Exception:
        # Notes of a camera that can't be read are no reason to refuse its picture.
        turn = 1
    image.load()
    return ImageOps.exif_transpose(image) if turn in range(2, 9) else image


def _pixels(image: Any) -> Pixels:
    if image.mode.startswith("I"):
        # 16 bits of grey, which Pillow would cut off at 255.
        grey = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    with_alpha = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
    return np.array(image.convert("RGBA" if with_alpha else "RGB"), np.uint8)
