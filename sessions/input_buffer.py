"""Audio that was appended and not yet committed, addressed by its position."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque

from .conversation import BYTES_PER_MS
from .errors import Refusal

MIN_COMMIT_MS = 100
"""Less audio than this can't be committed; the protocol's own figure."""

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

    def check_commit(self) -> None:
        """Make sure that there is enough audio for an item.

        Raises:
            Refusal: there is less than the protocol's least amount.
        """
        if self.length_ms < MIN_COMMIT_MS:
            raise Refusal(
                "input_audio_buffer_commit_empty",
                "Error committing input audio buffer: buffer too small. Expected at least "
                f"{MIN_COMMIT_MS}ms of audio, but buffer only has "
                f"{self.length_ms:.2f}ms of audio.",
            )

    def check_room(self, coming_ms: float, limit_ms: int) -> None:
        """Make sure that more audio fits within a bound.

        Raises:
            Refusal: it does not.
        """
        if self.length_ms + coming_ms > limit_ms:
            raise Refusal(
                "input_audio_buffer_full",
                f"The input audio buffer holds at most {limit_ms // 1000} s of audio; "
                "commit or clear it first.",
                "audio",
            )

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

    def position_ms(self, at: float) -> int:
        """Return where the audio ended at an instant, as far back as is remembered.

        Before all that is remembered it is the start of the audio kept.
        """
        index = bisect_right(self._arrivals, at, key=lambda arrival: arrival[1])
        reached = self._arrivals[index - 1][0] // BYTES_PER_MS if index else 0
        return max(self.start_ms, reached)
