"""``WS /v1/realtime/video``: a film that is sent while it is made, and follows new prompts.

Each chunk is a job of its own, handed in when the one before it has ended and taken away once it
was read. With a model that takes a picture, a chunk goes on from the last frame of the one before
it; with another, it is a new clip with the next seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from ...engines.jobs.desk import JobRefused
from ...engines.jobs.inputs import InputRefused
from ...engines.stage import StageFailure
from ...realtime.connection import Disconnected, Socket
from ...realtime.refusals import Refused
from ...sessions.errors import ErrorInfo, Refusal
from ..access import Refusal as Denied
from ..errors import as_sentence, refusal
from ..realtime import SUBPROTOCOL
from ..socket import StarletteSocket
from . import live_state as lv
from . import live_wire as wire
from .live_chunks import ChunkFailed, Film, begin_film
from .service import MediaService

logger = logging.getLogger(__name__)

PATH = "/v1/realtime/video"

FILMS = 16
"""Connections at once; more are refused."""

START_SECONDS = 10.0
"""For the first message."""

STALLED_SECONDS = 20.0
"""A client that takes nothing of a message for so long, for each MiB of it, is given up."""

CLOSE_SECONDS = 5.0
"""For the goodbye."""

MIB = 1024 * 1024

QUEUED = 16
"""Messages that wait to be sent; above it the client is not read."""


class LiveVideoRoute:
    """Opens films. For one event loop."""

    def __init__(self, service: MediaService, *, stalled_seconds: float = STALLED_SECONDS) -> None:
        self._service = service
        self._stalled_seconds = stalled_seconds
        self._open = 0

    def routes(self) -> list[WebSocketRoute]:
        """The one that there is."""
        return [WebSocketRoute(PATH, self.serve)]

    async def serve(self, socket: WebSocket) -> None:
        """Serve a film, or refuse the upgrade with an HTTP answer that says why."""
        offered: list[str] = socket.scope.get("subprotocols", [])
        try:
            self._service.admit_socket(socket)
        except Denied as denied:
            answer = refusal(denied.status, denied.code, denied.message)
            await socket.send_denial_response(answer)
            return
        if self._open >= FILMS:
            message = f"{FILMS} films are being made already; try again later."
            answer = refusal(503, "too_many_sessions", message, retry_after_s=5)
            await socket.send_denial_response(answer)
            return
        self._open += 1
        try:
            await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
            owner = self._service.owner(socket)
            line = StarletteSocket(socket)
            await _Connection(self._service, line, owner, self._stalled_seconds).run()
        finally:
            self._open -= 1


@dataclass(frozen=True, slots=True)
class _Frames:
    """What is sent with nothing between."""

    frames: Sequence[str | bytes]


class _Connection:
    """One client and its film: carries out what :class:`.live_state.LiveFilm` decides."""

    def __init__(
        self, service: MediaService, socket: Socket, owner: str, stalled_seconds: float
    ) -> None:
        self._service = service
        self._socket = socket
        self._owner = owner
        self._stalled_seconds = stalled_seconds
        self._id = f"film_{uuid.uuid4().hex}"
        self._core = lv.LiveFilm(self._id)
        self._film: Film | None = None
        self._made = b""
        """The chunk that the next :class:`.live_state.SendChunk` is about."""

        self._out: deque[_Frames] = deque()
        self._queued = asyncio.Event()
        self._written = asyncio.Event()
        self._making: asyncio.Task[None] | None = None
        self._closing: lv.Close | None = None
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Serve the client until it is gone or its film has ended. Leaves nothing behind."""
        writer = asyncio.create_task(self._write(), name=f"{self._id}-write")
        reader = asyncio.create_task(self._read(), name=f"{self._id}-read")
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({writer, reader, ended}, return_when=asyncio.FIRST_COMPLETED)
            if self._closing is not None:
                # Its last message says how it ended. A client that does not read ends this.
                await asyncio.wait({writer})
        finally:
            tasks: list[asyncio.Task[Any]] = [writer, reader, ended]
            tasks += [self._making] if self._making is not None else []
            for task in tasks:
                # Not again: that would keep a chunk from taking its job away.
                if not task.cancelling():
                    task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    logger.error("film %s failed", self._id, exc_info=result)
                    self._closing = lv.Close(lv.FAILED, "internal error")
            closing = self._closing or lv.Close(lv.DONE)
            with contextlib.suppress(Disconnected, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._socket.close(closing.code, closing.reason)

    # In.

    async def _read(self) -> None:
        limit = asyncio.get_running_loop().time() + START_SECONDS
        with contextlib.suppress(Disconnected):
            while self._film is None and not self._core.over:
                try:
                    async with asyncio.timeout_at(limit):
                        data = await self._socket.receive()
                except TimeoutError:
                    message = f"No session.start that can be followed in {START_SECONDS:.0f} s."
                    error = ErrorInfo("session_start_missing", message)
                    self._carry_out(self._core.refuse(error))
                    return
                await self._understand(data, wire.START_BYTES)
            while not self._core.over:
                await self._drained(QUEUED)
                await self._understand(await self._socket.receive(), wire.CONTROL_BYTES)

    async def _understand(self, data: str | bytes, most: int) -> None:
        try:
            wire.check_length(data, most)
            # A picture in it makes the first one long.
            slow = len(data) > wire.CONTROL_BYTES
            said = await asyncio.to_thread(wire.read, data) if slow else wire.read(data)
        except Refused as refused:
            if refused.error.code == wire.TOO_LARGE:
                self._carry_out(self._core.refuse(refused.error))
            else:
                self._handle(lv.Misspoken(refused.error))
            return
        if not isinstance(said, wire.Start):
            self._handle(said)
        elif self._film is not None:
            self._handle(lv.Started("", 0, 0, {}))
        else:
            await self._start(said)

    async def _start(self, start: wire.Start) -> None:
        try:
            chunks = wire.check_chunks(start)
            self._film = film = await begin_film(self._service, start, self._owner)
        except Refused as refused:
            self._carry_out(self._core.refuse(refused.error))
        except Refusal as refused:
            self._carry_out(self._core.refuse(refused.info(None)))
        except InputRefused as refused:
            error = ErrorInfo(refused.code, refused.message, refused.param)
            self._carry_out(self._core.refuse(error))
        else:
            said = {
                "config": {**film.config, "chunks": chunks},
                "format": "fmp4",
                "codecs": film.codec,
                "mime_type": f'video/mp4; codecs="{film.codec}"',
            }
            self._handle(lv.Started(start.prompt, chunks, film.prompt_chars, said))

    # The core.

    def _handle(self, event: lv.Event) -> None:
        self._carry_out(self._core.handle(event))

    def _carry_out(self, effects: Sequence[lv.Effect]) -> None:
        for effect in effects:
            match effect:
                case lv.Tell(body):
                    self._send(_encoded(body))
                case lv.SendChunk(body):
                    self._send(_encoded(body), self._made)
                    self._made = b""
                case lv.MakeChunk(index, prompt):
                    self._making = asyncio.create_task(
                        self._make(index, prompt), name=f"{self._id}-{index}"
                    )
                    self._making.add_done_callback(self._seen_off)
                case lv.StopMaking():
                    if self._making is not None:
                        self._making.cancel()
                case lv.Close():
                    self._closing = effect
                    self._queued.set()
                    self._ended.set()

    async def _make(self, index: int, prompt: str) -> None:
        film = self._film
        assert film is not None
        try:
            made = await film.chunk(index, prompt)
        except ChunkFailed as failed:
            self._handle(lv.ChunkFailed(failed.code, failed.message))
            return
        except (JobRefused, StageFailure) as refused:
            told = refused.error if isinstance(refused, StageFailure) else refused
            self._handle(lv.ChunkFailed(told.code, as_sentence(told.message)))
            return
        except Exception:
            logger.exception("a chunk of film %s failed", self._id)
            self._handle(lv.ChunkFailed("internal_error", "The server had an error."))
            return
        # One chunk at a time waits for a client that reads slowly.
        await self._drained(0)
        self._made = made.data
        self._handle(lv.ChunkMade(made.frames, len(made.data)))

    def _seen_off(self, making: asyncio.Task[None]) -> None:
        if not making.cancelled() and (error := making.exception()) is not None:
            logger.error("film %s failed", self._id, exc_info=error)
            self._closing = lv.Close(lv.FAILED, "internal error")
            self._queued.set()
            self._ended.set()

    # Out.

    def _send(self, *frames: str | bytes) -> None:
        self._out.append(_Frames(frames))
        self._queued.set()

    async def _drained(self, most: int) -> None:
        """Return once at most ``most`` messages wait to be sent."""
        while len(self._out) > most:
            self._written.clear()
            await self._written.wait()

    async def _write(self) -> None:
        """Send what is queued, and come to an end once all was that ever will be."""
        with contextlib.suppress(Disconnected):
            while True:
                while self._out:
                    for data in self._out[0].frames:
                        await self._pass(data)
                    self._out.popleft()
                    self._written.set()
                if self._closing is not None:
                    return
                self._queued.clear()
                await self._queued.wait()

    async def _pass(self, data: str | bytes) -> None:
        try:
            async with asyncio.timeout(self._stalled_seconds * max(1.0, len(data) / MIB)):
                await self._socket.send(data)
        except TimeoutError:
            self._out.clear()
            self._closing = lv.Close(lv.REFUSED, "the client does not read")
            raise Disconnected from None


def _encoded(body: lv.Json) -> str:
    return msgspec.json.encode(body).decode()
