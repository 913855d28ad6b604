"""What pushes of a decoder take, measured when it is loaded."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from ..decoders.decoder import Codes, Decoder

TRIES = 2
"""Of each measurement; the quickest counts, because other work only ever adds to it."""

SAVING = 0.1
"""Share of a push's time that pushing for several at once must save to be worth it."""


def warm_up(decoder: Decoder, sizes: Sequence[int]) -> None:
    """Push by the sizes that streams will ask for, once each."""
    for size in sizes:
        _seconds(decoder, size, tries=1)


def costs_ms(decoder: Decoder, sizes: Sequence[int]) -> tuple[float, float]:
    """What a push takes: so much, and so much a step."""
    sizes = sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]})
    took = [1000 * _seconds(decoder, size) for size in sizes]
    if len(sizes) == 1:
        return 0.0, took[0] / sizes[0]
    per_step, fixed = np.polyfit(np.array(sizes, float), took, 1).tolist()
    return max(0.0, fixed), max(0.0, per_step)


def batch_pays(decoder: Decoder, size: int, batch: int) -> bool:
    """Whether pushing by ``size`` takes less time for ``batch`` streams at once."""
    together, alone = (_seconds(decoder, size, count) for count in (batch, 1))
    return together <= (1 - SAVING) * batch * alone


def _seconds(decoder: Decoder, size: int, batch: int = 1, tries: int = TRIES) -> float:
    """Of a push in the middle of streams."""
    states = [decoder.open() for _ in range(batch)]
    before = max(decoder.card.first_steps, decoder.card.lookahead // decoder.card.hop + 1)
    going_on = [False] * batch
    decoder.push(states, [_codes(decoder, before)] * batch, going_on)
    took: list[float] = []
    for _ in range(tries):
        began = time.perf_counter()
        decoder.push(states, [_codes(decoder, size)] * batch, going_on)
        took.append(time.perf_counter() - began)
    return min(took)


def _codes(decoder: Decoder, steps: int) -> Codes:
    sizes = np.array(decoder.card.sizes)[:, None]
    return np.asarray(np.arange(steps) * 7919 % sizes, np.int32)
