"""Drives one speech stream over one socket: carries out what its core decides."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress

from ..engines.pipeline import Pipeline, SpeakRequest
from . import speech_events as sp
from .connection import (
    AUDIO_HIGH_BYTES,
    CLOSE_SECONDS,
    MESSAGE_CHARS,
    MIB,
    TURN_CHARS,
    Closing,
    ConnectionLimits,
    Disconnected,
    Socket,
)
from .outbox import Frame, Outbox, SlowFrames, SlowText
from .refusals import Refused
from .speech_stream import SpeechStream
from .speech_wire import SpeechReader, encode, is_slow
from .speech_work import Speaking
from .timers import LazyTimer
from .voice_levels import VoiceLevels

logger = logging.getLogger(__name__)

HELD_CHARS = MIB
"""Characters of messages that wait for room in the core; above it the socket is not read."""


class SpeechConnection:
    """One client's stream of speech."""

    def __init__(
        self,
        name: str,
        socket: Socket,
        core: SpeechStream,
        pipeline: Pipeline,
        reader: SpeechReader,
        limits: ConnectionLimits,
        levels: VoiceLevels,
    ) -> None:
        """``name`` begins the names of its tasks and of its requests to the pipeline."""
        self._name = name
        self._socket = socket
        self._core = core
        self._pipeline = pipeline
        self._messages = reader
        self._limits = limits
        self._levels = levels
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(AUDIO_HIGH_BYTES, limits.outgoing_bytes)
        self._speaking: dict[int, tuple[Speaking, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: deque[tuple[sp.FromClient, str | bytes]] = deque()
        self._held_chars = 0
        self._room = asyncio.Event()
        self._timer = LazyTimer(self._loop, self._wake)
        self._stall = LazyTimer(self._loop, self._stalled)
        self._closing: Closing | None = None
        self._over = False

    async def run(self) -> None:
        """Serve the client until it is gone or has to go. Leaves nothing behind."""
        self._writer = self._loop.create_task(self._write(), name=f"{self._name}-write")
        self._reader = self._loop.create_task(self._read(), name=f"{self._name}-read")
        try:
            self._pump()
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
                event = await self._understand(data)
                if isinstance(event, sp.Cancel):
                    self._cancel()
                else:
                    self._hold(event, data)
                while self._held_chars >= HELD_CHARS:
                    self._room.clear()
                    await self._room.wait()
                # Messages that are here already don't suspend: let others run as well.
                taken += len(data) + MESSAGE_CHARS
                if taken >= TURN_CHARS:
                    taken = 0
                    await asyncio.sleep(0)

    async def _understand(self, data: str | bytes) -> sp.FromClient:
        if is_slow(data):
            return await asyncio.to_thread(self._read_message, data)
        return self._read_message(data)

    def _hold(self, event: sp.FromClient, data: str | bytes) -> None:
        """Hand a message to the core, now or behind those that wait for room."""
        self._held.append((event, data))
        self._held_chars += len(data) + MESSAGE_CHARS
        self._release()

    def _release(self) -> None:
        while self._held and self._core.has_room(self._held[0][0]):
            self._release_one()

    def _release_one(self) -> None:
        event, data = self._held.popleft()
        self._held_chars -= len(data) + MESSAGE_CHARS
        if isinstance(event, sp.Configure):
            # What it leaves out is as those before it have set it by now.
            event = self._read_message(data)
        self._tell(event)
        if self._held_chars < HELD_CHARS:
            self._room.set()

    def _cancel(self) -> None:
        """Cancel all that came before, what waits for room as well."""
        while self._held:
            if self._core.has_room(self._held[0][0]):
                self._release_one()
            else:
                self._tell(sp.Cancel())
        self._tell(sp.Cancel())

    def _read_message(self, data: str | bytes) -> sp.FromClient:
        try:
            return self._messages.read(data, self._core.settings)
        except Refused as refused:
            return sp.Reject(refused.error)

    # The core.

    def _handle(self, event: sp.Event) -> None:
        if not self._over:
            self._tell(event)
            self._release()

    def _tell(self, event: sp.Event) -> None:
        self._core.handle(event, self._loop.time())
        self._pump()

    def _wake(self, at: float) -> None:
        self._core.handle_deadline(max(at, self._loop.time()))
        self._pump()
        self._release()

    def _pump(self) -> None:
        """Carry out all effects, then set the one timer."""
        while (effect := self._core.next_effect()) is not None:
            self._carry_out(effect)
        self._timer.set(self._core.deadline)

    def _carry_out(self, effect: sp.Effect) -> None:
        match effect:
            case sp.StartSpeaking():
                self._start(effect)
            case sp.HandText(index=index, text=text):
                if (found := self._speaking.get(index)) is not None:
                    found[0].hand(text)
            case sp.EndText(index=index):
                if (found := self._speaking.get(index)) is not None:
                    found[0].end()
            case sp.StopSpeaking(index=index):
                # Before anything that follows is queued: not one byte of it may come after.
                self._outbox.purge(_key(index))
                if (found := self._speaking.pop(index, None)) is not None:
                    found[1].cancel()
            case sp.CloseConnection(code=code, reason=reason):
                self._close_soon(code, reason)
            case sp.SendAudio(index=index) | sp.SendChunk(index=index):
                self._queue(Frame(encode(effect), _key(index)))
            case _:
                self._queue(Frame(encode(effect)))

    def _start(self, effect: sp.StartSpeaking) -> None:
        settings = effect.settings
        request = SpeakRequest(
            request_id=f"{self._name}-{effect.index}",
            # Names that stock clients send are spoken by the default voice.
            voice=settings.voice if settings.voice in self._pipeline.voices else None,
            speed=settings.speed,
        )
        speaking = Speaking(
            request,
            effect.index,
            settings.response_format,
            settings.loudness,
            self._pipeline,
            self._levels,
            self._handle,
            self._outbox.wait_room,
        )
        task = self._loop.create_task(speaking.run(), name=request.request_id)
        self._speaking[effect.index] = speaking, task
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._spoken(effect.index, done))

    def _spoken(self, index: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._speaking.pop(index, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("speech %s-%d failed", self._name, index, exc_info=error)

    # Out.

    def _queue(self, frame: Frame) -> None:
        self._outbox.put(frame)
        if self._outbox.overflowed and self._closing is None:
            self._close_soon(1008, "the client does not read")

    async def _write(self) -> None:
        with suppress(Disconnected):
            while (frame := await self._outbox.get()) is not None:
                data = frame.data
                assert not isinstance(data, (SlowText, SlowFrames))
                allowed = self._limits.stalled_seconds * max(1.0, len(data) / MIB)
                self._stall.set(self._loop.time() + allowed)
                await self._socket.send(data)
                self._stall.set(None)
                if frame.response_id is not None:
                    self._handle(sp.AudioWritten(int(frame.response_id)))

    def _stalled(self, _at: float) -> None:
        self._closing = Closing(1008, "the client does not read")
        self._writer.cancel()

    def _close_soon(self, code: int, reason: str) -> None:
        self._closing = Closing(code, reason)
        self._reader.cancel()

    async def _shut(self) -> None:
        """Stop speaking, write what is left to say if someone has to go, free everything."""
        self._over = True
        self._timer.close()
        speaking = list(self._tasks)
        for task in speaking:
            task.cancel()
        self._outbox.close()
        self._reader.cancel()
        if self._closing is not None:
            await asyncio.wait([self._writer], timeout=CLOSE_SECONDS)
        self._stall.close()
        self._writer.cancel()
        await asyncio.gather(*speaking, return_exceptions=True)
        for result in await asyncio.gather(self._writer, self._reader, return_exceptions=True):
            if isinstance(result, Exception):
                logger.error("speech stream %s failed", self._name, exc_info=result)
                self._closing = self._closing or Closing(1011, "internal error")
        closing = self._closing or Closing(1000, "")
        with suppress(Disconnected, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._socket.close(closing.code, closing.reason)


def _key(index: int) -> str:
    """Under which the audio of an utterance is queued."""
    return str(index)
