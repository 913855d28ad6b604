"""What one listener still has to play, and when it runs dry."""

from __future__ import annotations

import math

REPORT_GRACE_MS = 500.0
"""A report may be so old that playback has gone on by this since, past where it then ended."""

NO_GAP_MS = 1.0
"""So little too late is not heard, and below what clocks agree on."""

LONGEST_WAY_MS = 250.0
"""More than this between making and hearing is a listener who plays late, not the way there."""


class Listener:
    """The playback of one reply, as far as its stages know of it.

    Until something is told of the playback, what is made is taken to be heard from the
    moment it was made, without a break other than those in the making. Instants are
    monotonic seconds, amounts of audio ms; such that are not finite, or negative, count as 0.

    What is told is old when it comes, and says nothing of what is on its way. So there are two
    views. For how far ahead audio may be made, playback is where it was told to be, and goes on
    no further than it was told to. For when more has to be there, it goes on through all that
    is made, and is as late as it was told to be beyond the least that it ever was: that least
    is the way there and back.
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
        # As told, and since when it goes on from there.
        self._played_ms = 0.0
        self._told_ms = 0.0
        self._until_ms = math.inf
        self._at = 0.0
        self._way_ms = LONGEST_WAY_MS
        # As if heard as it is made, without and with what was told.
        self._made_line = _Line()
        self._ear_line = _Line()

    def made(self, ms: float, now: float) -> None:
        """Note that so much more audio is on its way to the listener."""
        ms = _sound(ms)
        if self.made_ms > 0 and (late_ms := (now - self.due(now)) * 1000) > NO_GAP_MS:
            self.misses += 1
            self.late_ms += late_ms
        self._settle(now)
        for line in (self._made_line, self._ear_line):
            line.hold(self.made_ms, now)
        self.made_ms += ms

    def played(self, played_ms: float, until_ms: float, now: float) -> None:
        """Note that ``played_ms`` are heard by now, and playback goes on to ``until_ms``.

        That may be more than is made by now, and is infinite where audio is heard as it
        comes. What was taken to be heard is put right; what was told is never taken back.
        """
        self._settle(now)
        self._told_ms = min(self.made_ms, max(self._told_ms, _sound(played_ms)))
        self._played_ms = self._told_ms
        self._until_ms = max(self._told_ms, until_ms if until_ms > 0 else 0.0)
        behind_ms = min(self.made_ms, self._made_line.at(now)) - self._told_ms
        self._way_ms = min(self._way_ms, max(0.0, behind_ms))
        heard_ms = self._told_ms + self._way_ms
        if heard_ms < self.made_ms or self.due(now) > now:
            self._ear_line.set(min(heard_ms, self.made_ms), now)

    def played_ms(self, now: float) -> float:
        """Return how much is heard by ``now``, as far as was told."""
        heard_ms = self._played_ms + max(0.0, now - self._at) * 1000
        return min(self.made_ms, self._until_ms, heard_ms)

    def buffer_ms(self, now: float) -> float:
        """Return how much is left to hear until more has to be there; at least 0."""
        return max(0.0, self.made_ms - self._ear_ms(now))

    def due(self, now: float) -> float:
        """Return the instant by which more has to be made; it may have passed."""
        if self.made_ms <= 0:
            return self._first_due
        if self._ear_line.at(now) > self._latest_ms:
            return now + (self.made_ms - min(self._latest_ms, self.made_ms)) / 1000
        return self._ear_line.when(self.made_ms)

    def room_at(self, now: float, ahead_ms: float = 0.0) -> float:
        """Return when more may be made; infinite where that takes news of the playback.

        ``ahead_ms`` is audio that an earlier stage has in hand for later ones.
        """
        played_ms = self.played_ms(now)
        over_ms = self.made_ms - played_ms + ahead_ms - self._lead_ms
        if over_ms < 0:
            return now
        # Not at the bound itself: then a little is asked for at a time.
        over_ms += min(self._lead_ms / 8, 250.0)
        return now + over_ms / 1000 if over_ms <= self._until_ms - played_ms else math.inf

    @property
    def _latest_ms(self) -> float:
        """Where playback stands still without news."""
        return self._until_ms + self._way_ms + REPORT_GRACE_MS

    def _ear_ms(self, now: float) -> float:
        return min(self.made_ms, self._latest_ms, self._ear_line.at(now))

    def _settle(self, now: float) -> None:
        self._played_ms = self.played_ms(now)
        self._at = max(self._at, now)


class _Line:
    """Playback that goes on at real time from a point."""

    def __init__(self) -> None:
        self._ms = 0.0
        self._since = 0.0

    def at(self, now: float) -> float:
        return self._ms + max(0.0, now - self._since) * 1000

    def when(self, ms: float) -> float:
        return self._since + (ms - self._ms) / 1000

    def set(self, ms: float, now: float) -> None:
        self._ms, self._since = ms, now

    def hold(self, made_ms: float, now: float) -> None:
        """Let playback have stopped at what was made, if it is that far."""
        if self.at(now) >= made_ms:
            self.set(made_ms, now)


def _sound(ms: float) -> float:
    return ms if math.isfinite(ms) and ms > 0 else 0.0
