"""How much of a spoken response was made, sent, and heard.

``generated_ms >= sent_ms >= played_ms``, each only growing. What was played comes from
the client's reports, or else is estimated. The two never mix in one response: whichever
is needed first, a report taken or an estimate asked for, decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from .events import WordTime


class Source(Enum):
    """Where a ledger takes from how much was played."""

    REPORT = auto()
    ESTIMATE = auto()


class PlaybackLedger:
    """The ledger of one response."""

    def __init__(self) -> None:
        self.generated_ms = 0.0
        self.sent_ms = 0.0
        self._first_sent_at: float | None = None
        self._played_ms = 0.0
        self._source: Source | None = None
        self._reported_at: float | None = None
        self._stopped_at: float | None = None
        self.stopped = False
        """Whether playback was cut: what was heard by then is all that ever will be."""

    def generate(self, ms: float) -> None:
        """Note audio made."""
        self.generated_ms += ms

    def send(self, ms: float, now: float) -> None:
        """Note audio written to the wire at ``now``."""
        if self._first_sent_at is None:
            self._first_sent_at = now
        self.sent_ms = min(self.generated_ms, self.sent_ms + ms)

    def report(self, played_ms: float, now: float) -> None:
        """Note what the client says it has played; ignored once an estimate was used."""
        self._source = self._source or Source.REPORT
        if self._source is Source.REPORT and not self.stopped:
            self._played_ms = max(self._played_ms, min(played_ms, self.sent_ms))
            self._reported_at = now

    def played_ms(self, now: float) -> float:
        """Return how much was heard by ``now``: reported, or sent at real-time speed."""
        if self._first_sent_at is None:
            return 0.0
        self._source = self._source or Source.ESTIMATE
        if self._source is Source.ESTIMATE and not self.stopped:
            elapsed_ms = (now - self._first_sent_at) * 1000
            self._played_ms = max(self._played_ms, min(self.sent_ms, elapsed_ms))
        return self._played_ms

    def stop(self, now: float) -> float:
        """Note that playback was cut at ``now``; return how much was heard."""
        played = self.played_ms(now)
        self.stopped = True
        self._stopped_at = now if self._stopped_at is None else self._stopped_at
        return played

    def heard_at(self, made_at: float) -> float:
        """Return when all of it will have been heard, played on at real-time speed.

        ``made_at`` stands for the start of playback while nothing of it is on the wire.
        """
        if self._stopped_at is not None:
            return self._stopped_at
        if self._reported_at is not None:
            return self._reported_at + (self.generated_ms - self._played_ms) / 1000
        first_at = made_at if self._first_sent_at is None else self._first_sent_at
        return first_at + self.generated_ms / 1000

    def playing(self, now: float) -> bool:
        """Whether the client still has something to play."""
        return not self.stopped and self.generated_ms - self.played_ms(now) > TAIL_MS


class Spoken:
    """What a spoken item says, when each word sounds, and how much was heard."""

    def __init__(self) -> None:
        self.text = ""
        self.words: list[WordTime] = []
        self.ledger = PlaybackLedger()
        self.cut_ms: float | None = None
        """Where it was cut; only what was heard by then counts for the model."""

        self.told_ms: float | None = None
        """Where the client said that it cut: what is behind it never comes back."""

    @property
    def length_ms(self) -> float:
        """How much of it the client may have heard at most."""
        return self.ledger.sent_ms if self.told_ms is None else self.told_ms

    @property
    def heard(self) -> str:
        """What the model is shown: all of it, or the words that were over at the cut."""
        if self.cut_ms is None:
            return self.text
        return heard_text(self.text, self.words, self.cut_ms, self.ledger.generated_ms)


TAIL_MS = 40
"""What is left of a reply below this is silence, or already in the sound card."""


def heard_text(text: str, words: Sequence[WordTime], heard_ms: float, total_ms: float) -> str:
    """Return the part of ``text`` that was heard by ``heard_ms``, cut between words.

    ``words`` are the words of ``text`` as split at white space, in order, possibly not
    all of them yet. A word counts once all of it was heard. Without word times the text
    is cut in proportion to ``total_ms``.
    """
    if not words:
        return _share_of(text, heard_ms / total_ms if total_ms > 0 else 0.0)
    heard = sum(1 for word in words if word.end_ms <= heard_ms)
    return _first_words(text, heard)


def _share_of(text: str, share: float) -> str:
    count = len(text.split())
    return _first_words(text, int(count * min(1.0, max(0.0, share))))


def _first_words(text: str, count: int) -> str:
    """Return the first ``count`` words of ``text`` with the white space between them."""
    end = 0
    for _ in range(count):
        while end < len(text) and text[end].isspace():
            end += 1
        while end < len(text) and not text[end].isspace():
            end += 1
    return text[:end]
