# pyright: reportUnknownMemberType=false
"""The picture of a run of jobs: overhead, batches, stops, and talk beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = ("#8d99ae", "#2a9d8f", "#e76f51")


class Measured(Protocol):
    """A result; see ``diffusion.Measured``."""

    case: str
    saved: list[float]
    together: list[float]
    stops: list[tuple[float, float]]

    def over(self, ours: str, base: str) -> float: ...

    @property
    def gain(self) -> float: ...


class Talk(Protocol):
    """See ``diffusion_talk.Talk``."""

    jobs: bool
    latencies_ms: list[float]
    polls_ms: list[float]


def draw(results: Sequence[Measured], talks: Sequence[Talk], path: Path) -> None:
    """Write the plot to ``path``."""
    figure, (cost, batch, stop, talk) = plt.subplots(1, 4, figsize=(14, 4), layout="constrained")
    jobs = [each for each in results if each.saved]
    for shift, (ours, base) in enumerate((("alone", "made"), ("worker", "saved"))):
        places = [place + 0.4 * shift - 0.2 for place in range(len(jobs))]
        values = [100 * each.over(ours, base) for each in jobs]
        cost.bar(places, values, 0.35, color=COLOURS[1 + shift], label=ours)
    cost.axhline(3, color="#c1121f", linewidth=1)
    cost.set_xticks(range(len(jobs)), [each.case for each in jobs])
    cost.set_title("% over the plain loop, one picture", fontsize=9)
    batches = [each for each in results if each.together]
    batch.bar([each.case for each in batches], [each.gain for each in batches], color=COLOURS[1])
    batch.axhline(1, color=COLOURS[0], linewidth=1)
    batch.set_title("throughput of eight over time,\none by one is 1", fontsize=9)
    for each in results:
        steps = sorted(rest / step for rest, step in each.stops)
        stop.plot(range(len(steps)), steps, "o", label=each.case)
    stop.axhline(2, color="#c1121f", linewidth=1)
    stop.set_title("steps from DELETE to rest", fontsize=9)
    for jobs_run, colour in ((False, COLOURS[0]), (True, COLOURS[2])):
        heard = sorted(ms for each in talks if each.jobs is jobs_run for ms in each.latencies_ms)
        shares = [(place + 1) / len(heard) for place in range(len(heard))]
        talk.plot(heard, shares, color=colour, label="with jobs" if jobs_run else "without jobs")
    polls = sorted(ms for each in talks for ms in each.polls_ms)
    talk.plot(polls, [(at + 1) / len(polls) for at in range(len(polls))], ":", label="polls")
    talk.set_visible(bool(talks))
    talk.set_xscale("log")
    talk.set_title("ms, answers of four people and polls\n(share of them)", fontsize=9)
    for axes in (cost, batch, stop, talk):
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
