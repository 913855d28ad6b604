"""Drives one session over one socket: the only place where core, stages and I/O meet.

It decides nothing. It reads the socket, hands events to the core, carries out effects,
owns the one timer and the one writer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ..engines.pipeline import Pipeline
from ..sessions import effects as fx
from ..sessions import events as ev
from ..sessions import work_effects as wx
from ..sessions.conversation import BYTES_PER_MS
from ..sessions.errors import ErrorInfo
from ..sessions.session import Session
from . import client_messages, wire_in
from .audio_format import InputDecoder
from .dialect import Dialect, DialectChoice
from .outbox import Frame, Outbox, SlowText
from .recording import Recorder
from .timers import LazyTimer
from .wire_out import WireEncoder
from .work import Work

logger = logging.getLogger(__name__)

BIG_MESSAGE = 256 * 1024
"""Characters from which a message is decoded in a thread: it takes milliseconds."""

AUDIO_HIGH_BYTES = 1024 * 1024
"""Queued output above which replies wait: 16 s of PCM."""

CLOSE_SECONDS = 5.0
"""How long the goodbye may take to write."""

SLICE_BYTES = 48 * 1000
"""Audio handed to the core at once: one second, so that no append stalls the loop."""

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

    async def send(self, text: str) -> None:
        """Write a text frame; waits while the transport is full.

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
    ) -> None:
        """Join a socket to a session.

        ``dialect`` is what the client asked for when it connected; ``None`` is GA. The first
        update of the session that has a shape decides.
        """
        self._socket = socket
        self._session = session
        self._encoder = encoder
        self._limits = limits
        self._recorder = recorder
        self._dialects = DialectChoice(dialect)
        self._encoder.dialect = self._dialects.dialect
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(AUDIO_HIGH_BYTES, limits.outgoing_bytes)
        self._slow_written = asyncio.Event()
        self._slow_written.set()
        self._work = Work(session.id, pipeline, self._handle, self._outbox.wait_room)
        self._input = InputDecoder(session.settings.input_format, session.settings.noise_reduction)
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
            if len(data) > BIG_MESSAGE:
                said = await asyncio.to_thread(self._understand, data)
            else:
                said = self._understand(data)
            if isinstance(said, client_messages.Append):
                await self._append(said)
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
                self._append_tail()
            case ev.ClearAudio():
                self._input.flush()
            case ev.RetrieveItem():
                # One big frame at a time: each holds the audio of an item.
                await self._slow_written.wait()
            case _:
                pass
        self._handle(said)
        self._follow_settings()

    def _understand(self, data: str | bytes) -> client_messages.Append | ev.ClientEvent | None:
        """Parse a message; safe in a thread while nothing else is read."""
        if isinstance(data, bytes):
            raise wire_in.Refused(
                ErrorInfo("invalid_value", "Binary frames are not understood; send JSON text.")
            )
        message = wire_in.decode(data)
        if isinstance(message, client_messages.Append):
            return message
        dialect = self._dialects.see(wire_in.asked_shape(message))
        return wire_in.to_event(message, self._session.settings, dialect)

    async def _append(self, message: client_messages.Append) -> None:
        audio = message.audio
        if len(audio) > self._limits.append_bytes:
            mib = self._limits.append_bytes // MIB
            raise _bad_audio(f"audio may have at most {mib} MiB in one append.", message)
        if self._input.is_pcm and len(audio) % 2:
            raise _bad_audio(
                "audio must be whole 16-bit samples: it has an odd number of bytes.", message
            )
        if len(audio) <= SLICE_BYTES:
            self._handle(ev.AppendAudio(self._input.feed(audio), message.event_id))
            return
        for start in range(0, len(audio), SLICE_BYTES):
            pcm = self._input.feed(audio[start : start + SLICE_BYTES])
            self._handle(ev.AppendAudio(pcm, message.event_id))
            await self._work.wait_room()
            await asyncio.sleep(0)

    def _append_tail(self) -> None:
        if tail := self._input.flush():
            self._handle(ev.AppendAudio(tail))

    def _follow_settings(self) -> None:
        """Decode as the settings say by now; what the old decoder held back comes first."""
        now = self._session.settings
        if self._input.form is not now.input_format or self._input.noise is not now.noise_reduction:
            self._append_tail()
            self._input = InputDecoder(now.input_format, now.noise_reduction)

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
            case _:
                self._tell(effect)

    # Out.

    def _tell(self, effect: fx.ClientEffect) -> None:
        for frame in self._frames(effect):
            self._outbox.put(frame)
        if self._outbox.overflowed and self._closing is None:
            self._close_soon(1008, "the client does not read")

    def _frames(self, effect: fx.ClientEffect) -> list[Frame]:
        texts = list(self._encoder.encode(effect))
        match effect:
            case fx.ItemRetrieved():
                if any(isinstance(text, SlowText) for text in texts):
                    self._slow_written.clear()
                return [Frame(text) for text in texts]
            case fx.AudioDelta(at=at, pcm=pcm) if texts:
                share_ms = len(pcm) / BYTES_PER_MS / len(texts)
                return [Frame(text, at.response_id, share_ms) for text in texts]
            case fx.AudioDone(at=at):
                tail = [Frame(text, at.response_id) for text in texts[:-1]]
                return [*tail, Frame(texts[-1])]
            case _:
                return [Frame(text) for text in texts]

    async def _write(self) -> None:
        with suppress(Disconnected):
            while (frame := await self._outbox.get()) is not None:
                text, slow = frame.text, isinstance(frame.text, SlowText)
                if isinstance(text, SlowText):
                    text = await asyncio.to_thread(text.make)
                allowed = self._limits.stalled_seconds * max(1.0, len(text) / MIB)
                self._stall.set(self._loop.time() + allowed)
                await self._socket.send(text)
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


def _bad_audio(message: str, append: client_messages.Append) -> wire_in.Refused:
    return wire_in.Refused(ErrorInfo("invalid_value", message, "audio", append.event_id))
