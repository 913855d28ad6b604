"""What the stages of one reply share: how far its listener is, and whose turn that makes it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from .deployment import Pacing
from .scheduling.listener import Listener


class Flow:
    """The pacing of one reply; for use on the event loop.

    Audio is *spoken* by the talker, as frames, and *made* by code2wav, as sound. Both are
    held back where they are ahead of the ear by all that is allowed.
    """

    def __init__(self, pacing: Pacing | None = None, clock: Callable[[], float] | None = None):
        """``clock``: seconds, by default those of the running loop."""
        pacing = pacing or Pacing()
        self._clock = clock or asyncio.get_running_loop().time
        first_due = self._clock() + pacing.first_audio_ms / 1000
        self.listener = Listener(lead_ms=float(pacing.lead_ms), first_due=first_due)
        self._spoken_ms = 0.0
        self._moved = asyncio.Event()

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

    def spoke(self, ms: float) -> None:
        """Note what the talker has made frames of."""
        self._spoken_ms += ms

    def made(self, ms: float) -> None:
        """Note audio that goes to the listener."""
        self.listener.made(ms, self._clock())

    def played(self, played_ms: float, until_ms: float) -> None:
        """Note how far the listener is, and how far it plays on by itself."""
        self.listener.played(played_ms, until_ms, self._clock())
        self._moved.set()

    async def wait_to_make(self) -> None:
        """Return once more audio may be made; at once where there is room."""
        await self._wait(lambda: 0.0)

    async def wait_to_speak(self) -> None:
        """Return once more may be spoken."""
        await self._wait(lambda: self.undecoded_ms)

    async def _wait(self, ahead_ms: Callable[[], float]) -> None:
        while True:
            now = self._clock()
            at = self.listener.room_at(now, ahead_ms())
            if at <= now:
                return
            self._moved.clear()
            # What is ahead shrinks as it is made, of which nobody is told here: look again.
            limit = min(at - now, 1.0) if ahead_ms() > 0 else at - now
            try:
                async with asyncio.timeout(None if math.isinf(limit) else limit):
                    await self._moved.wait()
            except TimeoutError:
                pass
