"""One connection between a fake client and a fake pipeline, on a loop of simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from antiphon.realtime.connection import Connection, ConnectionLimits, Measured
from antiphon.realtime.dialect import Dialect
from antiphon.realtime.recording import Recorder
from antiphon.realtime.wire_out import WireEncoder
from antiphon.sessions.effects import Effect
from antiphon.sessions.session import Session
from antiphon.sessions.settings import Capabilities, Settings

from .fakes import LOUD, QUIET, FakePipeline, FakeSocket

SEED = "seed"
CAN = Capabilities(voices=("ada", "bob"), speculate_ms=0)
LISTENING = Settings(voice="ada")
PUSH_TO_TALK = Settings(voice="ada", turn_detection=None)


class WatchedSession(Session):
    """Keeps every effect that was taken from it."""

    def __init__(self, seed: str, settings: Settings, can: Capabilities) -> None:
        super().__init__(seed, settings, can)
        self.taken: list[Effect] = []

    def next_effect(self) -> Effect | None:
        effect = super().next_effect()
        if effect is not None:
            self.taken.append(effect)
        return effect


@dataclass
class Rig:
    """A connection being served."""

    socket: FakeSocket
    pipeline: FakePipeline
    session: WatchedSession
    task: asyncio.Task[None]
    foreign: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])

    def speak(self, ms: int = 600, silence_ms: int = 600) -> None:
        """Send speech and the silence that ends it, faster than real time."""
        self.socket.append(LOUD * (ms // 20))
        self.socket.append(QUIET * (silence_ms // 20))

    async def ended(self) -> None:
        """Return once the connection is over, having checked that nothing is left of it."""
        async with asyncio.timeout(3600):
            await asyncio.gather(self.task, return_exceptions=True)
        own = [task for task in asyncio.all_tasks() if task.get_name().startswith(self.session.id)]
        assert not own, "a connection that is over has no streams of its own"
        await self.pipeline.all_streams_gone()
        left = asyncio.all_tasks() - self.foreign
        assert not left, left


@asynccontextmanager
async def served(
    pipeline: FakePipeline | None = None,
    *,
    can: Capabilities = CAN,
    settings: Settings = LISTENING,
    limits: ConnectionLimits | None = None,
    recorder: Recorder | None = None,
    dialect: Dialect | None = None,
    on_measured: Callable[[Measured], None] | None = None,
    first: str = "session.created",
) -> AsyncGenerator[Rig]:
    """Serve a fake client; when left it vanishes, if it has not, and nothing may remain.

    ``first`` is the name of the event that tells of the session.
    """
    socket = FakeSocket()
    pipeline = pipeline or FakePipeline()
    session = WatchedSession(SEED, settings, can)
    encoder = WireEncoder(
        SEED,
        session_id=session.id,
        conversation_id=session.conversation_id,
        model="fake",
        voices=pipeline.voices,
    )
    foreign = asyncio.all_tasks()
    connection = Connection(
        socket,
        session,
        pipeline,
        encoder,
        limits or ConnectionLimits(),
        recorder,
        dialect,
        on_measured,
    )
    task = asyncio.create_task(connection.run(), name="connection")
    rig = Rig(socket, pipeline, session, task, foreign)
    try:
        await socket.wait_for(first)
        yield rig
    finally:
        socket.vanish()
        await rig.ended()
