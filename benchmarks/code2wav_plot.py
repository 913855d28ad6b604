# pyright: reportUnknownMemberType=false
"""The picture of streaming decodes: time for a second of audio, by frames of a push."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = ("#e76f51", "#2a9d8f", "#1d6fa5", "#e9c46a", "#6c757d", "#9b5de5", "#f4a261")


class Push(Protocol):
    """A result."""

    @property
    def codec(self) -> str: ...

    @property
    def mode(self) -> str: ...

    @property
    def frames(self) -> int: ...

    @property
    def batch(self) -> int: ...

    @property
    def rtf(self) -> float: ...


def draw(
    pushes: Sequence[Push], whole: Mapping[str, float], windows: Mapping[str, float], path: Path
) -> None:
    """Write the plot to ``path``. ``whole`` and ``windows``: RTF of whole decodes and of windows
    decoded anew, by codec."""
    codecs = list(dict.fromkeys(push.codec for push in pushes))
    figure, many = plt.subplots(
        1, len(codecs), figsize=(4 * len(codecs), 3.6), layout="constrained", squeeze=False
    )
    for axes, codec in zip(many[0], codecs, strict=True):
        own = [push for push in pushes if push.codec == codec]
        kinds = dict.fromkeys((push.mode, push.batch) for push in own)
        for number, (mode, batch) in enumerate(kinds):
            line = [push for push in own if (push.mode, push.batch) == (mode, batch)]
            axes.plot(
                [push.frames for push in line],
                [push.rtf for push in line],
                "o-",
                color=COLOURS[number % len(COLOURS)],
                label=f"{mode}, {batch} stream{'s' * (batch > 1)}",
            )
        axes.axhline(whole[codec], color="#bbbbbb", label="whole decode")
        if codec in windows:
            axes.axhline(windows[codec], color="#c1121f", linestyle="--", label="windows anew")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(codec, fontsize=9)
        axes.set_xlabel("frames of a push")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=7)
    many[0][0].set_ylabel("seconds for a second of audio of a stream")
    figure.savefig(path, dpi=130)
    plt.close(figure)
