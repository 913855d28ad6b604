"""A timer that is set far more often than it fires."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class LazyTimer:
    """Calls ``action`` with the instant that was set, once that is reached.

    Setting it later, or not at all, costs nothing: the loop's own timer stays as it is, and
    looks again when it goes off.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, action: Callable[[float], None]) -> None:
        self._loop = loop
        self._action = action
        self._at: float | None = None
        self._armed = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at: float | None) -> None:
        """Go off at ``at``, on the loop's clock; ``None`` is never."""
        self._at = at
        if at is not None and (self._handle is None or at < self._armed):
            self._arm(at)

    def close(self) -> None:
        """Go off no more, and leave nothing with the loop."""
        self._at = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, at: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed = at
        self._handle = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        self._handle = None
        at = self._at
        if at is None:
            return
        # The loop may run a timer up to one clock tick early.
        if at <= max(self._armed, self._loop.time()):
            self._at = None
            self._action(at)
        else:
            self._arm(at)
