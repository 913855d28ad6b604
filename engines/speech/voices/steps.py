"""A chain of graphs computed a stretch at a time, each step with only the context it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Frames: TypeAlias = NDArray[np.float32]
"""``(channels, n)``."""


@dataclass(frozen=True, slots=True)
class Step:
    """A graph that gives a frame for each that it reads."""

    run: Callable[[Frames], Frames]
    context: int
    """How far a frame of its output reaches into its input, on each side."""


class Chain:
    """What came of one input so far, step by step; nothing is computed twice."""

    def __init__(self, steps: Sequence[Step], given: Frames) -> None:
        """``given``: all that the first step reads."""
        self._steps = steps
        self._given = given
        self._made: list[Frames] = [given[:, :0] for _ in steps]

    def upto(self, stop: int) -> Frames:
        """The first ``stop`` frames of the last step's output; all that is there may be more."""
        count = self._given.shape[1]
        # From the last step back: what each must have for the next.
        stops = [min(stop, count)]
        for step in reversed(self._steps[1:]):
            stops.append(min(stops[-1] + step.context, count))
        source = self._given
        for number, step in enumerate(self._steps):
            source = self._more(number, step, source, stops[-1 - number])
        return source

    def _more(self, number: int, step: Step, source: Frames, stop: int) -> Frames:
        made = self._made[number]
        begin = made.shape[1]
        if stop <= begin:
            return made
        around = max(0, begin - step.context)
        new = step.run(source[:, around : stop + step.context])
        made = np.concatenate([made, new[:, begin - around : stop - around]], axis=1)
        self._made[number] = made
        return made
