"""Which frames to decode together, so that chunks sound as if decoded whole.

A frame reaches a few frames into the waveform of its neighbours. A chunk is therefore
decoded with that many frames of context on each side, which are then cut off. A clause
is decoded by itself: context does not reach into the next, which need not exist yet.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from .ladder import next_size


@dataclass(frozen=True, slots=True)
class Window:
    """Frames to decode: the first of a buffer of those held."""

    stop: int
    """How many."""

    left: int
    """Of these, how many at the start are context only."""

    right: int
    """The same at the end."""

    keep: int
    """After this window the buffer begins here: what is before is no longer needed."""


class Windows:
    """Plans the windows of one stream; the caller holds the frames."""

    def __init__(self, ladder: tuple[int, ...], context: int) -> None:
        """``ladder`` of chunk sizes over the whole stream; ``context`` on each side."""
        self._ladder = ladder
        self._context = context
        self._index = 0
        self._left = 0
        # Frames not yet decoded of each clause held; all but the last have ended.
        self._clauses: deque[int] = deque([0])

    def add(self, frames: int, *, last: bool) -> None:
        """Note that frames were appended to the buffer; ``last``: a clause ends there."""
        self._clauses[-1] += frames
        if last:
            self._clauses.append(0)

    def next(self) -> Window | None:
        """The next window, or ``None`` until more frames are there."""
        while len(self._clauses) > 1 and not self._clauses[0]:
            self._clauses.popleft()
        ended, have = len(self._clauses) > 1, self._clauses[0]
        size = next_size(self._index, self._ladder)
        if not have or (not ended and have < size + self._context):
            return None
        size = min(size, have)
        return self._take(size, min(self._context, have - size), done=ended and size == have)

    def _take(self, size: int, right: int, *, done: bool) -> Window:
        left, stop = self._left, self._left + size
        self._left = 0 if done else min(self._context, stop)
        self._index += 1
        self._clauses[0] -= size
        if done:
            self._clauses.popleft()
        return Window(stop + right, left, right, keep=stop - self._left)
