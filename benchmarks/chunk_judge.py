"""How rules do on a case, and what of the promise a rule breaks there."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.chunk_oracle import best
from benchmarks.chunk_policies import Adaptive30, Ours, Table, fresh_costs, rules_of
from benchmarks.chunk_sim import NO_GAP_MS, Outcome, Rule, Trace, play
from benchmarks.chunk_traces import Case

FASTER = 0.95
"""Production, of real time, up to which there shall be no gap."""

CLOSE = 1.10
"""TTFA against that of the best."""

GAP_MS = 100.0
"""Silence in a reply that people are said to notice."""

ORACLE, THEIRS, ESTIMATED, REPORTED = "oracle", "0.30 rule", "ours, no reports", "ours"
OURS = (ESTIMATED, REPORTED)

Maker = Callable[[Trace], Rule]
"""Makes the rule for the next reply of a case."""


def _ours(listens: bool) -> Callable[[Trace], Maker]:
    def replica(first: Trace) -> Maker:
        costs = fresh_costs(first)
        return lambda trace: Ours(rules_of(trace), costs, listens=listens)

    return replica


def _alike(make: Maker) -> Callable[[Trace], Maker]:
    return lambda first: make


RULES: dict[str, Callable[[Trace], Maker]] = {
    "fixed 1, 25": _alike(lambda trace: Table(1, 25)),
    "fixed 4, 4, 8, 16, 25": _alike(lambda trace: Table(4, 4, 8, 16, 25)),
    "constant 4": _alike(lambda trace: Table(4)),
    THEIRS: _alike(lambda trace: Adaptive30(trace.frame_ms, trace.load)),
    ESTIMATED: _ours(listens=False),
    REPORTED: _ours(listens=True),
}
"""Each makes, for the first reply of a case, what makes the rule for each."""


@dataclass(frozen=True, slots=True)
class Result:
    """A case, and how it went with every rule, and with perfect choices."""

    case: Case
    outcomes: dict[str, tuple[Outcome, ...]]

    def ttfa_ms(self, rule: str) -> float:
        return statistics.fmean(each.ttfa_ms for each in self.outcomes[rule])

    def underrun_ms(self, rule: str) -> float:
        return statistics.fmean(each.underrun_ms for each in self.outcomes[rule])

    def whole(self, rule: str) -> bool:
        return all(each.whole for each in self.outcomes[rule])

    @property
    def fast(self) -> bool:
        """Whether production is as fast as the promise asks for, in every reply."""
        return all(trace.production <= FASTER for trace in self.case.traces)

    @property
    def smallest_ms(self) -> float:
        """How long the frames of a smallest chunk take: one step of the ladder.

        Rules begin with sizes that a ladder does not have, so ours can't match each to the ms.
        """
        trace = self.case.traces[0]
        return trace.ladder[0] * (trace.pace_ms + trace.per_frame_ms)


def measure(case: Case, rules: dict[str, Callable[[Trace], Maker]] = RULES) -> Result:
    """Play all replies of a case with every rule."""
    outcomes = {ORACLE: tuple(best(trace) for trace in case.traces)}
    for name, replica in rules.items():
        make = replica(case.traces[0])
        outcomes[name] = tuple(play(trace, make(trace)) for trace in case.traces)
    return Result(case, outcomes)


def broken(result: Result, ours: str) -> list[str]:
    """Return what of the promise a rule breaks in a case; empty where it keeps it."""
    wrong: list[str] = []
    for number, trace in enumerate(result.case.traces):
        own, ideal = result.outcomes[ours][number], result.outcomes[ORACLE][number]
        if trace.production <= FASTER and ideal.whole and not own.whole:
            wrong.append(f"reply {number}: silent for {own.underrun_ms:.0f} ms, the oracle never")
    others = [name for name in result.outcomes if name not in (*OURS, ORACLE)]
    if result.fast and (clean := [name for name in others if result.whole(name)]):
        name = min(clean, key=result.ttfa_ms)
        own_ms, best_ms = result.ttfa_ms(ours), result.ttfa_ms(name)
        if own_ms > max(CLOSE * best_ms, best_ms + result.smallest_ms):
            wrong.append(f"first audio after {own_ms:.0f} ms, {name}: {best_ms:.0f} ms")
    later = result.ttfa_ms(ours) - result.ttfa_ms(THEIRS)
    silent = result.underrun_ms(ours) - result.underrun_ms(THEIRS)
    if later > NO_GAP_MS and silent > NO_GAP_MS:
        wrong.append(f"later by {later:.0f} ms and silent for {silent:.0f} ms more than {THEIRS}")
    return [f"{result.case.name}: {ours}: {each}" for each in wrong]
