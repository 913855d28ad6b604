"""Keeps an engine that lives in a process of its own: starts it, and again when it dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from ..chunks import StageError
from ..stage import StageClosed, StageFailure

logger = logging.getLogger(__name__)

RESTART_WAITS = (0.5, 5.0, 30.0)
"""Seconds before each attempt to start a dead engine again; then the stage has failed.
The first is short, because most deaths are accidents; the last gives memory that another
process holds time to be freed."""

SETTLED_SECONDS = 120.0
"""An engine that has lived so long has all its attempts again."""


class Kept(Protocol):
    """An engine, as far as it is kept."""

    @property
    def sentinel(self) -> int:
        """A file descriptor that becomes readable when its process is gone."""
        ...

    async def close(self) -> None:
        """End the process and return when it is gone. Idempotent."""
        ...


EngineT = TypeVar("EngineT", bound=Kept)


class Keeper(Generic[EngineT]):
    """The life of the engine of one stage."""

    def __init__(
        self,
        name: str,
        what: str,
        launch: Callable[[], Awaitable[EngineT]],
        on_lost: Callable[[StageError], Awaitable[None]],
        *,
        waits: Sequence[float] = RESTART_WAITS,
    ) -> None:
        """Start nothing yet.

        Args:
            name: of the stage.
            what: the engine is, in words for a client: "the language model".
            launch: start an engine, and have it answer once; it is never cancelled, and leaves
                nothing behind where it raises.
            on_lost: end all open streams with an error, and return when they have ended.
            waits: seconds before each attempt to start it again.
        """
        self._name = name
        self._what = what
        self._launch = launch
        self._on_lost = on_lost
        self._waits = waits
        self._state = "closed"
        self._changed = asyncio.Event()
        self._engine: EngineT | None = None
        self._launching: asyncio.Future[EngineT] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._launch_seconds = 0.0
        self._restarts = 0

    @property
    def state(self) -> str:
        """``ready``, ``starting``, ``restarting``, ``failed`` or ``closed``."""
        return self._state

    @property
    def engine(self) -> EngineT | None:
        """The engine; ``None`` unless it is ready."""
        return self._engine

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return self._restarts

    async def wait_state(self, *states: str) -> None:
        """Return as soon as :attr:`state` is one of ``states``."""
        while self._state not in states:
            await self._changed.wait()

    async def start(self) -> None:
        """Start the engine; nothing where it runs or starts already. Raises what launching does."""
        if self._state not in ("closed", "failed"):
            return
        self._enter("starting")
        try:
            engine = await self._launch_one()
        except BaseException:
            self._enter("failed")
            raise
        self._keeping = asyncio.create_task(self._keep(engine), name=f"{self._name}-keeper")

    def lost(self, engine: EngineT) -> None:
        """Somebody has found an engine dead, which will be noticed in a moment anyhow."""
        if self._engine is engine:
            self._enter("restarting")

    def unavailable(self) -> StageFailure:
        """Why there is no engine, and when to ask again."""
        if self._state != "restarting":
            return StageClosed(self._name)
        wait_ms = round(1000 * (self._waits[0] + self._launch_seconds))
        message = f"{self._what} is being restarted"
        return StageFailure(StageError("engine_restarting", message, retry_after_ms=wait_ms))

    async def close(self) -> None:
        """End all open streams with an error, and the engine's process. Idempotent."""
        self._enter("closed")
        await self._on_lost(StageClosed(self._name).error)
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        # An engine that is just being loaded can't be stopped, so it is waited for.
        launching, self._launching = self._launching, None
        if launching is not None:
            await asyncio.wait([launching])
            if launching.exception() is None:
                await launching.result().close()

    def _enter(self, state: str, engine: EngineT | None = None) -> None:
        self._state, self._engine = state, engine
        self._changed.set()
        self._changed = asyncio.Event()

    async def _launch_one(self) -> EngineT:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._launching = asyncio.ensure_future(self._launch())
        engine = await asyncio.shield(self._launching)
        if self._state == "closed":
            raise StageClosed(self._name)
        self._launch_seconds = loop.time() - began
        self._enter("ready", engine)
        return engine

    async def _keep(self, engine: EngineT) -> None:
        """Watch the engine's process, and start another whenever it is gone."""
        loop = asyncio.get_running_loop()
        attempts = iter(self._waits)
        while True:
            born = loop.time()
            await _wait_readable(engine.sentinel)
            logger.error("the engine's process is gone after %.0f s", loop.time() - born)
            self._enter("restarting")
            await self._on_lost(self.unavailable().error)
            await engine.close()
            if loop.time() - born > SETTLED_SECONDS:
                attempts = iter(self._waits)
            again = await self._launch_again(attempts)
            if again is None:
                self._enter("failed")
                return
            engine = again

    async def _launch_again(self, waits: Iterator[float]) -> EngineT | None:
        for wait in waits:
            await asyncio.sleep(wait)
            try:
                engine = await self._launch_one()
            except Exception:
                logger.exception("the engine could not be started again")
                continue
            self._restarts += 1
            return engine
        return None


async def _wait_readable(descriptor: int) -> None:
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
