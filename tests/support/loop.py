"""An event loop on simulated time, so that asyncio tests wait for nothing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class AutojumpLoop(asyncio.SelectorEventLoop):
    """When idle it jumps to its next timer; time stands still while executors work.

    A loop in which nothing can ever happen again raises instead of hanging.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._in_threads = 0
        self.thread_calls = 0
        """How often work was handed to an executor."""

        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds

    @property
    def threads_busy(self) -> bool:
        return self._in_threads > 0

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        self.thread_calls += 1
        future.add_done_callback(self._left_thread)
        return future

    async def shutdown_default_executor(self) -> None:
        self._in_threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._in_threads -= 1

    def _left_thread(self, _future: asyncio.Future[Any]) -> None:
        self._in_threads -= 1


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: AutojumpLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._loop.threads_busy:
            # A thread that is done wakes the loop through its pipe.
            return super().select(timeout if timeout == 0 else None)
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every task waits, and nothing will ever happen")
        if not ready and timeout:
            self._loop.jump(timeout)
        return ready


def run_simulated(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` on simulated time that begins at 0."""
    with asyncio.Runner(loop_factory=AutojumpLoop) as runner:
        return runner.run(main)
