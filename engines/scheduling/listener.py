"""What one listener still has to play, and when it runs dry."""

from __future__ import annotations

import math


class Listener:
    """The playback of one reply, as far as its stages know of it.

    Until something is told of the playback, what is made is taken to be heard from the
    moment it was made, without a break other than those in the making. Instants are
    monotonic seconds, amounts of audio ms.
    """

    def __init__(self, *, lead_ms: float, first_due: float) -> None:
        """``lead_ms``: how far ahead of the ear audio may be made. ``first_due``: when the
        first of it should be there.
        """
        self.made_ms = 0.0
        self.misses = 0
        """How often audio came after the listener had run dry."""

        self.late_ms = 0.0
        """How much too late, in all."""

        self._lead_ms = lead_ms
        self._first_due = first_due
        self._played_ms = 0.0
        self._until_ms = 0.0
        self._at = 0.0
        self._told = False

    def made(self, ms: float, now: float) -> None:
        """Note that so much more audio is on its way to the listener."""
        if self.made_ms > 0 and (late_ms := (now - self.due(now)) * 1000) > 0:
            self.misses += 1
            self.late_ms += late_ms
        self._settle(now)
        self.made_ms += ms
        if not self._told:
            self._until_ms = self.made_ms

    def played(self, played_ms: float, until_ms: float, now: float) -> None:
        """Note that ``played_ms`` are heard by now, and playback goes on to ``until_ms``.

        What was heard is never taken back.
        """
        self._settle(now)
        self._told = True
        self._played_ms = min(self.made_ms, max(self._played_ms, played_ms))
        self._until_ms = min(self.made_ms, max(self._played_ms, until_ms))

    def played_ms(self, now: float) -> float:
        """Return how much is heard by ``now``."""
        return min(self._until_ms, self._played_ms + max(0.0, now - self._at) * 1000)

    def buffer_ms(self, now: float) -> float:
        """Return how much is made and not heard."""
        return self.made_ms - self.played_ms(now)

    def due(self, now: float) -> float:
        """Return the instant by which more has to be made; it may have passed."""
        if self.made_ms <= 0:
            return self._first_due
        if self._until_ms >= self.made_ms:
            return self._at + (self.made_ms - self._played_ms) / 1000
        return now + self.buffer_ms(now) / 1000

    def room_at(self, now: float, ahead_ms: float = 0.0) -> float:
        """Return when more may be made; infinite where that takes news of the playback.

        ``ahead_ms`` is audio that an earlier stage has in hand for later ones.
        """
        over_ms = self.buffer_ms(now) + ahead_ms - self._lead_ms
        if over_ms < 0:
            return now
        # Not at the bound itself: then a little is asked for at a time.
        over_ms += min(self._lead_ms / 8, 250.0)
        left_ms = self._until_ms - self.played_ms(now)
        return now + over_ms / 1000 if over_ms <= left_ms else math.inf

    def _settle(self, now: float) -> None:
        self._played_ms = self.played_ms(now)
        self._at = max(self._at, now)
