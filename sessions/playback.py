"""How much of a spoken response was made, sent, and heard.

``generated_ms >= sent_ms >= played_ms``, each only growing. What was played comes from
the client's reports, or else is estimated. The two never mix in one response: whichever
is needed first, a report taken or an estimate asked for, decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum, auto

from .events import ReportPlayback, WordTime

TAIL_MS = 40
"""What is left of a reply below this is silence, or already in the sound card."""

GOES_ON_MS = 600
"""How long playback is taken to go on behind a report: three times the interval of clients
that report, so that one that pauses is soon known to."""

LAST_REPORT_S = 1.0
"""How long after what should be its end a client may still report."""

LEAST_GAP_MS = 1
"""A gap below this can't be heard, and may come of rounding."""


class Source(Enum):
    """Where a ledger takes from how much was played."""

    REPORT = auto()
    ESTIMATE = auto()


class Reported:
    """The playback as a client reports it; between reports it goes on by itself."""

    def __init__(self, now: float) -> None:
        self.position_ms = 0.0
        """The furthest that was reported."""

        self.going = True
        """Whether it goes on until the next report; a client that stands still is paused."""

        self.moved_at = now
        """When a report last had it further than the one before."""

        self.underruns = 0
        self.gap_ms = 0.0
        self._played_ms = 0.0
        self._at = now
        self._until_ms = 0.0
        """How far it can go on: to the end of what the client has."""

        self._until_at = now
        """How long it goes on without news."""

    def take(self, said: ReportPlayback, sent_ms: float, now: float, *, first: bool) -> None:
        """Take in a report of a response of which ``sent_ms`` are written."""
        position_ms = max(self.position_ms, min(said.played_ms, sent_ms))
        ahead_ms = min(said.buffered_ms, sent_ms - position_ms)
        moved = first or position_ms > self.position_ms
        # One that has run dry plays on as soon as it has something.
        self.going = moved or ahead_ms <= 0
        self.moved_at = now if moved else self.moved_at
        self.position_ms = self._played_ms = position_ms
        self._at = now
        self._until_ms = position_ms + ahead_ms
        self._until_at = now + GOES_ON_MS / 1000 if self.going else now

    def send(self, ms: float, now: float) -> None:
        """Note that the client will have more to play."""
        self._played_ms = self.played_ms(now)
        self._at = now
        self._until_ms += ms

    def played_ms(self, now: float) -> float:
        """Return how much is played by ``now``."""
        elapsed_ms = max(0.0, min(now, self._until_at) - self._at) * 1000
        return min(self._until_ms, self._played_ms + elapsed_ms)

    def reaches_at(self, ms: float) -> float:
        """Return when so much is played; infinite where that takes another report."""
        if ms <= self._played_ms:
            return self._at
        at = self._at + (ms - self._played_ms) / 1000
        return at if ms <= self._until_ms and at <= self._until_at else math.inf

    def heard_at(self, generated_ms: float) -> float:
        """Return when all will have been heard, played on at real-time speed."""
        return self._at + (generated_ms - self._played_ms) / 1000


class PlaybackLedger:
    """The ledger of one response.

    The estimate is a player that plays whatever it has: what is written while it still
    plays is heard behind that, what is written later at once. So it lags behind what was
    written by every gap in the supply.
    """

    def __init__(self) -> None:
        self.generated_ms = 0.0
        self.sent_ms = 0.0
        self.first_sent_at: float | None = None
        self.stopped = False
        """Whether playback was cut: what was heard by then is all that ever will be."""

        self._played_ms = 0.0
        self._source: Source | None = None
        self._reported: Reported | None = None
        self._ends_at = -math.inf
        """When all that is written will have been played, by the estimate."""

        self._sends = 0
        self._underruns = 0
        self._gap_ms = 0.0
        self._stopped_at: float | None = None

    # What happens.

    def generate(self, ms: float) -> None:
        """Note audio made."""
        self.generated_ms += ms

    def send(self, ms: float, now: float) -> None:
        """Note audio written to the wire at ``now``."""
        ms = min(ms, self.generated_ms - self.sent_ms)
        if ms <= 0:
            return
        if self.first_sent_at is None:
            self.first_sent_at = now
        elif (gap_ms := (now - self._ends_at) * 1000) >= LEAST_GAP_MS:
            self._underruns += 1
            self._gap_ms += gap_ms
        self._sends += 1
        self.sent_ms += ms
        self._ends_at = max(self._ends_at, now) + ms / 1000
        if self._reported is not None:
            self._reported.send(ms, now)

    def report(self, said: ReportPlayback, now: float) -> bool:
        """Take in what the client says; return whether it was of use.

        It is not once an estimate was used or playback was cut, nor where it can't be.
        """
        if self._source is Source.ESTIMATE or self.stopped or not _possible(said):
            return False
        self._source = Source.REPORT
        first = self._reported is None
        if self._reported is None:
            self._reported = Reported(now)
        self._reported.take(said, self.sent_ms, now, first=first)
        # No more than there was audio and time for.
        since_ms = 0.0 if self.first_sent_at is None else (now - self.first_sent_at) * 1000
        underruns, gap_ms = min(said.underruns, self._sends), min(said.gap_ms, since_ms)
        self._reported.underruns = max(self._reported.underruns, underruns)
        self._reported.gap_ms = max(self._reported.gap_ms, gap_ms)
        return True

    def stop(self, now: float) -> float:
        """Note that playback was cut at ``now``; return how much was heard."""
        played = self.played_ms(now)
        self.stopped = True
        self._stopped_at = now if self._stopped_at is None else self._stopped_at
        return played

    # What is known.

    @property
    def reported(self) -> Reported | None:
        """What the client reported, where it did."""
        return self._reported

    @property
    def underruns(self) -> int:
        """How often there was nothing to play although more was to come."""
        return self._underruns if self._reported is None else self._reported.underruns

    @property
    def gap_ms(self) -> float:
        """How long that was in all."""
        return self._gap_ms if self._reported is None else self._reported.gap_ms

    def played_ms(self, now: float) -> float:
        """Return how much was heard by ``now``; from now on that is where it comes from."""
        if self.sent_ms > 0:
            self._source = self._source or Source.ESTIMATE
            self._played_ms = self.seems_played_ms(now)
        return self._played_ms

    def seems_played_ms(self, now: float) -> float:
        """Return how much seems to be heard by ``now``; a later report may put that right."""
        if self.stopped:
            return self._played_ms
        if self._reported is not None:
            played_ms = self._reported.played_ms(now)
        else:
            played_ms = self.sent_ms - max(0.0, self._ends_at - now) * 1000
        return max(self._played_ms, played_ms)

    def heard_at(self, made_at: float) -> float:
        """Return when all of it will have been heard, played on at real-time speed.

        ``made_at`` stands for the start of playback while nothing of it is on the wire.
        """
        if self._stopped_at is not None:
            return self._stopped_at
        if self._reported is not None:
            return self._reported.heard_at(self.generated_ms)
        if self.first_sent_at is None:
            return made_at + self.generated_ms / 1000
        return self._ends_at + (self.generated_ms - self.sent_ms) / 1000

    def playing(self, now: float) -> bool:
        """Whether the client still has something to play."""
        return not self.stopped and self.generated_ms - self.played_ms(now) > TAIL_MS

    def low_at(self, left_ms: float) -> float:
        """Return since or from when less than ``left_ms`` of what is made is not heard.

        Minus infinity where there was never so much, infinity where it is not known: where
        it takes a write, or a report.
        """
        ms = self.generated_ms - left_ms
        if ms < 0:
            return -math.inf
        if self._reported is not None:
            return self._reported.reaches_at(ms)
        return self._ends_at - (self.sent_ms - ms) / 1000 if ms <= self.sent_ms else math.inf

    def over_at(self) -> float:
        """Return when all that is made has been heard, or a client that reports is silent.

        Infinity where that takes a write.
        """
        if self._reported is not None:
            if self.generated_ms - self._reported.position_ms <= TAIL_MS:
                return self._reported.moved_at
            return self._reported.heard_at(self.generated_ms) + LAST_REPORT_S
        return self._ends_at if self.generated_ms - self.sent_ms <= TAIL_MS else math.inf

    def moved_at(self, made_at: float) -> float:
        """Return until when playback is known to move; ``made_at`` while nothing is written."""
        if self._reported is not None:
            return self._reported.moved_at
        return made_at if self.first_sent_at is None else self._ends_at


def _possible(said: ReportPlayback) -> bool:
    # Written so that what is not a number fails too.
    numbers = (said.played_ms, said.buffered_ms, said.underruns, said.gap_ms)
    return all(0 <= number < math.inf for number in numbers)


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


def heard_text(text: str, words: Sequence[WordTime], heard_ms: float, total_ms: float) -> str:
    """Return the part of ``text`` that was heard by ``heard_ms``, cut between words.

    ``words`` are the words of ``text`` in order, joined by its white space or by nothing,
    possibly not all of them yet. A word counts once all of it was heard. Without word times
    the text is cut in proportion to ``total_ms``.
    """
    if not words:
        return _share_of(text, heard_ms / total_ms if total_ms > 0 else 0.0)
    end = 0
    for word in words:
        if word.end_ms <= heard_ms:
            end = _after_word(text, end, word.text)
    return text[:end]


def _share_of(text: str, share: float) -> str:
    count = len(text.split())
    return _first_words(text, int(count * min(1.0, max(0.0, share))))


def _first_words(text: str, count: int) -> str:
    """Return the first ``count`` words of ``text`` with the white space between them."""
    end = 0
    for _ in range(count):
        end = _after_word(text, end)
    return text[:end]


def _after_word(text: str, at: int, word: str = "") -> int:
    """Return where the word behind ``at`` ends: ``word``, if it is there, or a white space."""
    while at < len(text) and text[at].isspace():
        at += 1
    if word and text.startswith(word, at):
        return at + len(word)
    while at < len(text) and not text[at].isspace():
        at += 1
    return at
