"""Files that come in, in every way that they may, and what is not taken."""

from __future__ import annotations

import asyncio
import base64
import io
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from tests.support.web_site import Site, answer, site

from antiphon.codecs.movies import encode_movie
from antiphon.codecs.pictures import Pixels, decode_picture, encode_picture, read_parameters
from antiphon.engines.jobs.fetching import Fetcher
from antiphon.engines.jobs.input_limits import FetchConfig, InputLimits
from antiphon.engines.jobs.inputs import InputReader, InputRefused, Source

SMALL = InputLimits(
    picture_bytes=5000, picture_pixels=400, video_bytes=20_000, video_pixels=1024, video_frames=4
)


def picture(width: int = 20, height: int = 10, channels: int = 3) -> Pixels:
    pixels = np.zeros((height, width, channels), np.uint8)
    pixels[:, : width // 2] = 255
    return pixels


PNG = encode_picture(picture(), parameters="secret")
FILM = encode_movie([np.full((32, 32, 3), 40 * at, np.uint8) for at in range(4)], 8)


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def read(work: Callable[[InputReader, Site], Awaitable[Any]], limits: InputLimits = SMALL) -> Any:
    async def run() -> Any:
        async with site() as here:
            config = FetchConfig(hosts=("example.com",))
            fetcher = Fetcher(config, resolve=here.resolve, dial=here.dial)
            return await work(InputReader(limits, fetcher), here)

    return asyncio.run(run())


def refused(source: Source, kind: str = "picture", page: bytes = b"") -> InputRefused:
    async def work(reader: InputReader, here: Site) -> InputRefused:
        here.pages["/"] = page
        with pytest.raises(InputRefused) as caught:
            await getattr(reader, kind)(source, "image[1]")
        assert caught.value.param == "image[1]"
        assert caught.value.message.startswith("image[1]: ")
        assert "secret" not in caught.value.message
        return caught.value

    refusal: InputRefused = read(work)
    return refusal


@pytest.mark.parametrize(
    "source",
    [
        PNG,
        io.BytesIO(PNG),
        data_url(PNG),
        data_url(PNG).replace("image/png;", "IMAGE/png;charset=x;").replace("base64", "BASE64"),
        data_url(PNG, ""),
        "http://example.com/",
    ],
    ids=["bytes", "file", "data", "data in capitals", "data of no type", "url"],
)
def test_a_picture_comes_in_every_way(source: Source) -> None:
    async def work(reader: InputReader, here: Site) -> None:
        here.pages["/"] = answer(PNG)
        found = await reader.picture(source, "image")
        assert (found.width, found.height, found.alpha) == (20, 10, False)
        assert (decode_picture(found.png, max_pixels=400) == picture()).all()
        assert read_parameters(found.png) is None

    read(work)


@pytest.mark.parametrize("form", ["jpeg", "webp"])
def test_other_forms_become_png_and_alpha_stays(form: Any) -> None:
    pixels = picture(channels=4)
    found = read(lambda reader, _: reader.picture(encode_picture(pixels, form), "image"))
    assert found.png.startswith(b"\x89PNG")
    assert found.alpha is (form == "webp")


@pytest.mark.parametrize("made", ["alpha", "white", "white, opaque"])
def test_a_mask_is_white_where_it_is_made_anew(made: str) -> None:
    if made == "alpha":
        pixels = np.full((10, 20, 4), 90, np.uint8)
        pixels[:, :10, 3], pixels[:, 10:, 3] = 0, 255
    else:
        pixels = picture(channels=3 if made == "white" else 4)
        pixels[:, :, 3:] = 255
    found = read(lambda reader, _: reader.mask(encode_picture(pixels), "mask"))
    assert (decode_picture(found.png, max_pixels=400) == picture()).all()


@pytest.mark.parametrize("source", [FILM, data_url(FILM, "video/mp4"), "https://example.com/"])
def test_a_video_is_decoded_once_and_kept(source: Source) -> None:
    async def work(reader: InputReader, here: Site) -> None:
        here.pages["/"] = answer(FILM, kind="video/mp4")
        if isinstance(source, str) and source.startswith("https"):
            source_here: Source = "http://example.com/"
        else:
            source_here = source
        found = await reader.video(source_here, "video")
        assert found.data == FILM
        facts = found.facts
        assert (facts.width, facts.height, facts.frames, facts.fps) == (32, 32, 4, 8)
        first = await reader.first_frame(source_here, "video")
        assert decode_picture(first.png, max_pixels=1024).max() < 8

    read(work)


def large_film(count: int, side: int) -> bytes:
    return encode_movie([np.zeros((side, side, 3), np.uint8)] * count, 8)


@pytest.mark.parametrize(
    ("source", "kind", "code", "key"),
    [
        (bytes(5001), "picture", "input_too_large", "picture_bytes"),
        (io.BytesIO(bytes(1 << 20)), "picture", "input_too_large", "picture_bytes"),
        (data_url(bytes(5001)), "picture", "input_too_large", "picture_bytes"),
        (data_url(bytes(5001)), "mask", "input_too_large", "picture_bytes"),
        (encode_picture(picture(21, 20)), "picture", "too_many_pixels", "picture_pixels"),
        (encode_picture(picture(21, 20)), "mask", "too_many_pixels", "picture_pixels"),
        (bytes(20_001), "video", "input_too_large", "video_bytes"),
        (large_film(5, 32), "video", "too_many_frames", "video_frames"),
        (large_film(1, 34), "video", "too_many_pixels", "video_pixels"),
        (large_film(1, 34), "first_frame", "too_many_pixels", "video_pixels"),
    ],
)
def test_each_limit_is_named(source: Source, kind: str, code: str, key: str) -> None:
    refusal = refused(source, kind)
    assert refusal.code == code
    assert f"media.inputs.{key}" in refusal.message


@pytest.mark.parametrize(
    ("source", "kind", "code"),
    [
        (b"secret", "picture", "not_picture"),
        (PNG[:60], "picture", "broken"),
        (b"secret" * 200, "video", "not_video"),
        (PNG, "video", "not_video"),
        ("secret", "picture", "input_invalid"),
        ("file:///secret", "picture", "input_invalid"),
        ("data:image/png,secret", "picture", "input_invalid"),
        ("data:image/png;base64", "picture", "input_invalid"),
        ("data:image/png;base64,secret!", "picture", "input_invalid"),
        ("data:image/png;base64,sécret", "picture", "input_invalid"),
        (data_url(PNG, "text/secret"), "picture", "input_invalid"),
        (data_url(PNG), "video", "input_invalid"),
        ("http://secret.test/", "picture", "url_not_allowed"),
        ("http://u:secret@example.com/", "picture", "url_invalid"),
    ],
)
def test_what_is_no_input_is_refused(source: Source, kind: str, code: str) -> None:
    assert refused(source, kind).code == code


def test_what_sites_send_is_checked_as_well() -> None:
    url = "http://example.com/"
    refusal = refused(url, page=answer(bytes(5001)))
    assert refusal.code == "url_too_large"
    assert "media.inputs.picture_bytes" in refusal.message
    assert refused(url, page=answer(b"<html>secret", kind="text/html")).code == "url_wrong_type"
    assert refused(url, page=answer(b"<html>secret")).code == "not_picture"
    bomb = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\0\xff\xff" * 2 + bytes(50)
    assert refused(url, page=answer(bomb)).code == "too_many_pixels"


def test_only_so_many_are_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    together = most = 0
    lock, both = threading.Lock(), threading.Barrier(2)

    def decode(data: bytes, *, max_pixels: int) -> Pixels:
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        both.wait(20)
        with lock:
            together -= 1
        return picture()

    monkeypatch.setattr("antiphon.engines.jobs.inputs.decode_picture", decode)

    async def work(reader: InputReader, here: Site) -> None:
        await asyncio.gather(*(reader.picture(PNG, "image") for _ in range(6)))

    read(work)
    assert most == 2


def test_a_client_that_leaves_keeps_its_place_while_it_is_worked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, gate = threading.Event(), threading.Event()
    calls: list[bytes] = []

    def decode(data: bytes, *, max_pixels: int) -> Pixels:
        calls.append(data)
        begun.set()
        assert gate.wait(20)
        return picture()

    monkeypatch.setattr("antiphon.engines.jobs.inputs.decode_picture", decode)

    async def work(reader: InputReader, here: Site) -> None:
        left = asyncio.create_task(reader.picture(PNG, "image"))
        assert await asyncio.to_thread(begun.wait, 20)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        later = asyncio.create_task(reader.picture(PNG, "image"))
        # Time enough to begin, if it could.
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(calls) == 1
        gate.set()
        await later
        assert len(calls) == 2

    read(work, InputLimits(concurrency=1))
