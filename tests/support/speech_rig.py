"""One speech stream between a fake client and a fake pipeline, on a loop of simulated time."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from antiphon.realtime.connection import ConnectionLimits
from antiphon.realtime.speech_connection import SpeechConnection
from antiphon.realtime.speech_events import SpeechSettings
from antiphon.realtime.speech_stream import SpeechBounds, SpeechStream
from antiphon.realtime.speech_wire import Offer, SpeechReader
from antiphon.realtime.voice_levels import VoiceLevels

from .fakes import FakePipeline, FakeSocket

Json = dict[str, Any]
NAME = "speech-test"


class SpeechSocket(FakeSocket):
    """Tells a binary frame as an event of type ``binary``, with its bytes as ``audio``."""

    async def send(self, data: str | bytes) -> None:
        if isinstance(data, bytes):
            event = {"type": "binary", "audio": b64encode(data).decode()}
            data = msgspec.json.encode(event).decode()
        await super().send(data)

    @property
    def audio(self) -> bytes:
        """All audio so far, of either kind."""
        return b"".join(
            b64decode(event.get("audio") or event.get("audio_b64") or "") for event in self.events
        )


@dataclass
class Rig:
    """A stream being served."""

    socket: SpeechSocket
    pipeline: FakePipeline
    task: asyncio.Task[None]
    foreign: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])

    def say(self, *words: str) -> None:
        for word in words:
            self.socket.put("input.text", text=word)

    def done(self) -> None:
        self.socket.put("input.done")

    async def told_done(self, count: int = 1) -> Json:
        return await self.socket.wait_for("session.done", count)

    async def error(self, count: int = 1) -> Json:
        return await self.socket.wait_for("error", count)

    async def ended(self) -> None:
        """Return once it is over, having checked that nothing is left of it."""
        async with asyncio.timeout(3600):
            await asyncio.gather(self.task, return_exceptions=True)
        left = [task for task in asyncio.all_tasks() if task.get_name().startswith(NAME)]
        assert all("-text" in task.get_name() for task in left), left
        await self.pipeline.all_streams_gone()
        assert not asyncio.all_tasks() - self.foreign


@asynccontextmanager
async def served(
    pipeline: FakePipeline | None = None,
    *,
    bounds: SpeechBounds | None = None,
    limits: ConnectionLimits | None = None,
) -> AsyncGenerator[Rig]:
    """Serve a fake client; when left it vanishes, if it has not, and nothing may remain."""
    socket, pipeline, bounds = SpeechSocket(), pipeline or FakePipeline(), bounds or SpeechBounds()
    foreign = asyncio.all_tasks()
    now = asyncio.get_running_loop().time()
    connection = SpeechConnection(
        NAME,
        socket,
        SpeechStream(SpeechSettings("ada"), bounds, now),
        pipeline,
        SpeechReader(Offer(voices=(*pipeline.voices, "alloy"), chars=bounds.chars)),
        limits or ConnectionLimits(),
        VoiceLevels(pipeline),
    )
    rig = Rig(socket, pipeline, asyncio.create_task(connection.run()), foreign)
    try:
        await socket.wait_for("session.ready")
        yield rig
    finally:
        socket.vanish()
        await rig.ended()
