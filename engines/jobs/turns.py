"""Who may work beside whom: a job that a worker died with works alone when it is tried again.

Else a job that kills its worker each time would take the blameless ones beside it along.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Turns:
    """Many together, or one alone. Who wants to be alone goes before those that come later."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._together = 0
        self._alone = False
        self._waiting = 0

    @asynccontextmanager
    async def together(self) -> AsyncGenerator[None]:
        """Work beside others of the kind."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._together += 1
        try:
            yield
        finally:
            async with self._changed:
                self._together -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Work beside none."""
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: not self._alone and not self._together)
                self._alone = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            async with self._changed:
                self._alone = False
                self._changed.notify_all()
