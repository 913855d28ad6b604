"""Forms with a file in them, bounded on their way in, and the audio of that file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable
from typing import BinaryIO

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from ..codecs.media import RATE, AudioSource, open_audio
from ..codecs.pcm import SAMPLE_BYTES
from ..engines.chunks import PcmChunk
from ..engines.pipeline import Transcription
from .transcripts import Transcribed

FIELDS = 256
"""Most fields of a form beside its file."""

FIELD_BYTES = 1024 * 1024
"""Most of one field, and beside the file of all together."""

IDLE_SECONDS = 60.0
"""For so long a client may send nothing of its body."""


class BadForm(Exception):
    """A form that can't be used, with what its sender is told."""

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str = "invalid_value",
        status: int = 400,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


class Upload:
    """A form, and the file in it as audio; files lie in memory or, when large, on disk.

    Nothing of it blocks the event loop, and :meth:`close` may come at any time.
    """

    def __init__(self, form: FormData) -> None:
        self.fields: list[tuple[str, str]] = []
        """Names and values in order, ``[]`` at the end of names left out."""

        self.has_file = False
        self._files: list[BinaryIO] = []
        self._source: AudioSource | None = None
        self._closed = False
        self._lock = threading.Lock()
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                self._files.append(value.file)
                self.has_file = self.has_file or name == "file"
            else:
                self.fields.append((name.removesuffix("[]"), value))

    async def open(self) -> None:
        """Begin to decode the file.

        Raises:
            MediaError: there is no audio in it.
            MediaMissing: what decodes is not installed.
        """
        await asyncio.to_thread(self._open)

    async def read(self) -> bytes:
        """The next piece of audio, s16le mono at :data:`~..codecs.media.RATE`; empty at the end.

        Raises:
            MediaError: the file is broken, or too long.
        """
        return await asyncio.to_thread(self._read)

    async def close(self) -> None:
        """Let go of decoder and file, after what a thread is still doing with them."""
        await asyncio.shield(asyncio.to_thread(self._close))

    def _open(self) -> None:
        with self._lock:
            if not self._closed:
                self._source = open_audio(self._files[0])

    def _read(self) -> bytes:
        with self._lock:
            return self._source.read() if self._source is not None else b""

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            source, self._source = self._source, None
            if source is not None:
                source.close()
            for file in self._files:
                file.close()


async def read_upload(request: Request, limit: int) -> Upload:
    """Read a form with at most one file of at most ``limit`` bytes.

    Raises:
        BadForm: it is none, too large, or too slow.
        ClientDisconnect: the client is gone.
    """
    return Upload(await read_form(request, limit))


async def read_form(
    request: Request, limit: int, *, file: str = "file", files: int = 1, beside: int = FIELD_BYTES
) -> FormData:
    """Read a form whose largest ``file`` has at most ``limit`` bytes; whoever calls closes it.

    ``files``: how many it may have. ``beside``: most bytes of all that is not that file.

    Raises:
        BadForm: it is none, too large, or too slow.
        ClientDisconnect: the client is gone.
    """
    kind = body_type(request)
    if kind != "multipart/form-data":
        raise BadForm(f"Expected a multipart/form-data body, got {kind[:60] or 'none'}.")
    bound = limit + beside
    length = request.headers.get("content-length", "")
    # By the length of the number first: Python refuses to read very long ones.
    if length.isdecimal() and (len(length) > 18 or int(length) > bound):
        raise too_large(file, limit)
    parser = MultiPartParser(
        request.headers,
        _bounded(request, bound, too_large(file, limit)),
        max_files=files,
        max_fields=FIELDS,
        max_part_size=FIELD_BYTES,
    )
    try:
        return await parser.parse()
    except MultiPartException as error:
        raise BadForm(error.message, code="invalid_form") from None


def body_type(request: Request) -> str:
    """The type of a request's body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _bounded(request: Request, bound: int, beyond: BadForm) -> AsyncGenerator[bytes, None]:
    size = 0
    pieces = request.stream()
    while True:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                piece = await anext(pieces, None)
        except TimeoutError:
            message = f"Nothing of the body came for {IDLE_SECONDS:g} s."
            raise BadForm(message, code="request_timeout", status=408) from None
        if piece is None:
            return
        size += len(piece)
        if size > bound:
            raise beyond
        yield piece


def too_large(file: str, limit: int) -> BadForm:
    """What is told of a file that has more bytes than it may."""
    message = f"{file}: expected at most {limit} bytes."
    return BadForm(message, param=file, code="request_too_large", status=413)


def first(fields: Iterable[tuple[str, str]], name: str) -> str:
    """The first value of that name that is not empty, else an empty one."""
    return next((value for key, value in fields if key == name and value), "")


def every(fields: Iterable[tuple[str, str]], name: str) -> list[str]:
    """All values of that name that are not empty."""
    return [value for key, value in fields if key == name and value]


async def feed(upload: Upload, stream: Transcription, done: Transcribed) -> None:
    """Hand the audio on; the recognizer, when it is behind, makes it wait."""
    try:
        while piece := await upload.read():
            done.seconds += len(piece) / SAMPLE_BYTES / RATE
            await stream.send(PcmChunk(piece, RATE))
        await stream.end()
    except BaseException:
        stream.cancel()
        raise
