"""Drives one session over one socket: the only place where core, stages and I/O meet.

It decides nothing. It reads the socket, hands events to the core, carries out effects,
owns the one timer and the one writer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..engines.pipeline import Pipeline
from ..sessions import effects as fx
from ..sessions import events as ev
from ..sessions import work_effects as wx
from ..sessions.session import Session
from . import client_messages, wire_in
from .audio_in import AudioInput
from .dialect import Dialect, DialectChoice
from .outbox import Frame, Outbox, SlowFrames, SlowText
from .recording import Recorder
from .timers import LazyTimer
from .wire_out import WireEncoder
from .work import Work

logger = logging.getLogger(__name__)

Measured: TypeAlias = fx.TurnMeasured | fx.ResponseMeasured | fx.ResponseDone
"""What is counted of a session while it runs."""

BIG_MESSAGE = 256 * 1024
"""Characters from which a message is decoded in a thread: it takes milliseconds."""

AUDIO_HIGH_BYTES = 1024 * 1024
"""Queued output above which replies wait: 16 s of PCM."""

CLOSE_SECONDS = 5.0
"""How long the goodbye may take to write."""

TURN_CHARS = 64 * 1024
"""Characters of messages that are taken in before others have their turn."""

MESSAGE_CHARS = 2 * 1024
"""What a message counts beside its length: the work that is the same for all."""

MIB = 1024 * 1024


class Disconnected(Exception):
    """The client is gone."""


class Socket(Protocol):
    """A message socket with one reader and one writer."""

    async def receive(self) -> str | bytes:
        """Return the next message.

        Raises:
            Disconnected: there will be none.
        """
        ...

    async def send(self, data: str | bytes) -> None:
        """Write a text or a binary frame; waits while the transport is full.

        Raises:
            Disconnected: it can't be written.
        """
        ...

    async def close(self, code: int, reason: str) -> None:
        """Close; harmless when already closed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds of one connection."""

    append_bytes: int = 15 * MIB
    outgoing_bytes: int = 8 * MIB
    stalled_seconds: float = 20.0
    """That a write may take, for each MiB of it."""


@dataclass(frozen=True, slots=True)
class Closing:
    """How the connection shall end."""

    code: int
    reason: str


class Connection:
    """One client's attachment to one session."""

    def __init__(
        self,
        socket: Socket,
        session: Session,
        pipeline: Pipeline,
        encoder: WireEncoder,
        limits: ConnectionLimits,
        recorder: Recorder | None = None,
        dialect: Dialect | None = None,
        on_measured: Callable[[Measured], None] | None = None,
    ) -> None:
        """Join a socket to a session.

        ``dialect`` is what the client asked for when it connected; ``None`` is GA. The first
        update of the session that has a shape decides. ``on_measured`` is told of each
        response that ended, and of what was measured.
        """
        self._socket = socket
        self._session = session
        self._encoder = encoder
        self._limits = limits
        self._recorder = recorder
        self._on_measured = on_measured
        self._dialects = DialectChoice(dialect)
        self._encoder.dialect = self._dialects.dialect
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(AUDIO_HIGH_BYTES, limits.outgoing_bytes)
        self._slow_written = asyncio.Event()
        self._slow_written.set()
        self._work = Work(session.id, pipeline, self._handle, self._outbox.wait_room)
        self._input = AudioInput(
            session.settings, limits.append_bytes, self._handle, self._work.wait_room
        )
        self._timer = LazyTimer(self._loop, self._wake)
        self._stall = LazyTimer(self._loop, self._stalled)
        self._closing: Closing | None = None

    async def run(self) -> None:
        """Serve the client until it is gone or has to go. Leaves nothing behind."""
        name = self._session.id
        self._writer = self._loop.create_task(self._write(), name=f"{name}-write")
        self._reader = self._loop.create_task(self._read(), name=f"{name}-read")
        try:
            self._handle(ev.Attached(int(time.time())))
            await asyncio.wait([self._writer, self._reader], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._closing = self._closing or Closing(1001, "the server is stopping")
            raise
        finally:
            await self._shut()

    # In.

    async def _read(self) -> None:
        taken = 0
        with suppress(Disconnected):
            while True:
                data = await self._socket.receive()
                await self._receive(data)
                await self._work.wait_room()
                # Messages that are here already don't suspend: let others run as well.
                taken += len(data) + MESSAGE_CHARS
                if taken >= TURN_CHARS:
                    taken = 0
                    await asyncio.sleep(0)

    async def _receive(self, data: str | bytes) -> None:
        try:
            if isinstance(data, bytes):
                await self._input.append_binary(data, self._session.settings)
                return
            if len(data) > BIG_MESSAGE:
                said = await asyncio.to_thread(self._understand, data)
            else:
                said = self._understand(data)
            if isinstance(said, client_messages.Append):
                await self._input.append(said)
                return
        except wire_in.Refused as refused:
            self._handle(ev.RejectMessage(refused.error))
            return
        finally:
            self._encoder.dialect = self._dialects.dialect
        match said:
            case None:
                return
            case ev.CommitAudio():
                # The end of an utterance: what the decoder holds back belongs to it.
                self._input.flush()
            case ev.ClearAudio():
                self._input.forget()
            case ev.RetrieveItem():
                # One big frame at a time: each holds the audio of an item.
                await self._slow_written.wait()
            case _:
                pass
        self._handle(said)
        self._input.follow(self._session.settings)

    def _understand(self, data: str) -> client_messages.Append | ev.ClientEvent | None:
        """Parse a message; safe in a thread while nothing else is read."""
        message = wire_in.decode(data)
        if isinstance(message, client_messages.Append):
            return message
        dialect = self._dialects.see(wire_in.asked_shape(message))
        return wire_in.to_event(message, self._session.settings, dialect)

    # The core.

    def _handle(self, event: ev.Event) -> None:
        now = self._loop.time()
        if self._recorder is not None:
            self._recorder.event(event, now)
        self._session.handle(event, now)
        self._pump()

    def _wake(self, at: float) -> None:
        now = max(at, self._loop.time())
        if self._recorder is not None:
            self._recorder.deadline(now)
        self._session.handle_deadline(now)
        self._pump()

    def _pump(self) -> None:
        """Carry out all effects, then set the one timer."""
        while (effect := self._session.next_effect()) is not None:
            self._carry_out(effect)
        deadline = self._session.deadline
        self._timer.set(None if deadline is None else deadline.at)

    def _carry_out(self, effect: fx.Effect) -> None:
        match effect:
            case wx.AbortReply(response_id=response_id):
                # Before anything that follows is queued: not one byte of it may come after.
                self._outbox.purge(response_id)
                self._encoder.abort(response_id)
                self._work.carry_out(effect)
            case wx.CloseConnection(code=code, reason=reason):
                self._close_soon(code, reason)
            case (
                wx.ExpectTurnEnd()
                | wx.StartListening()
                | wx.FeedListening()
                | wx.StopListening()
                | wx.StartRecognition()
                | wx.CancelRecognition()
                | wx.StartReply()
                | wx.ReplyPlayed()
            ):
                self._work.carry_out(effect)
            case fx.TurnMeasured() | fx.ResponseMeasured() | fx.ResponseDone():
                if self._on_measured is not None:
                    self._on_measured(effect)
                self._tell(effect)
            case _:
                self._tell(effect)

    # Out.

    def _tell(self, effect: fx.ClientEffect) -> None:
        for frame in self._frames(effect):
            self._outbox.put(frame)
        if self._outbox.overflowed and self._closing is None:
            self._close_soon(1008, "the client does not read")

    def _frames(self, effect: fx.ClientEffect) -> list[Frame]:
        frames = [
            said if isinstance(said, Frame) else Frame(said)
            for said in self._encoder.encode(effect)
        ]
        if any(isinstance(frame.data, SlowText) for frame in frames):
            self._slow_written.clear()
        return frames

    async def _write(self) -> None:
        with suppress(Disconnected):
            while (frame := await self._outbox.get()) is not None:
                data, slow = frame.data, isinstance(frame.data, SlowText)
                assert not isinstance(data, SlowFrames)
                if isinstance(data, SlowText):
                    data = await asyncio.to_thread(data.make)
                allowed = self._limits.stalled_seconds * max(1.0, len(data) / MIB)
                self._stall.set(self._loop.time() + allowed)
                await self._socket.send(data)
                self._stall.set(None)
                if slow:
                    self._slow_written.set()
                if frame.response_id is not None:
                    self._handle(ev.AudioWritten(frame.response_id, frame.audio_ms))

    def _stalled(self, _at: float) -> None:
        self._closing = Closing(1008, "the client does not read")
        self._writer.cancel()

    def _close_soon(self, code: int, reason: str) -> None:
        self._closing = Closing(code, reason)
        self._reader.cancel()

    async def _shut(self) -> None:
        """End the session, write what is left to say if someone has to go, free everything."""
        self._handle(ev.Detached())
        self._timer.close()
        self._outbox.close()
        self._reader.cancel()
        if self._closing is not None:
            await asyncio.wait([self._writer], timeout=CLOSE_SECONDS)
        self._stall.close()
        self._writer.cancel()
        for result in await asyncio.gather(self._writer, self._reader, return_exceptions=True):
            if isinstance(result, Exception):
                logger.error("session %s failed", self._session.id, exc_info=result)
                self._closing = self._closing or Closing(1011, "internal error")
        await self._work.close()
        if self._recorder is not None:
            self._recorder.close()
        closing = self._closing or Closing(1000, "")
        with suppress(Disconnected, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._socket.close(closing.code, closing.reason)
