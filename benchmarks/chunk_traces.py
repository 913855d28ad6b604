"""The replies that rules are tried on: synthetic ones, from a seed, and recorded ones.

A case is a few replies that follow each other on one replica under the same conditions. Each
belongs to a family, by what is hard about it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.chunk_sim import Spans, Trace

FOLDER = Path(__file__).parent / "traces"

LADDERS = {
    12.5: (4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64),
    20.0: (2, 3, 4, 5, 6, 8, 12, 16, 24, 32),
    46.0: (1, 2, 3, 4, 6, 8, 12, 16),
    80.0: (1, 2, 3, 4, 6, 8, 12, 16, 25),
}
"""Length of a codec's frame, and the chunks of it: from about 50 ms to about 1 s of audio."""

RATIOS = (0.12, 0.3, 0.5, 0.63, 0.75, 0.88, 0.94, 1.02, 1.1)
SHORT_RATIOS = (0.12, 0.5, 0.75, 0.9, 1.1)

WAY_MS = 15.0
"""To the client."""


@dataclass(frozen=True, slots=True)
class Case:
    """Replies under one condition."""

    family: str
    name: str
    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a synthetic reply is made for."""

    frame_ms: float
    ratio: float
    """Time between two frames, of the length of one."""

    random: Random
    audio_ms: float

    @property
    def frames(self) -> int:
        return round(self.audio_ms / self.frame_ms)


def steady(setting: Setting) -> Trace:
    """Frames at an even pace, a light decoder and a good line."""
    random, frames = setting.random, setting.frames
    pace = setting.ratio * setting.frame_ms
    gaps = [pace * random.uniform(0.95, 1.05) for _ in range(frames)]
    return Trace(
        frame_ms=setting.frame_ms,
        ladder=LADDERS[setting.frame_ms],
        ready_ms=_sums(gaps, start=60.0),
        fixed_ms=12.0,
        per_frame_ms=0.015 * setting.frame_ms,
        factors=tuple(random.uniform(0.95, 1.1) for _ in range(frames)),
        delays_ms=tuple(WAY_MS + random.uniform(0, 3) for _ in range(frames)),
    )


def jitter(setting: Setting) -> Trace:
    """Uneven times between frames: a standard deviation of half of their mean."""
    random = setting.random
    pace = setting.ratio * setting.frame_ms
    gaps = [random.gammavariate(4.0, pace / 4.0) for _ in range(setting.frames)]
    return replace(steady(setting), ready_ms=_sums(gaps, start=60.0))


def stalls(setting: Setting) -> Trace:
    """A producer that twice makes nothing for 150 to 400 ms."""
    trace, random = steady(setting), setting.random
    ready = list(trace.ready_ms)
    for part in (0.35, 0.7):
        at = round((part + random.uniform(-0.1, 0.1)) * len(ready))
        stall = random.uniform(150.0, 400.0)
        ready[at:] = [time + stall for time in ready[at:]]
    return replace(trace, ready_ms=tuple(ready))


def load_steps(setting: Setting) -> Trace:
    """Producer and decoder slower by half in the second third, and faster around it."""
    trace, random = steady(setting), setting.random
    frames = setting.frames
    slow = range(frames // 3, 2 * frames // 3)
    factors = [1.3 if frame in slow else 0.85 for frame in range(frames)]
    pace = setting.ratio * setting.frame_ms
    gaps = [pace * factor * random.uniform(0.95, 1.05) for factor in factors]
    costs = tuple(own * (2.0 if frame in slow else 1.0) for frame, own in enumerate(trace.factors))
    return replace(trace, ready_ms=_sums(gaps, start=60.0), factors=costs)


def shared(setting: Setting) -> Trace:
    """A decoder that is at work for others nearly half of the time."""
    trace, random = steady(setting), setting.random
    until = trace.ready_ms[-1] + 10_000.0
    busy = _spans(until, lambda: random.expovariate(1 / 30.0), lambda: random.uniform(5.0, 45.0))
    return replace(trace, busy_ms=busy, load=0.5)


def heavy(setting: Setting) -> Trace:
    """A decoder with a high cost of every chunk, and noise."""
    trace, random = steady(setting), setting.random
    factors = tuple(random.choice((0.9, 1.0, 1.0, 1.1, 1.5)) for _ in trace.factors)
    return replace(trace, fixed_ms=40.0, per_frame_ms=0.04 * setting.frame_ms, factors=factors)


def line(setting: Setting) -> Trace:
    """A client whose line jitters by 40 ms and now and then holds all up for 60 to 120 ms."""
    trace, random = steady(setting), setting.random
    until = trace.ready_ms[-1] + 10_000.0
    blocked = _spans(
        until, lambda: random.uniform(1500.0, 4000.0), lambda: random.uniform(60.0, 120.0)
    )
    delays = tuple(WAY_MS + random.uniform(0, 40) for _ in trace.delays_ms)
    return replace(trace, delays_ms=delays, blocked_ms=blocked)


def pauses(setting: Setting) -> Trace:
    """A client that twice stands still for 0.3 to 1.5 s and goes on where it was."""
    trace, random = steady(setting), setting.random
    first = random.uniform(0.2, 0.4) * setting.audio_ms
    second = random.uniform(2000.0, 3000.0) + first
    lengths = [random.uniform(300.0, 1500.0) for _ in range(2)]
    paused = ((first, first + lengths[0]), (second, second + lengths[1]))
    return replace(trace, paused_ms=paused)


def clauses(setting: Setting) -> Trace:
    """Whole clauses of 0.5 to 1.6 s at once, from a talker that is not autoregressive."""
    trace, random = steady(setting), setting.random
    ready: list[float] = []
    ends: list[int] = []
    now = 40.0
    while len(ready) < trace.frames:
        audio_ms = random.uniform(500.0, 900.0) if not ends else random.uniform(600.0, 1600.0)
        count = min(round(audio_ms / setting.frame_ms), trace.frames - len(ready))
        now += 20.0 + setting.ratio * count * setting.frame_ms * random.uniform(0.9, 1.1)
        ready += [now] * count
        ends.append(len(ready))
    return replace(trace, ready_ms=tuple(ready), ends=tuple(ends))


FAMILIES: dict[str, Callable[[Setting], Trace]] = {
    make.__name__.replace("_", " "): make
    for make in (steady, jitter, stalls, load_steps, shared, heavy, line, pauses, clauses)
}


def synthetic(seed: int, *, ratios: tuple[float, ...], replies: int) -> Iterator[Case]:
    """Yield a case for each family, length of frame and ratio of pace."""
    for family, make in FAMILIES.items():
        for frame_ms in LADDERS:
            for ratio in ratios:
                name = f"{family}, {frame_ms:g} ms at {ratio:g}"
                random = Random(f"{seed} {name}")
                traces = tuple(
                    make(Setting(frame_ms, ratio, random, random.uniform(3000.0, 9000.0)))
                    for _ in range(replies)
                )
                yield Case(family, name, traces)


def even(pace_ms: float, *, fixed_ms: float = 0.0, per_frame_ms: float = 0.0) -> Trace:
    """Return 20 s of frames of 80 ms at one pace, where nothing varies and the line takes no time."""
    frames = 250
    return Trace(
        frame_ms=80.0,
        ladder=LADDERS[80.0],
        ready_ms=_sums([pace_ms] * frames, start=0.0),
        fixed_ms=fixed_ms,
        per_frame_ms=per_frame_ms,
        factors=(1.0,) * frames,
        delays_ms=(0.0,) * frames,
    )


def _sums(gaps: list[float], start: float) -> tuple[float, ...]:
    times: list[float] = []
    for gap in gaps:
        start += gap
        times.append(start)
    return tuple(times)


def _spans(until: float, between: Callable[[], float], length: Callable[[], float]) -> Spans:
    spans: list[tuple[float, float]] = []
    now = between()
    while now < until:
        end = now + length()
        spans.append((now, end))
        now = end + max(0.1, between())
    return tuple(spans)


def recorded(folder: Path = FOLDER) -> Iterator[Case]:
    """Yield the cases that were recorded from the server's own stages."""
    for path in sorted(folder.glob("*.json")):
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        traces = tuple(_trace(data, reply) for reply in data["replies"])
        yield Case(f"recorded {data['name']}", f"recorded {data['name']}", traces)


def _trace(data: dict[str, Any], reply: dict[str, Any]) -> Trace:
    ready = tuple(float(time) for time, count in reply["ready"] for _ in range(count))
    random = Random(len(ready))
    noise: list[float] = data["factors"]
    return Trace(
        frame_ms=data["frame_ms"],
        ladder=tuple(data["ladder"]),
        ready_ms=ready,
        fixed_ms=data["fixed_ms"],
        per_frame_ms=data["per_frame_ms"],
        factors=tuple(random.choice(noise) for _ in ready),
        delays_ms=tuple(WAY_MS + random.uniform(0, 3) for _ in ready),
        busy_ms=tuple((float(start), float(end)) for start, end in reply["busy"]),
        ends=tuple(reply["ends"]),
        load=data["load"],
    )
