"""From the model's thread to the event loop: what is told of one task."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from dataclasses import replace

from .task import Checkpoint, Picture, Step, TaskCancelled, TaskFailed

Told = Step | Checkpoint | Picture | TaskFailed | TaskCancelled

STEPS = 64
"""That may wait; of more the oldest are left out. Of checkpoints only the last waits."""

QUIET_SECONDS = 0.04
"""After a step was told, the next ones wait so long, to be told together. Each time that the
loop wakes up it takes the interpreter from the model's thread: with steps of a few milliseconds
that cost more than all else. What is not a step is told at once."""


class Mailbox:
    """Bounded, and the model never waits for its reader."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._there = asyncio.Event()
        self._lock = threading.Lock()
        self._items: deque[Told] = deque()
        self._quiet = False

    def put(self, item: Told) -> None:
        """From any thread."""
        with self._lock:
            self._make_room(item)
            self._items.append(item)
            if isinstance(item, Step):
                if self._quiet:
                    return
                self._quiet = True
        # A loop that is gone has no reader either.
        if not self._loop.is_closed():
            wake = self._tell_step if isinstance(item, Step) else self._there.set
            self._loop.call_soon_threadsafe(wake)

    def _tell_step(self) -> None:
        self._there.set()
        self._loop.call_later(QUIET_SECONDS, self._end_quiet)

    def _end_quiet(self) -> None:
        with self._lock:
            # Not where the reader has not heard the last time: perhaps it is gone.
            self._quiet = bool(self._items) and not self._there.is_set()
            again = self._quiet
        if again:
            self._tell_step()

    def _make_room(self, item: Told) -> None:
        if isinstance(item, Checkpoint):
            kept = [one for one in self._items if not isinstance(one, Checkpoint)]
            self._items = deque(kept)
            return
        steps = [one for one in self._items if isinstance(one, Step)]
        if isinstance(item, Step) and len(steps) >= STEPS:
            # The previews are what costs memory; the newest of them is worth keeping.
            self._items.remove(steps[0])
            if steps[0].preview is not None and steps[1].preview is None:
                place = self._items.index(steps[1])
                self._items[place] = replace(steps[1], preview=steps[0].preview)

    async def get(self) -> Told:
        """The next; waits for it."""
        while True:
            with self._lock:
                if self._items:
                    return self._items.popleft()
                self._there.clear()
            await self._there.wait()
