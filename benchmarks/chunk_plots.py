# pyright: reportUnknownMemberType=false
"""The pictures of a run: silence against TTFA, one reply over time, and silence by pace."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from benchmarks.chunk_judge import ESTIMATED, FASTER, ORACLE, REPORTED, RULES, THEIRS, Result
from benchmarks.chunk_oracle import best
from benchmarks.chunk_sim import Outcome, Trace, buffer_line, play
from benchmarks.chunk_traces import even
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {
    "fixed 1, 25": "#adb5bd",
    "fixed 4, 4, 8, 16, 25": "#6c757d",
    "constant 4": "#e9c46a",
    THEIRS: "#e76f51",
    ESTIMATED: "#8ecae6",
    REPORTED: "#1d6fa5",
    ORACLE: "#2a9d8f",
}

STYLES = {"constant 4": "--", ESTIMATED: "--", ORACLE: ":"}

TELLING_MS = 70.0
"""Between two frames of 80 ms, in the picture of one reply."""

PACES_MS = tuple(float(pace) for pace in range(10, 80, 5))


def draw(results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the plots into ``folder``; return their paths."""
    pictures = {"silence": _silence(results), "reply": _reply(), "pace": _pace()}
    paths: list[Path] = []
    for name, figure in pictures.items():
        paths.append(folder / f"chunks-{name}.png")
        figure.savefig(paths[-1], dpi=100)
        plt.close(figure)
    return paths


def _outcome(rule: str, trace: Trace) -> Outcome:
    return best(trace) if rule == ORACLE else play(trace, RULES[rule](trace)(trace))


def _silence(results: Sequence[Result]) -> Figure:
    """TTFA and silence of each rule in each family, and what its decodes cost."""
    figure: Figure
    figure, (heard, paid) = plt.subplots(
        1, 2, figsize=(10, 4.2), width_ratios=(3, 2), layout="constrained"
    )
    fast = [result for result in results if result.fast]
    families = list(dict.fromkeys(result.case.family for result in fast))
    for rule, colour in COLOURS.items():
        points: list[tuple[float, float]] = []
        for family in families:
            own = [result for result in fast if result.case.family == family]
            ttfa = statistics.fmean(result.ttfa_ms(rule) for result in own)
            points.append((ttfa, statistics.fmean(result.underrun_ms(rule) for result in own)))
        heard.scatter(*zip(*points, strict=True), s=28, color=colour, label=rule, alpha=0.85)
    heard.set_yscale("symlog", linthresh=1.0)
    heard.set_ylim(bottom=-0.3)
    heard.set_xlabel(f"ms to first audio (a dot: a family, production up to {FASTER:g})")
    heard.set_ylabel("mean silence inside of a reply, ms")
    heard.legend(fontsize=8)
    costs = [
        statistics.fmean(
            outcome.cost_ms / trace.at_once_ms
            for result in fast
            for trace, outcome in zip(result.case.traces, result.outcomes[rule], strict=True)
        )
        for rule in COLOURS
    ]
    paid.barh(list(COLOURS), costs, color=list(COLOURS.values()))
    paid.invert_yaxis()
    paid.set_xlabel("cost of decoding, of decoding all at once")
    _plain(heard, paid)
    return figure


def _reply() -> Figure:
    """What the listener has left over one reply, with four rules."""
    figure: Figure
    figure, axes = plt.subplots(figsize=(10, 4), layout="constrained")
    trace = even(TELLING_MS, fixed_ms=15.0, per_frame_ms=1.0)
    for rule in ("fixed 4, 4, 8, 16, 25", THEIRS, "constant 4", REPORTED):
        outcome = _outcome(rule, trace)
        times, left = buffer_line(trace, outcome.chunks)
        label = f"{rule}: {outcome.underrun_ms:.0f} ms of silence, {len(outcome.chunks)} chunks"
        axes.plot([time / 1000 for time in times], left, color=COLOURS[rule], label=label)
    axes.set_xlim(0, trace.ready_ms[-1] / 1000)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"seconds; a frame of 80 ms every {TELLING_MS:g} ms")
    axes.set_ylabel("audio that the listener has left, ms")
    axes.legend(fontsize=8, loc="upper left")
    _plain(axes)
    return figure


def _pace() -> Figure:
    """Silence and TTFA by the pace of the producer."""
    figure: Figure
    figure, (silent, first) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for rule, colour in COLOURS.items():
        outcomes = [
            _outcome(rule, even(pace, fixed_ms=15.0, per_frame_ms=1.0)) for pace in PACES_MS
        ]
        # Rules that do the same are told apart by their dashes.
        style = {"color": colour, "label": rule, "linestyle": STYLES.get(rule, "-")}
        silent.plot(PACES_MS, [each.underrun_ms for each in outcomes], **style)
        first.plot(PACES_MS, [each.ttfa_ms for each in outcomes], **style)
    silent.set_ylabel("silence inside of a reply of 20 s, ms")
    silent.legend(fontsize=8)
    first.set_ylabel("ms to first audio")
    for axes in (silent, first):
        axes.set_xlabel("ms between two frames of 80 ms")
    _plain(silent, first)
    return figure


def _plain(*many: Axes) -> None:
    for axes in many:
        axes.spines[["top", "right"]].set_visible(False)
