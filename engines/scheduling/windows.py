"""Which frames to decode together, so that chunks sound as if decoded whole.

A frame reaches a few frames into the waveform of its neighbours. A chunk is therefore
decoded with that many frames of context on each side, which are then cut off. A clause
is decoded by itself: context does not reach into the next, which need not exist yet.
How many frames a chunk has is chosen elsewhere; here, which of those held it can have.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


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

    last: bool
    """Whether its clause ends with it."""

    @property
    def frames(self) -> int:
        """How many of them are wanted."""
        return self.stop - self.left - self.right


class Windows:
    """Plans the windows of one stream; the caller holds the frames."""

    def __init__(self, context: int) -> None:
        """``context``: frames wanted on each side of those of a window."""
        self._context = context
        self._left = 0
        # Frames not yet decoded of each clause held; all but the last have ended.
        self._clauses: deque[int] = deque([0])

    @property
    def have(self) -> int:
        """Frames that a window can have now: of the first clause, with their context."""
        first = self._clauses[0]
        return first if self.complete else max(0, first - self._context)

    @property
    def complete(self) -> bool:
        """Whether these are all that will come of their clause."""
        return len(self._clauses) > 1

    @property
    def held(self) -> int:
        """Frames of all clauses that are not in any window yet."""
        return sum(self._clauses)

    def add(self, frames: int, *, last: bool) -> None:
        """Note that frames were appended to the buffer; ``last``: a clause ends there."""
        self._clauses[-1] += frames
        if last and self._clauses[-1]:
            self._clauses.append(0)

    def take(self, size: int) -> Window:
        """The window of the next ``size`` frames, of which there must be enough.

        Raises:
            ValueError: ``size`` is not from 1 to :attr:`have`.
        """
        if not 1 <= size <= self.have:
            raise ValueError(f"expected 1 to {self.have} frames, got {size}")
        done = self.complete and size == self._clauses[0]
        right = min(self._context, self._clauses[0] - size)
        left, stop = self._left, self._left + size
        self._left = 0 if done else min(self._context, stop)
        self._clauses[0] -= size
        if done:
            self._clauses.popleft()
        return Window(stop + right, left, right, keep=stop - self._left, last=done)
