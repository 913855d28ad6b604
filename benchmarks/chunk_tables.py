"""The tables of a run, in Markdown."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from benchmarks.chunk_judge import FASTER, GAP_MS, ORACLE, OURS, RULES, THEIRS, Result
from benchmarks.chunk_sim import Outcome, Trace, play
from benchmarks.chunk_traces import even

NAMES = (*RULES, ORACLE)

EVEN_MS = (50.0, 60.0, 65.0, 70.0, 75.0)
"""Between two frames of 80 ms."""


def table(results: Sequence[Result]) -> str:
    """Return the figures of each rule over all synthetic cases and over the recorded ones."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        name = result.case.family
        if not name.startswith("recorded"):
            name = f"production {'up to' if result.fast else 'over'} {FASTER:g}"
        groups[name].append(result)
    rows = [
        "| traces | rule | TTFA p50 | p95 | silence, mean | replies > 100 ms | decode cost |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, members in groups.items():
        rows += [_row(name, rule, members) for rule in NAMES]
    return "\n".join(rows)


def by_family(results: Sequence[Result]) -> str:
    """Return TTFA and silence of each rule by family, of cases that are fast enough."""
    families: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.fast:
            families[result.case.family].append(result)
    rows = [f"| traces | {' | '.join(NAMES)} |", "|---" * (len(NAMES) + 1) + "|"]
    for family, members in families.items():
        cells = [_cell(_replies(members, rule)) for rule in NAMES]
        rows.append(f"| {family} | {' | '.join(cells)} |")
    return "\n".join(rows)


def even_table() -> str:
    """Return the silence that rules make where frames come evenly, by the time between two."""
    rows = [
        f"| decode | rule | {' | '.join(f'{pace:g} ms' for pace in EVEN_MS)} |",
        "|---" * (len(EVEN_MS) + 2) + "|",
    ]
    for fixed_ms, per_frame_ms in ((0.0, 0.0), (15.0, 1.0)):
        for rule in (THEIRS, *OURS):
            cells: list[str] = []
            for pace in EVEN_MS:
                trace = even(pace, fixed_ms=fixed_ms, per_frame_ms=per_frame_ms)
                cells.append(f"{play(trace, RULES[rule](trace)(trace)).underrun_ms:.0f}")
            rows.append(
                f"| {fixed_ms:g} ms + {per_frame_ms:g} a frame | {rule} | {' | '.join(cells)} |"
            )
    return "\n".join(rows)


def cases(results: Iterable[Result]) -> str:
    """Return a line for each case and rule, with the first chunks of its first reply."""
    lines: list[str] = []
    for result in results:
        for rule, outcomes in result.outcomes.items():
            sizes = [chunk.frames for chunk in outcomes[0].chunks][:12]
            lines.append(
                f"{result.case.name:28} {rule:22} TTFA {result.ttfa_ms(rule):5.0f} "
                f"silent {result.underrun_ms(rule):6.1f} {sizes}"
            )
    return "\n".join(lines)


def _replies(members: Iterable[Result], rule: str) -> list[tuple[Trace, Outcome]]:
    return [
        pair
        for result in members
        for pair in zip(result.case.traces, result.outcomes[rule], strict=True)
    ]


def _row(name: str, rule: str, members: Iterable[Result]) -> str:
    replies = _replies(members, rule)
    ttfa = sorted(outcome.ttfa_ms for _, outcome in replies)
    late = ttfa[min(len(ttfa) - 1, int(0.95 * len(ttfa)))]
    silent = [outcome.underrun_ms for _, outcome in replies]
    share = sum(each > GAP_MS for each in silent) / len(silent)
    cost = statistics.fmean(outcome.cost_ms / trace.at_once_ms for trace, outcome in replies)
    return (
        f"| {name} | {rule} | {statistics.median(ttfa):.0f} | {late:.0f} "
        f"| {statistics.fmean(silent):.1f} | {share:.1%} | {cost:.1f} |"
    )


def _cell(replies: Sequence[tuple[Trace, Outcome]]) -> str:
    ttfa = statistics.median(outcome.ttfa_ms for _, outcome in replies)
    return f"{ttfa:.0f} / {statistics.fmean(outcome.underrun_ms for _, outcome in replies):.1f}"
