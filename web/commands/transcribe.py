"""``antiphon transcribe``: what is said in recordings, written while they are read."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ...codecs.media import MediaError, MediaMissing
from ...engines.catalog import default_cache_root
from ...engines.deployment import Deployment, WhisperConfig, models_named
from ...engines.pipeline import TranscribeRequest
from ...engines.stage import StageFailure
from ..demo_server import Address
from ..transcripts import Transcribed, as_body
from .embedded import EmbeddedEar, fetch_models, hearing_alone, running
from .errors import CommandError
from .output import STDOUT, Output, writing
from .remote import RemoteServer
from .running import api_key, run, server_address
from .status import Status

SUFFIXES = {".txt": "text", ".json": "json", ".srt": "srt", ".vtt": "vtt"}

JSON_FORMATS = ("json", "verbose_json")

ENDINGS = {"text": ".txt", "verbose_json": ".json"} | {
    form: f".{form}" for form in ("json", "srt", "vtt")
}
"""Of files in a folder."""

_HINTS = {
    "cannot_translate": "pass --model whisper-base",
    "unsupported_language": "leave out --language, or pass --model whisper-base",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for, checked."""

    files: tuple[Path, ...]
    outs: tuple[str, ...]
    """Where each goes."""

    form: str
    request: TranscribeRequest

    @property
    def shared(self) -> bool:
        """Whether several go to the same place, each under its name."""
        return len(self.files) > 1 and self.outs[0] == STDOUT


class Ear(Protocol):
    """Whoever understands speech."""

    def read(
        self, path: Path, request: TranscribeRequest, form: str, status: Status
    ) -> AsyncGenerator[str]:
        """Yield the transcript of a file: of text piece by piece as it is read.

        Raises:
            CommandError: it can't be read.
        """
        ...


def run_transcribe(args: argparse.Namespace) -> int:
    """Do what the arguments ask for; return the exit status.

    Raises:
        CommandError: it can't be done; what was incomplete is gone.
    """
    model: str | None = args.model
    address = None
    if model is None:
        address = server_address(args.url, os.environ)
    elif args.url:
        raise CommandError("--model: a server has its own; leave out --url", misused=True)
    key, order = api_key(args.key, os.environ), _order(args)
    status = Status()
    if address is not None:
        return run(_run(order, _server(address, key), status))
    deployment = hearing_alone(model or WhisperConfig().model)
    cache_root = default_cache_root(os.environ)
    fetch_models(models_named(deployment), cache_root, status)
    return run(_run(order, _here(deployment, cache_root, status), status))


def _order(args: argparse.Namespace) -> Order:
    files, out = tuple(args.files), args.out or STDOUT
    form = _form(out, args.format, folder=len(files) > 1)
    if args.words and form != "verbose_json":
        raise CommandError("--words: only with --format verbose_json", misused=True)
    if args.words and args.translate:
        raise CommandError("--words: the words of a translation have no times", misused=True)
    if args.language and args.translate:
        raise CommandError("--language: a translation finds it by itself", misused=True)
    request = TranscribeRequest(
        request_id="transcribe",
        language=args.language or None,
        translate=args.translate,
        words=args.words,
    )
    return Order(files=files, outs=_outs(files, out, form), form=form, request=request)


def _form(out: str, asked: str | None, *, folder: bool) -> str:
    if asked is not None or out == STDOUT or folder:
        return asked or "text"
    form = SUFFIXES.get(Path(out).suffix.lower())
    if form is None:
        known = ", ".join(SUFFIXES)
        raise CommandError(
            f"-o {out}: the suffix names no format; use one of {known}, or --format", misused=True
        )
    return form


def _outs(files: tuple[Path, ...], out: str, form: str) -> tuple[str, ...]:
    if out == STDOUT or len(files) == 1:
        return (out,) * len(files)
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"-o {out}: expected a folder, for several files", misused=True)
    names = [f"{file.stem}{ENDINGS[form]}" for file in files]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CommandError(f"-o {out}: two files would be {twice}; do one at a time", misused=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot create {out}: {error.strerror}") from None
    return tuple(str(folder / name) for name in names)


async def _run(order: Order, opened: AbstractAsyncContextManager[Ear], status: Status) -> int:
    failed = False
    try:
        async with opened as ear:
            for number, file in enumerate(order.files):
                try:
                    await _transcribe(ear, order, number, status)
                except CommandError as error:
                    if len(order.files) == 1:
                        raise
                    failed = True
                    named = "" if str(file) in str(error) else f"{file}: "
                    status.line(f"antiphon: {named}{error}")
    finally:
        status.clear()
    return 1 if failed else 0


@asynccontextmanager
async def _server(address: Address, key: str | None) -> AsyncGenerator[Ear]:
    yield _ServersEar(RemoteServer(address, key))


@asynccontextmanager
async def _here(deployment: Deployment, cache_root: Path, status: Status) -> AsyncGenerator[Ear]:
    async with running(deployment, cache_root, status) as pipeline:
        yield _OwnEar(EmbeddedEar(pipeline))


async def _transcribe(ear: Ear, order: Order, number: int, status: Status) -> None:
    file = order.files[number]
    with writing(order.outs[number]) as output:
        page = _Page(order, number, output, status)
        async with aclosing(ear.read(file, order.request, order.form, status)) as pieces:
            async for piece in pieces:
                page.add(piece)
        page.finish()


class _Page:
    """A transcript on its way to where it goes."""

    def __init__(self, order: Order, number: int, output: Output, status: Status) -> None:
        self._output = output
        self._status = status
        self._form = order.form
        self._file = order.files[number]
        self._shared = order.shared
        self._first = number == 0
        self._begun = False
        self._printed = order.outs[number] == STDOUT
        # On a terminal each piece has a line: progress is drawn below it.
        self._lines = order.form == "text" and self._printed and sys.stdout.isatty()

    def add(self, piece: str) -> None:
        """Write more of it."""
        self._begin()
        if self._lines:
            piece = piece.strip() + "\n"
        elif self._form in JSON_FORMATS and self._shared:
            told = msgspec.json.decode(piece, type=dict[str, Any])
            piece = msgspec.json.encode({"file": str(self._file), **told}).decode()
        self._output.write(piece.encode())

    def finish(self) -> None:
        """Write the end of it."""
        self._begin()
        if (self._form == "text" and not self._lines) or self._form in JSON_FORMATS:
            self._output.write(b"\n")

    def _begin(self) -> None:
        if self._printed:
            self._status.clear()
        if not self._begun and self._shared and self._form not in JSON_FORMATS:
            gap = "" if self._first else "\n"
            self._output.write(f"{gap}{self._file}:\n".encode())
        self._begun = True


class _OwnEar:
    """The recognizer of this process."""

    def __init__(self, ear: EmbeddedEar) -> None:
        self._ear = ear

    async def read(
        self, path: Path, request: TranscribeRequest, form: str, status: Status
    ) -> AsyncGenerator[str]:
        started = time.monotonic()

        def on_read(position_s: float, duration_s: float | None) -> None:
            of = "" if duration_s is None else f" of {duration_s:.0f}"
            speed = position_s / max(time.monotonic() - started, 1e-3)
            status.show(f"{path.name}: {position_s:.0f}{of} s, {speed:.1f} times real time")

        done = Transcribed("translate" if request.translate else "transcribe")
        try:
            async with aclosing(self._ear.segments(path, request, done, on_read)) as segments:
                async for segment in segments:
                    delta = done.add(segment)
                    if form == "text":
                        yield delta
        except MediaError as error:
            raise CommandError(f"{path}: {error.message}") from None
        except MediaMissing:
            raise CommandError(
                "reading files of sound needs PyAV: run `pip install 'antiphon[opus]'`"
            ) from None
        except StageFailure as failure:
            raise _failed(failure) from None
        if form != "text":
            # Of hours it takes a while.
            body, _ = await asyncio.to_thread(
                as_body, done, form, words=request.words, segments=True, logprobs=False
            )
            yield body.decode()


class _ServersEar:
    """A server."""

    def __init__(self, server: RemoteServer) -> None:
        self._server = server

    async def read(
        self, path: Path, request: TranscribeRequest, form: str, status: Status
    ) -> AsyncGenerator[str]:
        started = time.monotonic()

        def on_sent(share: float) -> None:
            if share < 1:
                status.show(f"{path.name}: {share:.0%} sent")
            else:
                status.step(f"{path.name}: sent, being read")

        if form != "text":
            body = await self._server.transcribe(path, request, form, on_sent)
            yield body.decode(errors="replace")
            return
        words = 0
        async with aclosing(self._server.deltas(path, request, on_sent)) as deltas:
            async for delta in deltas:
                words += len(delta.split())
                yield delta
                status.show(f"{path.name}: {words} words, {time.monotonic() - started:.0f} s")


def _failed(failure: StageFailure) -> CommandError:
    hint = _HINTS.get(failure.error.code)
    message = failure.error.message + (f"; {hint}" if hint else "")
    return CommandError(message, misused=hint is not None)
