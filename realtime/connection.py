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
from .outbox import Frame, Outbox
from .recording import Recorder
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

    append_bytes: int = 15 * 1024 * 1024
    outgoing_bytes: int = 8 * 1024 * 1024
    stalled_seconds: float = 20.0


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
    ) -> None:
        self._socket = socket
        self._session = session
        self._encoder = encoder
        self._limits = limits
        self._recorder = recorder
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(AUDIO_HIGH_BYTES, limits.outgoing_bytes)
        self._work = Work(session.id, pipeline, self._handle, self._outbox.wait_room)
        self._input = InputDecoder(session.settings.input_format)
        self._timer: asyncio.TimerHandle | None = None
        self._closing: Closing | None = None

    async def run(self) -> None:
        """Serve the client until it is gone or has to go. Leaves nothing behind."""
        writer = self._loop.create_task(self._write(), name=f"{self._session.id}-write")
        self._reader = self._loop.create_task(self._read(), name=f"{self._session.id}-read")
        try:
            self._handle(ev.Attached(int(time.time())))
            await asyncio.wait([writer, self._reader], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._shut(writer)

    # In.

    async def _read(self) -> None:
        with suppress(Disconnected):
            while True:
                await self._receive(await self._socket.receive())
                await self._take_turns()

    async def _receive(self, data: str | bytes) -> None:
        try:
            message = await self._decode(data)
            if isinstance(message, client_messages.Append):
                await self._append(message)
                return
            event = wire_in.to_event(message, self._session.settings)
        except wire_in.Refused as refused:
            self._handle(ev.RejectMessage(refused.error))
            return
        self._flush_input(event)
        self._handle(event)
        if self._input.form is not self._session.settings.input_format:
            self._input = InputDecoder(self._session.settings.input_format)

    async def _decode(self, data: str | bytes) -> client_messages.Message:
        if isinstance(data, bytes):
            raise wire_in.Refused(
                ErrorInfo("invalid_value", "Binary frames are not understood; send JSON text.")
            )
        if len(data) > BIG_MESSAGE:
            return await asyncio.to_thread(wire_in.decode, data)
        return wire_in.decode(data)

    async def _append(self, message: client_messages.Append) -> None:
        audio = message.audio
        if len(audio) > self._limits.append_bytes:
            mib = self._limits.append_bytes // (1024 * 1024)
            raise wire_in.Refused(
                ErrorInfo(
                    "invalid_value",
                    f"audio may have at most {mib} MiB in one append.",
                    "audio",
                    message.event_id,
                )
            )
        if self._input.is_pcm and len(audio) % 2:
            raise wire_in.Refused(
                ErrorInfo(
                    "invalid_value",
                    "audio must be whole 16-bit samples: it has an odd number of bytes.",
                    "audio",
                    message.event_id,
                )
            )
        for start in range(0, len(audio), SLICE_BYTES):
            pcm = self._input.feed(audio[start : start + SLICE_BYTES])
            self._handle(ev.AppendAudio(pcm, message.event_id))
            await self._take_turns()

    async def _take_turns(self) -> None:
        """Wait for room; at least let others run: messages that are here don't suspend."""
        await self._work.wait_room()
        await asyncio.sleep(0)

    def _flush_input(self, event: ev.ClientEvent) -> None:
        # A commit is the end of an utterance: what resampling holds back belongs to it.
        if isinstance(event, ev.CommitAudio) and (tail := self._input.flush()):
            self._handle(ev.AppendAudio(tail))

    # The core.

    def _handle(self, event: ev.Event) -> None:
        now = self._loop.time()
        if self._recorder is not None:
            self._recorder.event(event, now)
        self._session.handle(event, now)
        self._pump()

    def _wake(self, armed_for: float) -> None:
        # The loop may run a timer up to one clock tick early.
        now = max(armed_for, self._loop.time())
        if self._recorder is not None:
            self._recorder.deadline(now)
        self._session.handle_deadline(now)
        self._pump()

    def _pump(self) -> None:
        """Carry out all effects, then re-arm the one timer."""
        while (effect := self._session.next_effect()) is not None:
            self._carry_out(effect)
        self._disarm()
        if (deadline := self._session.deadline) is not None:
            self._timer = self._loop.call_at(deadline.at, self._wake, deadline.at)

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
            ):
                self._work.carry_out(effect)
            case _:
                self._tell(effect)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Out.

    def _tell(self, effect: fx.ClientEffect) -> None:
        for frame in self._frames(effect):
            self._outbox.put(frame)
        if self._outbox.overflowed and self._closing is None:
            self._close_soon(1008, "the client does not read")

    def _frames(self, effect: fx.ClientEffect) -> list[Frame]:
        texts = list(self._encoder.encode(effect))
        match effect:
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
                try:
                    async with asyncio.timeout(self._limits.stalled_seconds):
                        await self._socket.send(frame.text)
                except TimeoutError:
                    self._closing = Closing(1008, "the client does not read")
                    return
                if frame.response_id is not None:
                    self._handle(ev.AudioWritten(frame.response_id, frame.audio_ms))

    def _close_soon(self, code: int, reason: str) -> None:
        self._closing = Closing(code, reason)
        self._reader.cancel()

    async def _shut(self, writer: asyncio.Task[None]) -> None:
        """End the session, write what is left to say if someone has to go, free everything."""
        self._disarm()
        self._handle(ev.Detached())
        self._disarm()
        self._outbox.close()
        self._reader.cancel()
        if self._closing is not None:
            await asyncio.wait([writer], timeout=CLOSE_SECONDS)
        writer.cancel()
        for result in await asyncio.gather(writer, self._reader, return_exceptions=True):
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
