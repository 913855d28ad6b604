# pyright: reportUnknownMemberType=false
"""The picture of a run of whole sessions: delay, gaps and cost, by number of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {"ramp": "#e76f51", "fixed": "#8d99ae", "unreported": "#2a9d8f"}


class Measured(Protocol):
    """A result."""

    @property
    def column(self) -> str: ...

    @property
    def sessions(self) -> int: ...

    @property
    def gap_ms(self) -> float: ...

    @property
    def answered(self) -> Sequence[object]: ...

    @property
    def cpu(self) -> float: ...

    @property
    def resident_mib(self) -> float: ...

    def latency_ms(self, share: float) -> float: ...


def draw(results: Sequence[Measured], limit_ms: float, limit_mib: float, path: Path) -> None:
    """Write the plot to ``path``."""
    figure, (late, gaps, busy, held) = plt.subplots(1, 4, figsize=(14, 4), layout="constrained")
    for name in dict.fromkeys(result.column for result in results):
        own = [result for result in results if result.column == name and result.answered]
        sessions, colour = [result.sessions for result in own], COLOURS[name]
        late.plot(sessions, [r.latency_ms(0.5) for r in own], "o-", color=colour, label=name)
        late.plot(sessions, [r.latency_ms(0.95) for r in own], "o:", color=colour)
        silence = [r.gap_ms / len(r.answered) for r in own]
        gaps.plot(sessions, silence, "o-", color=colour, label=name)
        busy.plot(sessions, [100 * r.cpu for r in own], "o-", color=colour, label=name)
        held.plot(sessions, [r.resident_mib for r in own], "o-", color=colour, label=name)
    late.axhline(limit_ms, color="#c1121f")
    held.axhline(limit_mib, color="#c1121f")
    late.set_title("ms, end of speech to first sound\n(solid p50, dotted p95)", fontsize=9)
    gaps.set_title("ms of silence inside an answer, mean", fontsize=9)
    busy.set_title("% of one core, server", fontsize=9)
    held.set_title("MiB resident, server", fontsize=9)
    for axes in (late, gaps, busy, held):
        axes.set_ylim(bottom=0)
        axes.set_xlabel("sessions")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
