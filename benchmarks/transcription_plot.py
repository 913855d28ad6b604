# pyright: reportUnknownMemberType=false
"""The picture of recordings read: audio a second by number of clients, beside faster-whisper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = ("#e76f51", "#8d99ae", "#2a9d8f")


class Cell(Protocol):
    """A result."""

    @property
    def reader(self) -> str: ...

    @property
    def form(self) -> str: ...

    @property
    def clients(self) -> int: ...

    @property
    def speed(self) -> float: ...


def draw(cells: Sequence[Cell], share: float, path: Path) -> None:
    """Write the plot to ``path``; ``share``: of what is read with one beam is the limit."""
    forms = list(dict.fromkeys(cell.form for cell in cells))
    readers = list(dict.fromkeys(cell.reader for cell in cells))
    figure, panels = plt.subplots(
        1, len(forms), figsize=(5 * len(forms), 4), layout="constrained", squeeze=False, sharey=True
    )
    for axes, form in zip(panels[0], forms, strict=True):
        for reader, colour in zip(readers, COLOURS, strict=True):
            own = [cell for cell in cells if (cell.reader, cell.form) == (reader, form)]
            if reader == readers[0]:
                clients = [cell.clients for cell in own]
                axes.plot(clients, [c.speed for c in own], "o-", color=colour, label=reader)
                continue
            axes.axhline(own[0].speed, color=colour, label=reader)
            if reader == readers[1]:
                axes.axhline(share * own[0].speed, color="#c1121f", linestyle=":", label="limit")
        axes.set_title(f"seconds of audio read in a second, {form}", fontsize=9)
        axes.set_xlabel("clients")
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].legend(fontsize=7)
    figure.savefig(path, dpi=130)
    plt.close(figure)
