"""What earlier answers said aloud, so that a client can refer to them by the id of their audio."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

KEPT_SECONDS = 3600
"""For so long an answer can be referred to, unless newer ones need its room."""

MOST = 1000
"""Answers that are kept."""

MOST_CHARS = 4_000_000
"""Of all of them together."""


class Earlier:
    """Transcripts by id; what is oldest goes first."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """``clock``: Unix seconds."""
        self._clock = clock
        self._kept: dict[str, tuple[str, int]] = {}
        self._chars = 0

    @staticmethod
    def new_id() -> str:
        """An id that nobody can guess: whoever has it may hear of the answer."""
        return f"audio_{uuid4().hex}"

    def keep(self, audio_id: str, transcript: str) -> int:
        """Keep what an answer said; return when it expires, Unix seconds."""
        now = self._clock()
        expires_at = int(now) + KEPT_SECONDS
        self._kept[audio_id] = (transcript, expires_at)
        self._chars += len(transcript)
        for old, (_, until) in tuple(self._kept.items()):
            full = len(self._kept) > MOST or self._chars > MOST_CHARS
            if not full and until > now:
                break
            gone, _ = self._kept.pop(old)
            self._chars -= len(gone)
        return expires_at

    def recall(self, audio_id: str) -> str | None:
        """What that answer said, if it is still known; may be asked from any thread."""
        transcript, expires_at = self._kept.get(audio_id, ("", 0))
        return transcript if expires_at > self._clock() else None
