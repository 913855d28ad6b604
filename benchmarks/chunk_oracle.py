"""What a rule could do that knows the future: the mark for gaps that nobody can avoid.

The oracle starts as early as anybody can: its first chunk is the smallest that the decoder
allows, decoded as soon as its frames are there. From then on its choices are perfect: of all
the ways to cut the rest into allowed chunks, each decoded as soon as its last frame is there
and the decoder is free, it takes one whose silence is least. If it has a gap, nobody who starts
as early could have done without, and nobody is blamed for one. A later start may have done
better; that is the price of a start that is not known to be too early.

Finding the way is a search over frames, earliest end of decoding first. It is exact, because
in a trace an earlier decode of the same frames never ends later, and a chunk is never held up
on the way by one before it that was in time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks.chunk_policies import Table
from benchmarks.chunk_sim import Outcome, Trace, play

PRECISION_MS = 0.25
"""How exactly the least silence is found."""


class Given(Table):
    """Chunks that were decided on beforehand, each decoded as soon as it can be."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__(*sizes)


def best(trace: Trace, first: int | None = None) -> Outcome:
    """Return how the reply goes where every choice is the best.

    ``first``: frames of the first chunk, by default as few as there may be.
    """
    first = min(first or trace.ladder[0], trace.clause_ends[0])
    low, high, found = 0.0, 0.0, _way(trace, first, 0.0)
    step = trace.frame_ms
    while found is None:
        low, high = high, high + step
        step *= 2
        found = _way(trace, first, high)
    while high - low > PRECISION_MS:
        middle = (low + high) / 2
        way = _way(trace, first, middle)
        if way is None:
            low = middle
        else:
            high, found = middle, way
    return play(trace, Given(found))


def _way(trace: Trace, first: int, silence_ms: float) -> tuple[int, ...] | None:
    """Return sizes with which no more is silent than that, or ``None`` where there are none."""
    _, done = trace.decode(0, first, trace.ready_ms[first - 1])
    begins = trace.arrival(0, done)
    free = [math.inf] * (trace.frames + 1)
    size_to = [0] * (trace.frames + 1)
    free[first], size_to[first] = done, first
    for here in range(first, trace.frames):
        if math.isinf(free[here]):
            continue
        latest = trace.heard(begins, here * trace.frame_ms + silence_ms)
        for size in _sizes(trace, here):
            there = here + size
            asked = max(free[here], trace.ready_ms[there - 1])
            if asked > latest:
                break
            _, done = trace.decode(here, size, asked)
            if done < free[there] and trace.arrival(here, done) <= latest:
                free[there], size_to[there] = done, size
    return _walk(size_to) if size_to[-1] else None


def _sizes(trace: Trace, here: int) -> Iterator[int]:
    left = next(end for end in trace.clause_ends if end > here) - here
    for size in trace.ladder:
        if size >= left:
            yield left
            return
        yield size


def _walk(size_to: list[int]) -> tuple[int, ...]:
    sizes: list[int] = []
    at = len(size_to) - 1
    while at > 0:
        sizes.append(size_to[at])
        at -= size_to[at]
    return tuple(reversed(sizes))
