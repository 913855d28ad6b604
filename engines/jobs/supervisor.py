"""The server's own worker: a child process that is started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence

LOG = logging.getLogger(__name__)

LEAVE_SECONDS = 10.0
"""For the child to give its jobs back, before it is killed."""

FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""A child that lived so long is started again at once; else ever later."""


class WorkerChild:
    """Keeps one child process running. It sees the end of its standard input when this process
    dies, and leaves then by itself."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._command = command
        self._env = dict(env) if env is not None else None
        self._child: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """Of the child that runs; None between two."""
        child = self._child
        return child.pid if child is not None and child.returncode is None else None

    @property
    def running(self) -> bool:
        """Whether it was started, and not closed since."""
        return self._keeper is not None

    async def start(self) -> None:
        """Start the child. Raises ``OSError`` where that can't be done."""
        await self._spawn()
        self._keeper = asyncio.create_task(self._keep())

    async def _spawn(self) -> asyncio.subprocess.Process:
        self._child = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, env=self._env
        )
        return self._child

    async def _keep(self) -> None:
        wait = FIRST_WAIT_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            since = loop.time()
            assert self._child is not None
            status = await self._child.wait()
            if loop.time() - since >= STEADY_SECONDS:
                wait = FIRST_WAIT_SECONDS
            LOG.warning("the worker ended with status %d; it is started again", status)
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
            self.restarts += 1
            await self._spawn()

    async def close(self) -> None:
        """End the child: it gives its jobs back first. Idempotent."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await keeper
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        try:
            await asyncio.wait_for(child.wait(), LEAVE_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
