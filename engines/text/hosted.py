"""A process that a language model runs in, as the server sees it.

vLLM is imported in that process alone: the server starts sooner, needs less memory, and none
of vLLM's work is done on its event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, cast

from ..chunks import StageError
from ..stage import StageFailure
from .host_link import (
    Abort,
    Calls,
    Dropped,
    FromHost,
    Generate,
    LinkClosed,
    Load,
    NotLoaded,
    Piece,
    Question,
    Reply,
    ToHost,
    Unframer,
    frame,
)

SHUTDOWN_SECONDS = 1.0
"""Time the engine's process has to end by itself; it has nothing to save."""

ANSWER_SECONDS = 30.0
"""Bound on an answer of the engine's process to a question."""


class EngineDied(Exception):
    """The engine's process is gone; nothing can be asked of it any more."""


class Host:
    """The process, and the sockets to it."""

    def __init__(
        self, process: subprocess.Popen[bytes], stream: socket.socket, calls: socket.socket
    ) -> None:
        self.process = process
        self.stream = stream
        self._socket = calls
        self._calls = Calls(calls, Reply)
        self._asking = threading.Lock()

    @classmethod
    def start(cls, module: str, work: Path, environment: Mapping[str, str] | None = None) -> Host:
        """Start a process that has loaded nothing yet: a module that is run.

        ``work``: a folder for what vLLM keeps. ``environment``: more variables of it.
        """
        (stream, its_stream), (calls, its_calls) = socket.socketpair(), socket.socketpair()
        numbers = [its_stream.fileno(), its_calls.fileno()]
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, numbers)],
                env={**os.environ, **_settings(work), **(environment or {})},
                stdin=subprocess.DEVNULL,
                pass_fds=numbers,
            )
        finally:
            its_stream.close()
            its_calls.close()
        return cls(process, stream, calls)

    def load(self, question: Load) -> None:
        """Have the model loaded; blocks for 10 s and more. Answers are quick from then on.

        Raises:
            StageFailure: it could not be; the process is gone then.
        """
        try:
            told = self.ask(question)
        except EngineDied:
            self.end()
            error = StageError("model_unloadable", "the language model's process did not start")
            raise StageFailure(error) from None
        if isinstance(told, NotLoaded):
            self.end()
            raise StageFailure(StageError(told.code, told.message))
        self._socket.settimeout(ANSWER_SECONDS)

    def ask(self, question: Question) -> Any:
        """Return the answer to a question; blocks.

        Raises:
            EngineDied: the process is gone, or does not answer.
        """
        with self._asking:
            try:
                self._calls.send(question)
                return self._calls.receive()
            except LinkClosed:
                raise EngineDied from None

    def end(self) -> None:
        """End the process, and return when it is gone."""
        self.process.terminate()
        try:
            self.process.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stream.close()
        self._calls.close()


def _settings(work: Path) -> dict[str, str]:
    return {
        "HF_HUB_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "VLLM_CACHE_ROOT": str(work),
        "VLLM_CONFIGURE_LOGGING": "1",
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "ERROR"),
        "VLLM_NO_USAGE_STATS": "1",
    }


class _Stream(asyncio.Protocol):
    """The server's end of the socket that requests go over."""

    def __init__(self) -> None:
        self.gone = False
        self.queues: dict[str, asyncio.Queue[Piece | None]] = {}
        """Of each request that somebody waits for; ``None`` says that the process is gone."""

        self.unfinished: set[str] = set()
        """What the engine still works on, as far as it has told."""

        self._unframer = Unframer(FromHost)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self.unfinished.clear()
        for queue in self.queues.values():
            queue.put_nowait(None)

    def data_received(self, data: bytes) -> None:
        for message in self._unframer.feed(data):
            if isinstance(message, Dropped):
                self.unfinished.discard(message.request_id)
                continue
            for piece in message.pieces:
                if piece.finish is not None:
                    self.unfinished.discard(piece.request_id)
                if (queue := self.queues.get(piece.request_id)) is not None:
                    queue.put_nowait(piece)

    def send(self, message: ToHost) -> None:
        if self._transport is not None and not self.gone:
            self._transport.write(frame(message))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Hosted:
    """An engine in a process of its own that has loaded its model."""

    def __init__(self, host: Host) -> None:
        self._host: Host | None = host
        self._stream = _Stream()
        self._joined = False
        self._joining = asyncio.Lock()
        self._sentinel, ends = os.pipe()
        # Waits for the process, so that its end is noticed and leaves no zombie behind.
        threading.Thread(target=_watch, args=(host.process, ends), daemon=True).start()

    @property
    def unfinished(self) -> int:
        """Requests that are being generated or wait, as far as the engine has told."""
        return len(self._stream.unfinished)

    @property
    def sentinel(self) -> int:
        """A file descriptor that becomes readable when the engine's process is gone."""
        return self._sentinel

    async def pieces(self, asked: Generate) -> AsyncGenerator[Piece, None]:
        """Generate until the model stops; closing the generator aborts.

        Pieces that nobody takes wait here; the request's own bound of tokens is theirs.

        Raises:
            EngineDied: the engine's process is gone.
        """
        stream = await self._join()
        if stream.gone:
            raise EngineDied
        queue = stream.queues[asked.request_id] = asyncio.Queue[Piece | None]()
        stream.unfinished.add(asked.request_id)
        stream.send(asked)
        done = False
        try:
            while not done:
                piece = await queue.get()
                if piece is None:
                    raise EngineDied
                done = piece.finish is not None
                yield piece
        finally:
            del stream.queues[asked.request_id]
            if not done:
                stream.send(Abort(asked.request_id))

    async def abort(self, request_id: str) -> None:
        """Stop generating; returns when the engine has been told."""
        # Closing the generator did it; said again for one that never began to run.
        if request_id in self._stream.queues:
            self._stream.send(Abort(request_id))

    async def close(self) -> None:
        """End the process and return when it is gone. Idempotent."""
        host, self._host = self._host, None
        if host is not None:
            self._stream.close()
            await asyncio.to_thread(host.end)
            with contextlib.suppress(OSError):
                os.close(self._sentinel)

    def ask(self, question: Question) -> Any:
        """Return the answer to a question; blocks.

        Raises:
            EngineDied: the process is gone, or does not answer.
        """
        host = self._host
        if host is None:
            raise EngineDied
        return host.ask(question)

    async def _join(self) -> _Stream:
        """The stream, handed to the running loop the first time."""
        async with self._joining:
            if not self._joined and self._host is not None:
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: self._stream, sock=self._host.stream)
                self._joined = True
        return self._stream


def _watch(process: subprocess.Popen[bytes], ends: int) -> None:
    process.wait()
    os.close(ends)
