"""Frames on their way to one client: bounded, in order, purged of what must not be said."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlowText:
    """Text that takes long to make, and is made when it is its turn."""

    make: Callable[[], str]
    """Returns the text; to be called in a thread."""

    size: int
    """Characters that it will have, about."""


@dataclass(frozen=True, slots=True)
class SlowFrames:
    """Audio that takes long to encode: it becomes frames when it is its turn."""

    make: Callable[[], Sequence[Frame]]
    """Returns them, none of which is slow; called in a thread, one after the other."""

    size: int
    """Bytes that are kept for it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One text or binary frame; one that holds audio names its response and how much it holds."""

    data: str | bytes | SlowText | SlowFrames
    """Text that is made later counts nothing here: whoever queues it bounds it."""

    response_id: str | None = None
    audio_ms: float = 0.0

    @property
    def size(self) -> int:
        """Characters or bytes that it keeps in the queue."""
        match self.data:
            case SlowText():
                return 0
            case SlowFrames(size=size):
                return size
            case _:
                return len(self.data)


class Outbox:
    """A queue with one reader.

    Above ``high_bytes`` whoever makes audio waits in :meth:`wait_room`. Above
    ``limit_bytes``, which events alone can reach, :attr:`overflowed` says that the client
    does not read.
    """

    def __init__(self, high_bytes: int, limit_bytes: int) -> None:
        self._high = high_bytes
        self._limit = limit_bytes
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._closed = False
        self._readable = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def overflowed(self) -> bool:
        """Whether more is queued than a client that reads could need."""
        return self._bytes > self._limit

    @property
    def queued_bytes(self) -> int:
        """Characters and bytes waiting to be written."""
        return self._bytes

    def put(self, frame: Frame) -> None:
        """Queue a frame; dropped once the outbox is closed."""
        if self._closed:
            return
        self._frames.append(frame)
        self._bytes += frame.size
        self._readable.set()
        if self._bytes >= self._high:
            self._room.clear()

    def purge(self, response_id: str) -> float:
        """Drop queued audio of a response; return how many ms that was."""
        dropped_ms = 0.0
        kept: deque[Frame] = deque()
        for frame in self._frames:
            if frame.response_id == response_id:
                dropped_ms += frame.audio_ms
                self._bytes -= frame.size
            else:
                kept.append(frame)
        self._frames = kept
        self._note_room()
        return dropped_ms

    def close(self) -> None:
        """Take no more; what is queued can still be read."""
        self._closed = True
        self._readable.set()
        self._room.set()

    async def get(self) -> Frame | None:
        """Return the next frame; ``None`` once closed and empty. One reader only.

        Slow frames are made here, in a thread. Those of a response that is purged meanwhile
        are dropped as well.
        """
        while (frame := await self._first()) is not None:
            if not isinstance(frame.data, SlowFrames):
                self._take()
                self._note_room()
                break
            made = await asyncio.to_thread(frame.data.make)
            # It stayed queued while it was made: a purge has found it there.
            if self._frames and self._frames[0] is frame:
                self._take()
                self._frames.extendleft(reversed(made))
                self._bytes += sum(each.size for each in made)
                self._note_room()
        return frame

    async def wait_room(self) -> None:
        """Return once more audio may be made for this client."""
        await self._room.wait()

    async def _first(self) -> Frame | None:
        while not self._frames:
            if self._closed:
                return None
            self._readable.clear()
            await self._readable.wait()
        return self._frames[0]

    def _take(self) -> None:
        self._bytes -= self._frames.popleft().size

    def _note_room(self) -> None:
        if self._bytes < self._high:
            self._room.set()
