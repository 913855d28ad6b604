"""One reply played in simulated time: frames come, a rule cuts them, a listener hears them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from antiphon.engines.scheduling.costs import Costs
from antiphon.engines.scheduling.ramp import ChunkRule


@dataclass
class Heard:
    """How a reply went; times in ms from the arrival of its first frame."""

    sizes: list[int] = field(default_factory=list[int])
    first_ms: float = 0.0
    silent_ms: float = 0.0
    """Gaps inside of the reply, in all."""

    asked: int = 0


def play(
    rule: ChunkRule,
    costs: Costs,
    ready_ms: Sequence[float],
    *,
    frame_ms: float,
    decode_ms: Callable[[int], float],
    wait_ms: Callable[[int], float] = lambda chunk: 0.0,
    expected_ms: float | None = None,
) -> Heard:
    """Serve a reply whose frames are there at ``ready_ms``, ascending from 0.

    ``wait_ms``: how long the decoder is busy with others ahead of a chunk of that index.
    """
    heard = Heard()
    now = ready_ms[0]
    taken = told = 0
    dry: float | None = None
    while taken < len(ready_ms):
        there = bisect_right(ready_ms, now)
        while told < there:
            until = bisect_right(ready_ms, ready_ms[told])
            if told:
                costs.arrived(until - told, ready_ms[told] - ready_ms[told - 1])
            told = until
        step = rule.next(
            have=there - taken,
            complete=there == len(ready_ms),
            buffer_ms=None if dry is None else max(0.0, dry - now),
            waited_ms=now,
            expected_ms=expected_ms,
        )
        heard.asked += 1
        assert heard.asked < 20 * len(ready_ms) + 1000, "asked for ever"
        assert 0 <= step.frames <= there - taken
        if step.frames:
            waited, cost = wait_ms(len(heard.sizes)), decode_ms(step.frames)
            costs.waited(waited)
            costs.decoded(step.frames, cost)
            now += waited + cost
            if dry is None:
                heard.first_ms = dry = now
            heard.silent_ms += max(0.0, now - dry)
            dry = max(dry, now) + step.frames * frame_ms
            heard.sizes.append(step.frames)
            taken += step.frames
            continue
        assert there < len(ready_ms), "waits though nothing comes"
        later: list[float] = [ready_ms[there]]
        if step.again_ms is not None:
            later.append(now + step.again_ms)
        assert min(later) > now
        now = min(later)
    return heard
