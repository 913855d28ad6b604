"""Pictures into files and back, and files that are no good ones."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from antiphon.codecs.picture_headers import MAX_SCANS, Form, read_header
from antiphon.codecs.pictures import (
    FORMS,
    PictureError,
    Pixels,
    decode_picture,
    encode_picture,
    flatten,
    picture_size,
    read_parameters,
)

MANY = 1 << 20


def smooth(width: int = 40, height: int = 24, channels: int = 3) -> Pixels:
    """A picture in which every corner is told from the others, and no codec loses much."""
    across = np.linspace(20, 230, width)[None, :]
    down = np.linspace(20, 230, height)[:, None]
    planes = [across + 0 * down, down + 0 * across, 128 + 0 * (across + down), across + 0 * down]
    return np.stack(planes[:channels], axis=2).astype(np.uint8)


def refused(data: bytes, max_pixels: int = MANY) -> str:
    with pytest.raises(PictureError) as caught:
        decode_picture(data, max_pixels=max_pixels)
    assert caught.value.message.endswith(".")
    return caught.value.code


def chunk(name: bytes, body: bytes) -> bytes:
    sealed = name + body
    return struct.pack(">I", len(body)) + sealed + struct.pack(">I", zlib.crc32(sealed))


def png(width: int, height: int, *more: bytes) -> bytes:
    ihdr = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    end = chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + ihdr + b"".join(more) + end


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("form", FORMS)
def test_pixels_and_parameters_come_back(form: Form, channels: int) -> None:
    pixels = smooth(channels=channels)
    told = '{"prompt": "eine Möwe 🕊, \\"nah\\"", "seed": 7}'
    data = encode_picture(pixels, form, parameters=told)
    back = decode_picture(data, max_pixels=MANY)
    if form == "jpeg":
        assert np.abs(back.astype(int) - flatten(pixels)).max() <= 6
    elif form == "webp":
        assert back.shape == pixels.shape
        assert np.abs(back.astype(int) - pixels)[:, :, :3].max() <= 12
        assert channels == 3 or (back[:, :, 3] == pixels[:, :, 3]).all()
    else:
        assert (back == pixels).all()
    assert read_parameters(data) == told
    assert read_parameters(encode_picture(pixels, form)) is None
    # As others see it.
    seen = Image.open(io.BytesIO(data))
    assert (seen.format, seen.size) == (form.upper(), (40, 24))


@pytest.mark.parametrize("form", ["png", "webp"])
def test_colours_under_full_transparency_are_kept(form: Form) -> None:
    pixels = smooth(channels=4)
    pixels[:, :, 3] = 0
    back = decode_picture(encode_picture(pixels, form), max_pixels=MANY)
    assert back[:, :, 3].max() == 0
    assert np.abs(back.astype(int) - pixels).max() <= 12


def test_a_jpeg_shows_the_background_through() -> None:
    pixels = np.zeros((16, 16, 4), np.uint8)
    pixels[:, :, 3] = 128
    data = encode_picture(pixels, "jpeg", background=(200, 100, 0))
    assert np.abs(decode_picture(data, max_pixels=MANY)[8, 8].astype(int) - (100, 50, 0)).max() <= 3


def test_quality_is_applied_and_long_parameters_too() -> None:
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for form in ("jpeg", "webp"):
        sizes = [len(encode_picture(noise, form, quality=quality)) for quality in (5, 50, 100)]
        assert sizes == sorted(sizes)
        assert sizes[2] > 2 * sizes[0]
    long = "ß" * 40_000
    assert read_parameters(encode_picture(noise, "png", parameters=long)) == long
    assert read_parameters(encode_picture(noise, "webp", parameters=long)) == long
    assert read_parameters(encode_picture(noise, "jpeg", parameters=long)) is None
    assert read_parameters(encode_picture(noise, "jpeg", parameters=long[:30_000])) is not None


@pytest.mark.parametrize(
    ("pixels", "quality"),
    [
        (np.zeros((4, 4), np.uint8), 90),
        (np.zeros((4, 4, 2), np.uint8), 90),
        (np.zeros((0, 4, 3), np.uint8), 90),
        (np.zeros((1, 16_384, 3), np.uint8), 90),
        (np.zeros((4, 4, 3), np.uint8), 101),
    ],
)
def test_what_is_no_picture_is_not_encoded(pixels: Pixels, quality: int) -> None:
    with pytest.raises(ValueError, match="expected|holds"):
        encode_picture(pixels, "webp", quality=quality)


@settings(max_examples=40)
@given(st.sampled_from(FORMS), st.integers(1, 70), st.integers(1, 70), st.sampled_from([3, 4]))
def test_any_size(form: Form, width: int, height: int, channels: int) -> None:
    data = encode_picture(smooth(width, height, channels), form)
    assert read_header(data) == (form, width, height)
    assert decode_picture(data, max_pixels=width * height).shape[:2] == (height, width)
    if width * height > 1:
        assert refused(data, width * height - 1) == "too_many_pixels"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JPEG", {"progressive": True}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0" + bytes(20)}),
    ],
)
def test_other_kinds_of_headers(kind: str, options: dict[str, object]) -> None:
    file = io.BytesIO()
    Image.fromarray(smooth(33, 21)).save(file, kind, **options)
    assert picture_size(file.getvalue()) == (33, 21)
    back = decode_picture(file.getvalue(), max_pixels=MANY)
    assert np.abs(back.astype(int) - smooth(33, 21)).max() <= 20


def test_headers_of_jpeg_that_are_odd_or_damaged() -> None:
    data = encode_picture(smooth(), "jpeg")
    at = data.index(b"\xff\xc0")
    # Markers may have filling before them (T.81, B.1.1.2), and some have no length.
    filled = data[:at] + b"\xff\x01\xff\xff" + data[at:]
    assert picture_size(filled) == (40, 24)
    for damaged in (data[: at + 8], data[:at] + b"\0" + data[at:], data[:at] + b"\xff\xd9" * 9):
        assert refused(damaged) == "not_picture"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_upright(orientation: int) -> None:
    upright = smooth(5, 3)
    # What a camera stores so that this orientation makes it upright (EXIF, CIPA DC-008).
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: upright.transpose(1, 0, 2)[::-1, ::-1],
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(stored)).save(file, "PNG", exif=exif)
    assert (decode_picture(file.getvalue(), max_pixels=MANY) == upright).all()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("1", (255, 255, 255)),
        ("L", (200, 200, 200)),
        ("LA", (200, 200, 200, 90)),
        ("I;16", (200, 200, 200)),
        ("P", (200, 0, 0)),
    ],
)
def test_other_modes_become_rgb(mode: str, expected: tuple[int, ...]) -> None:
    values: dict[str, object] = {"1": 1, "L": 200, "LA": (200, 90), "I;16": 200 << 8, "P": 3}
    image = Image.new(mode, (4, 4), values[mode])  # type: ignore[arg-type]
    if mode == "P":
        image.putpalette([0, 0, 0] * 3 + [200, 0, 0])
    file = io.BytesIO()
    image.save(file, "PNG")
    assert tuple(decode_picture(file.getvalue(), max_pixels=MANY)[0, 0]) == expected


def test_bombs_are_refused_by_their_header() -> None:
    assert refused(png(60_000, 60_000)) == "too_many_pixels"
    assert refused(png(9_000, 9_000), 1 << 60) == "too_many_pixels"
    webp = bytearray(encode_picture(smooth(channels=4), "webp"))
    webp[24:30] = b"\xfe\x3f\0" * 2
    assert refused(bytes(webp)) == "too_many_pixels"


def test_what_the_header_says_is_what_is_decoded() -> None:
    second = chunk(b"IHDR", struct.pack(">IIBBBBB", 9_000, 9_000, 8, 2, 0, 0, 0))
    assert refused(png(10, 10, second)) == "broken"


def test_packed_text_does_not_unfold_without_end() -> None:
    bomb = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(64 << 20), 9))
    assert refused(png(10, 10, bomb)) == "broken"


def test_a_jpeg_of_countless_scans_is_refused() -> None:
    file = io.BytesIO()
    Image.fromarray(smooth()).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    last = data.rindex(b"\xff\xda")
    assert refused(data[:last] + data[last:-2] * MAX_SCANS + b"\xff\xd9") == "broken"


@pytest.mark.parametrize("form", FORMS)
def test_cut_and_foreign_files_are_refused(form: Form) -> None:
    data = encode_picture(smooth(64, 64), form)
    assert refused(data[: len(data) // 2]) == "broken"
    assert refused(data[:12]) == "not_picture"


@pytest.mark.parametrize("data", [b"", b"GIF89a" + bytes(50), b"%PDF-1.4", b"<svg/>", bytes(100)])
def test_other_files_are_no_pictures(data: bytes) -> None:
    assert refused(data) == "not_picture"
    with pytest.raises(PictureError):
        read_parameters(data)


@settings(max_examples=60)
@given(st.sampled_from(FORMS), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255))))
def test_damaged_files_are_read_or_refused(form: Form, changes: list[tuple[int, int]]) -> None:
    data = bytearray(encode_picture(smooth(), form, parameters="abc"))
    for at, value in changes:
        data[at % len(data)] = value
    try:
        assert decode_picture(bytes(data), max_pixels=MANY).size <= 4 * MANY
        read_parameters(bytes(data))
    except PictureError:
        pass
