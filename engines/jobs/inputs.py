"""Files that go into a job, however they come: checked, and in the form that jobs keep.

A source is the bytes of a file, a file object, a ``data:`` URL (RFC 2397) or an http(s) URL. What
comes of a picture is a PNG made anew from its pixels, upright and with nothing else in it. All
decoding is in threads, a few at once; every bound is a key of the deployment, which the message
names.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias, TypeVar

import numpy as np

from ...codecs.clips import ClipError, ClipFacts, measure_clip, read_first_frame
from ...codecs.pictures import PictureError, Pixels, decode_picture, encode_picture
from .addresses import FetchRefused
from .fetching import Fetcher
from .input_limits import InputLimits

T = TypeVar("T")

Source: TypeAlias = bytes | str | BinaryIO

PICTURES = ("image/",)
VIDEOS = ("video/",)
_UNKNOWN = ("", "application/octet-stream")
_DATA_URL = re.compile(r"data:([^;,\s]{0,100})((?:;[^;,\s]{0,100}){0,5}),", re.IGNORECASE)


class InputRefused(Exception):
    """A file is not taken; the message is fit for a client."""

    def __init__(self, code: str, message: str, param: str) -> None:
        super().__init__(message)
        self.code = code
        """``input_too_large``, ``input_invalid``, ``not_picture``, ``not_video``, ``broken``,
        ``too_many_pixels``, ``too_many_frames``, or one of :class:`.addresses.FetchRefused`."""

        self.message = message
        self.param = param
        """The field of the request that it came in."""


@dataclass(frozen=True, slots=True)
class PictureIn:
    """A picture that was checked."""

    png: bytes
    width: int
    height: int
    alpha: bool
    """Whether some of it may be transparent."""


@dataclass(frozen=True, slots=True)
class VideoIn:
    """A video all of whose frames were decoded once; they are as in ``facts``."""

    data: bytes
    """The file as it came."""

    facts: ClipFacts


class InputReader:
    """Takes in files within the limits of a deployment; for one event loop."""

    def __init__(self, limits: InputLimits, fetcher: Fetcher) -> None:
        self._limits = limits
        self._fetcher = fetcher
        self._places = asyncio.Semaphore(limits.concurrency)

    async def picture(self, source: Source, param: str) -> PictureIn:
        """Take a picture: PNG, JPEG or WebP. ``param`` names its field in messages.

        Raises:
            InputRefused: it can't be had, is no picture, or is larger than allowed.
        """
        data = await self._bytes(source, param, "picture_bytes", PICTURES)
        return await self._decoded(param, lambda: self._picture(data))

    async def mask(self, source: Source, param: str) -> PictureIn:
        """Take a mask: what is to be made anew is white in what is returned, the rest black.

        A file with transparency is made anew where it is transparent, as the images API has it;
        any other where it is white.

        Raises:
            InputRefused: as :meth:`picture`.
        """
        data = await self._bytes(source, param, "picture_bytes", PICTURES)
        return await self._decoded(param, lambda: self._mask(data))

    async def video(self, source: Source, param: str) -> VideoIn:
        """Take a video, and decode it once to see that all of it can be used.

        Raises:
            InputRefused: it can't be had, is no video, or is larger than allowed.
        """
        data = await self._bytes(source, param, "video_bytes", VIDEOS)
        return await self._decoded(param, lambda: VideoIn(data, self._measured(data)))

    async def first_frame(self, source: Source, param: str) -> PictureIn:
        """Take the first picture of a video.

        Raises:
            InputRefused: as :meth:`video`.
        """
        data = await self._bytes(source, param, "video_bytes", VIDEOS)
        return await self._decoded(param, lambda: self._first(data))

    def _picture(self, data: bytes) -> PictureIn:
        return _as_png(decode_picture(data, max_pixels=self._limits.picture_pixels))

    def _mask(self, data: bytes) -> PictureIn:
        pixels = decode_picture(data, max_pixels=self._limits.picture_pixels)
        if pixels.shape[2] == 4 and pixels[:, :, 3].min() < 255:
            anew = 255 - pixels[:, :, 3]
        else:
            anew = pixels[:, :, :3].max(axis=2)
        return _as_png(np.repeat(anew[:, :, None], 3, axis=2))

    def _measured(self, data: bytes) -> ClipFacts:
        limits = self._limits
        return measure_clip(data, max_pixels=limits.video_pixels, max_frames=limits.video_frames)

    def _first(self, data: bytes) -> PictureIn:
        return _as_png(read_first_frame(data, max_pixels=self._limits.video_pixels))

    async def _decoded(self, param: str, work: Callable[[], T]) -> T:
        try:
            return await self._placed(work)
        except PictureError as error:
            key = self._limits.key("picture_pixels") if "pixels" in error.code else ""
            raise _refused(error.code, error.message, param, key) from None
        except ClipError as error:
            keys = {"too_many_pixels": "video_pixels", "too_many_frames": "video_frames"}
            key = self._limits.key(keys[error.code]) if error.code in keys else ""
            raise _refused(error.code, error.message, param, key) from None

    async def _placed(self, work: Callable[[], T]) -> T:
        await self._places.acquire()
        done = asyncio.get_running_loop().run_in_executor(None, work)

        def free(done: asyncio.Future[T]) -> None:
            self._places.release()
            # Seen, though nobody may be there any more to be told.
            _ = done.cancelled() or done.exception()

        # A client that leaves stops no thread, so its place is kept until the thread is done.
        done.add_done_callback(free)
        return await asyncio.shield(done)

    async def _bytes(self, source: Source, param: str, limit: str, types: tuple[str, ...]) -> bytes:
        most: int = getattr(self._limits, limit)
        key = self._limits.key(limit)
        if isinstance(source, str):
            if source[:5].lower() == "data:":
                # Decoding 100 MB takes a quarter of a second.
                return await asyncio.to_thread(_data_url, source, most, key, types, param)
            return await self._fetched(source, most, key, types, param)
        if isinstance(source, bytes):
            data = source
        else:
            data = await asyncio.to_thread(_read, source, most + 1)
        if len(data) > most:
            raise _refused("input_too_large", f"Expected at most {most} bytes.", param, key)
        return data

    async def _fetched(
        self, url: str, most: int, key: str, types: tuple[str, ...], param: str
    ) -> bytes:
        if not url.lower().startswith(("http://", "https://")):
            message = "Expected a file, a data: URL or an http(s) URL."
            raise _refused("input_invalid", message, param)
        try:
            found = await self._fetcher.get(url, max_bytes=most, limit=key, types=types)
        except FetchRefused as error:
            raise _refused(error.code, error.message, param) from None
        return found.data


def _read(file: BinaryIO, most: int) -> bytes:
    file.seek(0)
    return file.read(most)


def _data_url(url: str, most: int, key: str, types: tuple[str, ...], param: str) -> bytes:
    head = _DATA_URL.match(url)
    if head is None or not head[2].lower().endswith(";base64"):
        raise _refused("input_invalid", "Expected a data: URL with ;base64.", param)
    kind = head[1].lower()
    if kind not in _UNKNOWN and not kind.startswith(types):
        message = f"The data: URL is of another type than {' or '.join(types)}."
        raise _refused("input_invalid", message, param)
    if (len(url) - head.end()) * 3 // 4 > most + 2:
        raise _refused("input_too_large", f"Expected at most {most} bytes.", param, key)
    try:
        data = base64.b64decode(url[head.end() :].encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise _refused("input_invalid", "The data: URL is no valid base64.", param) from None
    if len(data) > most:
        raise _refused("input_too_large", f"Expected at most {most} bytes.", param, key)
    return data


def _refused(code: str, message: str, param: str, key: str = "") -> InputRefused:
    return InputRefused(code, f"{param}: {message}" + (f" ({key})" if key else ""), param)


def _as_png(pixels: Pixels) -> PictureIn:
    height, width, channels = pixels.shape
    return PictureIn(encode_picture(pixels, "png"), width, height, channels == 4)
