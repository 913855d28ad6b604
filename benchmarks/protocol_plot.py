# pyright: reportUnknownMemberType=false
"""The picture of a protocol run: how late the loop is and how busy, by number of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {"antiphon": "#e76f51", "echo": "#8d99ae"}


class Measured(Protocol):
    """A result."""

    @property
    def server(self) -> str: ...

    @property
    def sessions(self) -> int: ...

    @property
    def lag_p50_ms(self) -> float: ...

    @property
    def lag_p99_ms(self) -> float: ...

    @property
    def cpu(self) -> float: ...


def draw(results: Sequence[Measured], limit_ms: float, path: Path) -> None:
    """Write the plot to ``path``."""
    figure, (late, busy) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, colour in COLOURS.items():
        own = [result for result in results if result.server == name]
        sessions = [result.sessions for result in own]
        late.plot(sessions, [r.lag_p99_ms for r in own], "o-", color=colour, label=f"{name}, p99")
        late.plot(sessions, [r.lag_p50_ms for r in own], "o:", color=colour, label=f"{name}, p50")
        busy.plot(sessions, [100 * r.cpu for r in own], "o-", color=colour, label=name)
    late.axhline(limit_ms, color="#c1121f")
    late.set_yscale("log")
    late.set_ylabel("ms that the event loop is late")
    busy.set_ylabel("% of one core")
    for axes in (late, busy):
        axes.set_xlabel("sessions, audio both ways")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
