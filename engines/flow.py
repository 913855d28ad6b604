"""What the stages of one reply share: how far its listener is, and whose turn that makes it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager

from .deployment import Pacing
from .scheduling.listener import Listener

NEAR_DRY_SECONDS = 0.08
"""A listener with less audio left is about to run dry: twice the usual margin of a chunk."""

START_MS = 500.0
"""Audio after which a reply is no longer at its start."""

STUCK_SECONDS = 1.0
"""A reader that takes nothing for so long, while something waits for it, has stopped."""

REST_MS = 50.0
"""Audio that may be left of what is spoken when all of it is made: seams and filters hold
back some of it until the end."""


class Flow:
    """The pacing of one reply; for use on the event loop.

    Audio is *spoken* by the talker, as frames, and *made* by code2wav, as sound. Both are
    held back where they are ahead of the ear by all that is allowed. Where the flow is told
    what the reader *takes*, what is not taken counts as not heard. What is not *paced* is only
    held back for that: it may be ahead of the ear by any amount, and the further it is, the
    later is it due.
    """

    def __init__(
        self,
        pacing: Pacing | None = None,
        clock: Callable[[], float] | None = None,
        *,
        read: bool = False,
        paced: bool = True,
    ):
        """``clock``: seconds, by default those of the running loop.

        ``read``: whether it will be told by :meth:`took` what the reader takes. ``paced``:
        whether it is held back by how far the listener is.
        """
        self._pacing = pacing or Pacing()
        self._clock = clock or asyncio.get_running_loop().time
        self._paced = paced
        self.listener = self._new_listener()
        self._spoken_ms = 0.0
        self._taken_ms = 0.0 if read else math.inf
        self._until_ms = math.inf
        """Up to where playback goes on by itself, as it was told."""

        self._clauses = 0
        """At the talker, and not yet spoken."""

        self._handing = 0
        self._handed_at = 0.0
        self._moved = asyncio.Event()

    @property
    def paced(self) -> bool:
        """Whether it is held back by how far the listener is."""
        return self._paced

    @property
    def undecoded_ms(self) -> float:
        """Audio that is spoken and not yet made."""
        return max(0.0, self._spoken_ms - self.listener.made_ms)

    @property
    def buffer_ms(self) -> float | None:
        """Audio that the listener has left; ``None`` ahead of the first of it."""
        return self.listener.buffer_ms(self._clock()) if self.listener.made_ms > 0 else None

    @property
    def due(self) -> float:
        """When the listener runs dry, with what is made so far; on the loop's clock."""
        return self.listener.due(self._clock())

    @property
    def speak_due(self) -> float:
        """When it runs dry with what is spoken so far."""
        return self.due + self.undecoded_ms / 1000

    @property
    def starting(self) -> bool:
        """Whether only the first short chunks are made, or not even those."""
        return self.listener.made_ms < START_MS

    @property
    def pressed(self) -> bool:
        """Whether a listener who has heard some is about to run dry while work waits."""
        if self.listener.made_ms <= 0 or not (self._clauses or self.undecoded_ms > REST_MS):
            return False
        return self.due - self._clock() < NEAR_DRY_SECONDS

    @property
    def resting(self) -> bool:
        """Whether the reply needs nothing now: nobody hears it, or nobody reads it."""
        now = self._clock()
        if self._handing and now - self._handed_at > STUCK_SECONDS:
            return True
        if self._untaken_ms >= self._pacing.lead_ms:
            return True
        stands = self.listener.played_ms(now) >= self._until_ms
        return stands and math.isinf(self.listener.room_at(now))

    def begin(self) -> None:
        """Note that the reply begins to be spoken: its first audio is due from now on."""
        if self.listener.made_ms <= 0:
            self.listener = self._new_listener()

    def asked(self) -> None:
        """Note that the talker was given a clause."""
        self._clauses += 1

    def answered(self, clauses: int = 1) -> None:
        """Note that all frames of clauses are there, if they have any."""
        self._clauses = max(0, self._clauses - clauses)

    def spoke(self, ms: float) -> None:
        """Note what the talker has made frames of."""
        self._spoken_ms += ms

    def made(self, ms: float) -> None:
        """Note audio that goes to the listener."""
        self.listener.made(ms, self._clock())
        self._moved.set()

    def took(self, ms: float) -> None:
        """Note audio that the reader has taken."""
        self._taken_ms += ms
        self._moved.set()

    def played(self, played_ms: float, until_ms: float) -> None:
        """Note how far the listener is, and how far it plays on by itself."""
        self.listener.played(played_ms, until_ms, self._clock())
        self._until_ms = until_ms
        self._moved.set()

    @contextmanager
    def handing_over(self) -> Generator[None, None, None]:
        """Say that something waits for the reader meanwhile."""
        if not self._handing:
            self._handed_at = self._clock()
        self._handing += 1
        try:
            yield
        finally:
            self._handing -= 1
            self._handed_at = self._clock()

    async def wait_to_make(self) -> None:
        """Return once more audio may be made; at once where there is room."""
        await self._wait(lambda: 0.0)

    async def wait_to_speak(self) -> None:
        """Return once more may be spoken."""
        await self._wait(lambda: self.undecoded_ms)

    @property
    def _untaken_ms(self) -> float:
        return self.listener.made_ms - self._taken_ms

    async def _wait(self, ahead_ms: Callable[[], float]) -> None:
        while True:
            now = self._clock()
            at = self._room_at(now, ahead_ms())
            if at <= now:
                return
            self._moved.clear()
            try:
                async with asyncio.timeout(None if math.isinf(at) else at - now):
                    await self._moved.wait()
            except TimeoutError:
                pass

    def _room_at(self, now: float, ahead_ms: float) -> float:
        if self._untaken_ms + ahead_ms >= self._pacing.lead_ms:
            return math.inf
        return self.listener.room_at(now, ahead_ms) if self._paced else now

    def _new_listener(self) -> Listener:
        first_due = self._clock() + self._pacing.first_audio_ms / 1000
        return Listener(lead_ms=float(self._pacing.lead_ms), first_due=first_due)
