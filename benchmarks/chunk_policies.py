"""Rules of chunk size to compare: fixed ones, the adaptive one of vLLM-Omni 0.30, and ours."""

from __future__ import annotations

from benchmarks.chunk_sim import Answer, Asked, Trace

from antiphon.engines.scheduling.costs import Costs
from antiphon.engines.scheduling.listener import Listener
from antiphon.engines.scheduling.ramp import Ramp, RampRules

LEAD_MS = 4000.0
"""How far ahead of the ear our rule goes, as a deployment does by default."""


class _Ahead:
    """What rules have in common that choose as frames come and hear of nothing else."""

    ahead = True
    listens = False

    def arrived(self, frames: int, now: float) -> None:
        pass

    def made(self, frames: int, waited_ms: float, cost_ms: float, now: float) -> None:
        pass

    def reported(self, played_ms: float, until_ms: float, now: float) -> None:
        pass

    def ended(self) -> None:
        pass


class Table(_Ahead):
    """Given sizes one after the other; the last repeats."""

    def __init__(self, *sizes: int) -> None:
        self._sizes = sizes
        self._chunks = 0

    def ask(self, asked: Asked) -> Answer:
        size = self._sizes[min(self._chunks, len(self._sizes) - 1)]
        if asked.have < size and not asked.complete:
            return Answer(0)
        self._chunks += 1
        return Answer(min(size, asked.have))


class Adaptive30(_Ahead):
    """The adaptive rule of vLLM-Omni 0.30.

    It reckons with the times at which the talker makes frames and nothing later. The first
    chunk goes by load. After it a chunk may be as large as half-way trusted pace and an
    estimated buffer allow, but at least a little larger than the last: that floor rises whether
    or not the buffer pays for it. Once the buffer covers a largest chunk, all are that.
    """

    MIN, MAX = 2, 25
    MARGIN_MS = 50.0
    DIVISOR, LEAST_STEP = 15, 2
    NEWS = 0.3
    """Weight of a new measurement of the pace."""

    def __init__(self, frame_ms: float, load: float) -> None:
        """``load``: share of the requests that there is room for."""
        firsts = [2, 4, 8, 16]
        self._first = firsts[round(min(load, 1.0) * (len(firsts) - 1))]
        self._frame_ms = frame_ms
        self._pace = 0.0
        self._began = self._last = 0.0
        self._shipped = 0
        self._target = 0
        self._locked = False

    def ask(self, asked: Asked) -> Answer:
        target = self._aim(asked.now) if self._shipped else self._first
        if asked.have < target and not asked.complete:
            return Answer(0)
        if self._shipped:
            pace = (asked.now - self._last) / asked.have
            known = self._pace > 0
            self._pace = self.NEWS * pace + (1 - self.NEWS) * self._pace if known else pace
        else:
            self._began = asked.now
        self._target = target if self._shipped else asked.have
        self._last = asked.now
        self._shipped += asked.have
        return Answer(asked.have)

    def _aim(self, now: float) -> int:
        if self._locked:
            return self.MAX
        buffer = self._shipped * self._frame_ms - (now - self._began)
        if not self._pace:
            return min(max(self._target + self.LEAST_STEP, self.MIN), self.MAX)
        if buffer >= self.MAX * self._pace + self.MARGIN_MS:
            self._locked = True
            return self.MAX
        spare = max(0.0, buffer - self.MARGIN_MS)
        greedy = max(self.MIN, min(int(spare / self._pace), self.MAX))
        step = max(self.LEAST_STEP, int(self._pace / self.DIVISOR))
        return min(max(self._target + step, greedy), self.MAX)


class Ours:
    """The ramp, with the listener and the costs that a stage gives it."""

    ahead = False

    def __init__(self, rules: RampRules, costs: Costs, *, listens: bool) -> None:
        """``costs``: of the replica, so shared by the replies that follow each other."""
        self.listens = listens
        self._frame_ms = rules.frame_ms
        self._costs = costs
        self._ramp = Ramp(rules, costs)
        self._listener = Listener(lead_ms=LEAD_MS, first_due=0.3)
        self._came: float | None = None
        self._first: float | None = None

    def arrived(self, frames: int, now: float) -> None:
        if self._came is not None:
            self._costs.arrived(frames, now - self._came)
        self._came = now
        self._first = now if self._first is None else self._first

    def ask(self, asked: Asked) -> Answer:
        now = asked.now / 1000
        room = self._listener.room_at(now)
        if room > now:
            return Answer(0, min((room - now) * 1000, 1000.0))
        started = self._listener.made_ms > 0
        step = self._ramp.next(
            have=asked.have,
            complete=asked.complete,
            buffer_ms=self._listener.buffer_ms(now) if started else None,
            waited_ms=0.0 if started or self._first is None else asked.now - self._first,
            behind=asked.behind,
        )
        return Answer(step.frames, step.again_ms)

    def made(self, frames: int, waited_ms: float, cost_ms: float, now: float) -> None:
        self._costs.waited(waited_ms)
        self._costs.decoded(frames, cost_ms)
        self._listener.made(frames * self._frame_ms, now / 1000)

    def reported(self, played_ms: float, until_ms: float, now: float) -> None:
        self._listener.played(played_ms, until_ms, now / 1000)

    def ended(self) -> None:
        self._costs.ended(self._listener.made_ms)


def rules_of(trace: Trace) -> RampRules:
    """Return our rule's settings for the decoder of a trace: the defaults."""
    return RampRules(frame_ms=trace.frame_ms, sizes=trace.ladder)


def fresh_costs(trace: Trace) -> Costs:
    """Return what a replica knows at its start: the cost of a decode, from its warm-up."""
    return Costs(fixed_ms=trace.fixed_ms, frame_ms=trace.per_frame_ms)
