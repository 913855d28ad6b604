# pyright: reportUnknownMemberType=false
"""The picture of servers that speak: first byte, total and throughput, by number of clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {"antiphon": "#e76f51", "piper http": "#8d99ae", "wyoming": "#2a9d8f"}
DASHES = {"1": ":", "3": "-"}


class Cell(Protocol):
    """A result."""

    @property
    def server(self) -> str: ...

    @property
    def sentences(self) -> str: ...

    @property
    def clients(self) -> int: ...

    @property
    def first_ms(self) -> float: ...

    @property
    def total_ms(self) -> float: ...

    @property
    def speed(self) -> float: ...


def draw(cells: Sequence[Cell], limits: Mapping[int, float], floor_ms: float, path: Path) -> None:
    """Write the plot to ``path``."""
    figure, (first, total, speed) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for server, sentences in dict.fromkeys((cell.server, cell.sentences) for cell in cells):
        own = [c for c in cells if (c.server, c.sentences) == (server, sentences)]
        clients = [cell.clients for cell in own]
        for axes, values in (
            (first, [cell.first_ms for cell in own]),
            (total, [cell.total_ms for cell in own]),
            (speed, [cell.speed for cell in own]),
        ):
            label = f"{server}, {sentences} sentence{'s' if sentences != '1' else ''}"
            axes.plot(clients, values, f"o{DASHES[sentences]}", color=COLOURS[server], label=label)
    first.plot(list(limits), list(limits.values()), "_", color="#c1121f", markersize=20)
    first.axhline(floor_ms, color="#bbbbbb")
    first.set_title("ms to the first byte of sound (red: limits, grey: floor)", fontsize=9)
    total.set_title("ms to the last", fontsize=9)
    speed.set_title("seconds of audio made in a second, by all clients", fontsize=9)
    first.set_yscale("log")
    total.set_yscale("log")
    speed.set_ylim(bottom=0)
    for axes in (first, total, speed):
        axes.set_xlabel("clients")
        axes.spines[["top", "right"]].set_visible(False)
    speed.legend(fontsize=7)
    figure.savefig(path, dpi=130)
    plt.close(figure)
