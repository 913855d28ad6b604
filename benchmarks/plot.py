# pyright: reportUnknownMemberType=false
"""The picture of a voice-to-voice run: where the time goes, one bar a measurement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PARTS = ("endpointing", "recognition", "first_token", "first_clause", "talker", "code2wav")
COLOURS = ("#8d99ae", "#2a9d8f", "#e9c46a", "#f4a261", "#e76f51", "#9b5de5", "#ced4da")


class Named(Protocol):
    """A case."""

    @property
    def name(self) -> str: ...

    @property
    def limit_ms(self) -> float: ...


class Measured(Protocol):
    """A result."""

    @property
    def case(self) -> Named: ...

    @property
    def sessions(self) -> int: ...

    @property
    def latencies(self) -> list[float]: ...

    @property
    def transport_ms(self) -> float: ...

    def part_ms(self, part: str) -> float: ...


def draw(results: Sequence[Measured], path: Path) -> None:
    """Write the plot to ``path``."""
    figure, axes = plt.subplots(figsize=(10, 1.2 + 0.7 * len(results)), layout="constrained")
    labels = [f"{r.case.name}, {r.sessions} session{'s' * (r.sessions > 1)}" for r in results]
    left = [0.0] * len(results)
    for part, colour in zip((*PARTS, "transport"), COLOURS, strict=True):
        widths = [
            max(0.0, r.transport_ms if part == "transport" else r.part_ms(part)) for r in results
        ]
        axes.barh(labels, widths, left=left, color=colour, label=part.replace("_", " "))
        left = [a + b for a, b in zip(left, widths, strict=True)]
    for row, result in enumerate(results):
        axes.plot(result.latencies, [row] * len(result.latencies), "|", color="#22223b", alpha=0.6)
        if result.sessions == 1:
            limit = result.case.limit_ms
            axes.plot([limit, limit], [row - 0.4, row + 0.4], color="#c1121f", linewidth=2)
    axes.invert_yaxis()
    axes.set_xlabel("ms from the end of the last word to the first sound (ticks: single turns)")
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 1.0 + 0.9 / len(results)), ncols=7, fontsize=8
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
