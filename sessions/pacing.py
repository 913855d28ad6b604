"""What the stages of a response believe of its playback, and when they have to be told.

By themselves they take audio to be heard as it is made, at real-time speed from the moment
when it is there. That is so in the usual case, and then nothing is said. They are told
where it is not: nobody hears a draft, a slow client is written to later, and a client that
reports knows better.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .playback import GOES_ON_MS, PlaybackLedger

TOLERANCE_MS = 100.0
"""How wrong the stages may be of what is heard, and how late audio is written unremarked."""

REPORTS_S = 0.05
"""Of the reports of a client no more than one in so long is passed on."""


class News(NamedTuple):
    """What the stages are told."""

    played_ms: float
    until_ms: float
    """How far playback goes on by itself; infinite where that is as far as there is audio."""


class Pace:
    """Follows what the stages of one response believe, and compares it with its ledger."""

    def __init__(self, ledger: PlaybackLedger) -> None:
        self._ledger = ledger
        self._made_ms = 0.0
        self._believed_ms = 0.0
        self._at = 0.0
        self._until_ms = math.inf
        self._hidden = False
        self._passed_on_at = -math.inf

    def made(self, ms: float, now: float) -> News | None:
        """Note audio that stages made; return what they have to know."""
        news = None if self._hidden else self._correct(now)
        self._believed_ms, self._at = self._believes_ms(now), now
        self._made_ms += ms
        return news

    def hide(self, now: float) -> News | None:
        """Note that nobody hears this before it is written."""
        if self._hidden:
            return None
        self._hidden = True
        return self._tell(News(0.0, 0.0), now)

    def wrote(self, now: float) -> News | None:
        """Compare once audio was written; return what the stages have to know."""
        self._hidden = False
        return self._correct(now)

    def reported(self, now: float) -> News | None:
        """Return what the stages have to know of a report that was just taken."""
        reported = self._ledger.reported
        if reported is None or now < self._passed_on_at + REPORTS_S:
            return None
        self._passed_on_at = now
        position_ms = reported.position_ms
        ahead_ms = GOES_ON_MS if reported.going else 0
        return self._tell(News(position_ms, position_ms + ahead_ms), now)

    # Inside.

    def _correct(self, now: float) -> News | None:
        ledger = self._ledger
        if ledger.reported is not None:
            # The next report tells more than this could.
            return None
        heard_ms = ledger.seems_played_ms(now)
        in_time = self._made_ms - ledger.sent_ms <= TOLERANCE_MS
        until_ms = math.inf if in_time else ledger.sent_ms
        if math.isinf(self._until_ms):
            told = abs(self._believes_ms(now) - heard_ms) <= TOLERANCE_MS
        else:
            told = until_ms <= self._until_ms
        return None if told else self._tell(News(heard_ms, until_ms), now)

    def _tell(self, news: News, now: float) -> News:
        self._believed_ms, self._until_ms = news
        self._at = now
        return news

    def _believes_ms(self, now: float) -> float:
        elapsed_ms = (now - self._at) * 1000
        return min(self._made_ms, self._until_ms, self._believed_ms + elapsed_ms)
