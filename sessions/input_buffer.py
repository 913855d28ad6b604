"""Audio that was appended and not yet committed, addressed by its position."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from .conversation import BYTES_PER_MS

ARRIVALS = 2048
"""Appends whose arrival is remembered: 40 s of 20 ms chunks."""


class InputBuffer:
    """Bytes of s16le at 24 kHz; positions are ms since the session began."""

    def __init__(self) -> None:
        self._pcm = bytearray()
        self._start = 0
        """Position of the first byte kept, in bytes."""

        self._arrivals: deque[tuple[int, float]] = deque(maxlen=ARRIVALS)
        """Position of the end of each append, in bytes, and when it came."""

    @property
    def start_ms(self) -> int:
        """Position of the oldest audio kept."""
        return self._start // BYTES_PER_MS

    @property
    def end_ms(self) -> int:
        """Position behind the newest audio."""
        return (self._start + len(self._pcm)) // BYTES_PER_MS

    @property
    def length_ms(self) -> float:
        """How much audio is here."""
        return len(self._pcm) / BYTES_PER_MS

    def append(self, pcm: bytes, now: float) -> None:
        """Add audio that arrived at ``now``."""
        self._pcm += pcm
        self._arrivals.append((self._start + len(self._pcm), now))

    def read(self, start_ms: int, end_ms: int) -> bytes:
        """Return the audio between two positions, as far as it is here."""
        begin = max(0, start_ms * BYTES_PER_MS - self._start)
        return bytes(self._pcm[begin : max(begin, end_ms * BYTES_PER_MS - self._start)])

    def read_all(self) -> bytes:
        """Return all audio, to the last sample."""
        return bytes(self._pcm)

    def drop_before(self, position_ms: int) -> None:
        """Forget audio before a position."""
        count = min(len(self._pcm), max(0, position_ms * BYTES_PER_MS - self._start))
        del self._pcm[:count]
        self._start += count

    def clear(self) -> None:
        """Forget all audio; positions go on."""
        self._start += len(self._pcm)
        self._pcm.clear()

    def arrival(self, position_ms: int) -> float | None:
        """Return when the audio up to a position had arrived, if that is remembered."""
        position = position_ms * BYTES_PER_MS
        index = bisect_left(self._arrivals, position, key=lambda arrival: arrival[0])
        return self._arrivals[index][1] if index < len(self._arrivals) else None
