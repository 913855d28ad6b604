"""One reply from its first frame to its last sample, simulated: producer, decoder, way, ear.

Frames become ready as a :class:`Trace` says. A rule turns them into chunks, a serial decoder
decodes one after the other, and a client plays them from the moment the first is there. What
the world does depends on the trace alone and not on the rule, and whoever asks earlier is
never served later; so rules can be compared, and the best choices be found afterwards. All
times are ms from the request.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

REPORT_MS = 200.0
"""How often a client tells how far it is."""

NO_GAP_MS = 1.0
"""Silence that does not count: clocks and timers are no finer."""

Spans = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What happens to one reply, whatever the rule."""

    frame_ms: float
    """Audio of one frame."""

    ladder: tuple[int, ...]
    """Sizes of chunk that the decoder allows, ascending."""

    ready_ms: tuple[float, ...]
    """When each frame is there; never descending."""

    fixed_ms: float
    per_frame_ms: float
    """A decode of n frames takes ``fixed_ms + n * per_frame_ms``, times its factor."""

    factors: tuple[float, ...]
    """For each frame, the factor of a decode that begins with it."""

    delays_ms: tuple[float, ...]
    """For each frame, how long a chunk that begins with it is on the way to the client."""

    busy_ms: Spans = ()
    """When the decoder works for others: a decode asked for then begins at the end."""

    blocked_ms: Spans = ()
    """When nothing reaches the client: what would, does at the end."""

    paused_ms: Spans = ()
    """When the client stands still, and goes on where it was at the end."""

    ends: tuple[int, ...] = ()
    """Frames after which a clause ends; no chunk holds frames of two. Empty: one clause."""

    load: float = 0.0
    """Share of the places for requests that is taken, which some rules go by."""

    @property
    def frames(self) -> int:
        """How many there are."""
        return len(self.ready_ms)

    @property
    def audio_ms(self) -> float:
        """Length of the reply."""
        return self.frames * self.frame_ms

    @property
    def clause_ends(self) -> tuple[int, ...]:
        """The end of each clause, the last being that of the reply."""
        return self.ends or (self.frames,)

    @property
    def pace_ms(self) -> float:
        """Mean time between two frames."""
        return (self.ready_ms[-1] - self.ready_ms[0]) / max(1, self.frames - 1)

    @property
    def production(self) -> float:
        """Time that a second of audio takes where it takes longest, at the largest chunks."""
        factor = sum(self.factors) / len(self.factors)
        decode_ms = (self.per_frame_ms + self.fixed_ms / self.ladder[-1]) * factor
        return max(self.pace_ms, decode_ms) / self.frame_ms

    @property
    def at_once_ms(self) -> float:
        """What decoding costs where all is decoded together."""
        factor = sum(self.factors) / len(self.factors)
        return (self.fixed_ms + self.frames * self.per_frame_ms) * factor

    def decode(self, first: int, count: int, asked: float) -> tuple[float, float]:
        """Return when a decode begins and ends."""
        start = released(self.busy_ms, asked)
        cost = (self.fixed_ms + count * self.per_frame_ms) * self.factors[first]
        return start, start + cost

    def heard(self, since: float, audio_ms: float) -> float:
        """Return when so much audio is played that playback of it begins at ``since``."""
        for start, end in self.paused_ms:
            if end <= since:
                continue
            if since + audio_ms <= start:
                break
            audio_ms -= max(0.0, start - since)
            since = end
        return since + audio_ms

    def arrival(self, first: int, sent: float) -> float:
        """Return when a chunk is at the client, unless an earlier one holds it up."""
        return released(self.blocked_ms, sent + self.delays_ms[first])


def released(spans: Spans, at: float) -> float:
    """Return ``at``, or the end of the span that it lies in."""
    index = bisect_right(spans, (at, math.inf)) - 1
    return max(at, spans[index][1]) if index >= 0 else at


@dataclass(frozen=True, slots=True)
class Asked:
    """What a rule decides on."""

    now: float
    have: int
    """Frames of the clause that are ready and in no chunk yet."""

    complete: bool
    """Whether they are the last of the clause."""

    behind: int = 0
    """Frames of later clauses that are ready too."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What it decides."""

    frames: int
    """The next chunk; 0 is to wait."""

    again_ms: float | None = None
    """Then ask again after so long, where no frame comes before."""


class Rule(Protocol):
    """Chooses the chunks of one reply."""

    @property
    def ahead(self) -> bool:
        """Whether chunks are chosen as frames come, not when the decoder can take one."""
        ...

    @property
    def listens(self) -> bool:
        """Whether the client's reports are heeded."""
        ...

    def arrived(self, frames: int, now: float) -> None:
        """Take note of frames."""
        ...

    def ask(self, asked: Asked) -> Answer:
        """Choose."""
        ...

    def made(self, frames: int, waited_ms: float, cost_ms: float, now: float) -> None:
        """Take note of a decoded chunk, which is sent now."""
        ...

    def reported(self, played_ms: float, until_ms: float, now: float) -> None:
        """Take note of what the client has played, and how far it has audio."""
        ...

    def ended(self) -> None:
        """Take note that the reply is made to its end."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk of a reply that was played."""

    first: int
    frames: int
    sent: float
    there: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a reply went."""

    chunks: tuple[Chunk, ...]
    ttfa_ms: float
    underrun_ms: float
    """Silence inside of the reply, in all."""

    gaps: int
    cost_ms: float
    """What decoding took."""

    @property
    def whole(self) -> bool:
        """Whether nobody heard a gap."""
        return self.underrun_ms <= NO_GAP_MS


class Ear:
    """The client: plays what is there, from the moment the first is."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.chunks: list[Chunk] = []
        self.underrun_ms = 0.0
        self.gaps = 0
        self._ends = 0.0
        """When it runs dry."""

    @property
    def frames(self) -> int:
        """How many it was sent."""
        return self.chunks[-1].first + self.chunks[-1].frames if self.chunks else 0

    def take(self, first: int, frames: int, sent: float) -> float:
        """Add a chunk, after those before it; return when it is there."""
        trace = self._trace
        there = trace.arrival(first, sent)
        if self.chunks:
            there = max(there, self.chunks[-1].there)
            late = _outside(trace.paused_ms, self._ends, there)
            self.underrun_ms += late
            self.gaps += late > NO_GAP_MS
        self._ends = trace.heard(max(there, self._ends), frames * trace.frame_ms)
        self.chunks.append(Chunk(first, frames, sent, there))
        return there

    def state(self, at: float) -> tuple[float, float]:
        """Return what is played at ``at``, and how far audio is there."""
        trace = self._trace
        there = end = 0.0
        for chunk in self.chunks:
            if chunk.there > at:
                break
            end = trace.heard(max(end, chunk.there), chunk.frames * trace.frame_ms)
            there += chunk.frames * trace.frame_ms
        return there - _outside(trace.paused_ms, at, end), there


def _outside(spans: Spans, start: float, end: float) -> float:
    """Return how much of the time from ``start`` to ``end`` lies in no span; at least 0."""
    inside = sum(max(0.0, min(end, stop) - max(start, begin)) for begin, stop in spans)
    return max(0.0, end - start - inside)


class _Play:
    """The events of one reply, in order."""

    def __init__(self, trace: Trace, rule: Rule) -> None:
        self._trace = trace
        self._rule = rule
        self._ear = Ear(trace)
        self._now = 0.0
        self._arrived = 0
        self._chosen = 0
        self._queue: deque[tuple[int, int, float]] = deque()
        """Chunks that wait for the decoder: first frame, frames, since when."""

        self._decoding: tuple[int, int, float, float, float] | None = None
        """First frame, frames, asked for, begun, done."""

        self._again = math.inf
        self._report = math.inf
        self._reports: deque[tuple[float, float, float]] = deque()
        self._cost = 0.0

    def run(self) -> Outcome:
        trace = self._trace
        while self._ear.frames < trace.frames:
            self._now = self._next_time()
            if math.isinf(self._now):
                raise RuntimeError(f"the rule stopped after {self._chosen} of {trace.frames}")
            self._finish_decode()
            self._hear_reports()
            self._take_frames()
            self._again = self._again if self._again > self._now else math.inf
            if not self._rule.ahead:
                self._choose()
            self._begin_decode()
        self._rule.ended()
        ear = self._ear
        return Outcome(
            tuple(ear.chunks), ear.chunks[0].there, ear.underrun_ms, ear.gaps, self._cost
        )

    def _next_time(self) -> float:
        trace = self._trace
        frame = trace.ready_ms[self._arrived] if self._arrived < trace.frames else math.inf
        done = self._decoding[4] if self._decoding else math.inf
        told = self._reports[0][0] if self._reports else math.inf
        return min(frame, done, told, self._report, self._again)

    def _finish_decode(self) -> None:
        if self._decoding is None or self._decoding[4] > self._now:
            return
        first, frames, asked, begun, done = self._decoding
        self._decoding = None
        self._cost += done - begun
        there = self._ear.take(first, frames, done)
        if len(self._ear.chunks) == 1 and self._rule.listens:
            self._report = there
        self._rule.made(frames, begun - asked, done - begun, done)

    def _hear_reports(self) -> None:
        if self._report <= self._now:
            back = min(self._trace.delays_ms)
            self._reports.append((self._now + back, *self._ear.state(self._now)))
            self._report += REPORT_MS
        while self._reports and self._reports[0][0] <= self._now:
            _, played, until = self._reports.popleft()
            self._rule.reported(played, until, self._now)

    def _take_frames(self) -> None:
        trace, came = self._trace, self._arrived
        while self._arrived < trace.frames and trace.ready_ms[self._arrived] <= self._now:
            self._arrived += 1
            if self._rule.ahead:
                self._rule.arrived(1, self._now)
                self._choose()
        if self._arrived > came:
            self._again = math.inf
            if not self._rule.ahead:
                self._rule.arrived(self._arrived - came, self._now)

    def _choose(self) -> None:
        while self._chosen < self._arrived:
            if not self._rule.ahead and (self._decoding or self._queue):
                return
            end = next(end for end in self._trace.clause_ends if end > self._chosen)
            have = min(self._arrived, end) - self._chosen
            behind = max(0, self._arrived - end)
            answer = self._rule.ask(Asked(self._now, have, self._arrived >= end, behind))
            if not answer.frames:
                if answer.again_ms is not None:
                    # Not at once: a timer takes at least so long.
                    self._again = self._now + max(NO_GAP_MS, answer.again_ms)
                return
            if answer.frames > have:
                raise RuntimeError(f"the rule took {answer.frames} frames of {have}")
            self._again = math.inf
            self._queue.append((self._chosen, answer.frames, self._now))
            self._chosen += answer.frames

    def _begin_decode(self) -> None:
        if self._queue and self._decoding is None:
            first, frames, asked = self._queue.popleft()
            start, done = self._trace.decode(first, frames, self._now)
            self._decoding = (first, frames, asked, start, done)


def play(trace: Trace, rule: Rule) -> Outcome:
    """Let a rule serve a reply.

    Raises:
        RuntimeError: the rule takes frames that are not there, or waits for ever.
    """
    return _Play(trace, rule).run()


def buffer_line(trace: Trace, chunks: Sequence[Chunk]) -> tuple[list[float], list[float]]:
    """Return times, and audio that a client left alone has then: up at chunks, down in between."""
    times: list[float] = []
    left: list[float] = []
    end = chunks[0].there
    for chunk in chunks:
        if chunk.there > end:
            times.append(end)
            left.append(0.0)
        before = max(0.0, end - chunk.there)
        times += [chunk.there, chunk.there]
        left += [before, before + chunk.frames * trace.frame_ms]
        end = max(end, chunk.there) + chunk.frames * trace.frame_ms
    return [*times, end], [*left, 0.0]
