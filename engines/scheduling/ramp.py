"""How much to decode next, from what the listener has left and what decoding costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .costs import Costs

SUSTAINS = 0.9
"""Share of a chunk's audio within which it has to be made, if one after the other shall do."""

SHORTEST_WAIT_MS = 1.0
"""A shorter one is not worth a timer."""

BURST_GROWTH = 2
"""The next frames at a start are not expected to be more at once than these times those there."""

UNNOTICED = 0.05
"""Share of the first delay by which a larger first chunk may prolong it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RampRules:
    """What the chunks of a decoder may be like."""

    frame_ms: float
    """Audio of one frame."""

    sizes: tuple[int, ...]
    """Frames that a chunk may have, ascending."""

    margin_ms: float = 35.0
    """Audio that the listener shall still have when a chunk is there."""

    caution: float = 2.0
    """How many deviations of a cost are reckoned with."""

    smooth: bool = True
    """Whether production slower than real time waits at the start rather than stutters."""

    max_first_delay_ms: float = 2000.0
    """The most that is waited for that."""

    def __post_init__(self) -> None:
        """Refuse rules that no chunk could keep."""
        if not (math.isfinite(self.frame_ms) and self.frame_ms > 0):
            raise ValueError(f"expected frame_ms above 0, got {self.frame_ms}")
        if not self.sizes or self.sizes[0] < 1 or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"expected sizes that ascend from at least 1, got {self.sizes}")


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now."""

    frames: int
    """To decode; 0 is to wait for more of them."""

    again_ms: float | None = None
    """Where to wait: how long at most, without any more frames, until the next question."""


class ChunkRule(Protocol):
    """Chooses the chunks of one request."""

    def next(
        self,
        *,
        have: int,
        complete: bool,
        buffer_ms: float | None,
        waited_ms: float = 0.0,
        expected_ms: float | None = None,
        behind: int = 0,
    ) -> Step:
        """Choose the next chunk; the one before it is decoded, or failed, by now.

        Args:
            have: Frames that can be decoded now.
            complete: Whether no more will be added to them: what is here is all of a
                clause, or of the utterance.
            buffer_ms: Audio that the listener has left; ``None`` ahead of the first chunk.
            waited_ms: Time since the first frame came, ahead of the first chunk.
            expected_ms: Audio that the whole utterance may have, where that is known.
            behind: Frames in hand that can't be in this chunk: of later clauses, or those
                that it only needs beside it.
        """
        ...


class Ramp:
    """Makes chunks as large as the listener's buffer pays for, and as small as it has to.

    A chunk of n frames of which m are there is ready after
    ``max(0, n - m) * pace + wait + decode(n)``, spreads included. The largest n that leaves
    the listener ``margin_ms`` is next; where none does, the smallest that does not fall behind.
    Nothing is remembered: chunks grow and shrink as buffer and costs do.
    """

    def __init__(self, rules: RampRules, costs: Costs) -> None:
        """``costs`` are those of the replica that decodes."""
        self._rules = rules
        self._costs = costs

    def next(
        self,
        *,
        have: int,
        complete: bool,
        buffer_ms: float | None,
        waited_ms: float = 0.0,
        expected_ms: float | None = None,
        behind: int = 0,
    ) -> Step:
        """Choose the next chunk; see :meth:`ChunkRule.next`."""
        if have < 1 or (have < self._rules.sizes[0] and not complete):
            return Step(0)
        if buffer_ms is not None:
            return self._later(have, complete, max(0.0, buffer_ms))
        again_ms = self._hold_ms(have, complete, waited_ms, expected_ms, behind)
        return Step(0, again_ms) if again_ms else Step(self._first(have, complete, waited_ms))

    def _later(self, have: int, complete: bool, buffer_ms: float) -> Step:
        spare = buffer_ms - self._rules.margin_ms
        least = self._least()
        now = [n for n in self._sizes(have, complete) if self._turn_ms(n) <= spare]
        if not complete:
            larger = next((n for n in self._rules.sizes if n > have), None)
            if larger is not None:
                # Waiting takes double what is expected: load that sets in is not foreseen.
                over_ms = spare - self._turn_ms(larger) - self._arrival_ms(larger - have, wary=True)
                if over_ms >= SHORTEST_WAIT_MS:
                    return Step(0, over_ms if math.isfinite(over_ms) else None)
            if least > have:
                over_ms = buffer_ms - self._turn_ms(least) - self._arrival_ms(least - have)
                if over_ms >= SHORTEST_WAIT_MS:
                    return Step(0, over_ms if math.isfinite(over_ms) else None)
        size = max(now[-1] if now else 0, least)
        return Step(self._of(size, have, complete))

    def _hold_ms(
        self,
        have: int,
        complete: bool,
        waited_ms: float,
        expected_ms: float | None,
        behind: int,
    ) -> float | None:
        """How long to wait ahead of the first chunk at most, if what is here is too little."""
        rules = self._rules
        left_ms = rules.max_first_delay_ms - waited_ms
        if left_ms < SHORTEST_WAIT_MS or (complete and expected_ms is None):
            return None
        if not complete and have < (self._lasting() if rules.smooth else self._least()):
            return left_ms
        held = have + behind
        whole_ms = self._costs.utterance_ms if expected_ms is None else expected_ms
        coming = math.ceil(whole_ms / rules.frame_ms - held)
        coming = max(coming, 0 if complete else 1)
        if not coming or held * rules.frame_ms >= self._start_ms(coming, held):
            return None
        return left_ms

    def _start_ms(self, coming: int, held: int) -> float:
        """Audio to have in hand for the start, if so many frames more are to come."""
        rules, least = self._rules, self._least()
        pace_ms, deviation_ms = self._pace()
        drift_ms = pace_ms - rules.frame_ms
        if not rules.smooth:
            return 0.0 if drift_ms >= 0 else least * pace_ms + rules.margin_ms
        # A producer that makes much at a time for a listener who has enough begins with less.
        burst = min(self._costs.burst, BURST_GROWTH * held)
        spread_ms = rules.caution * deviation_ms * math.sqrt(burst)
        # The frame for which it is closest: jitter adds up as a root, what is gained or lost
        # against real time in proportion.
        worst = (spread_ms / (2 * -drift_ms)) ** 2 if drift_ms < 0 else math.inf
        frames = min(max(worst, least), max(coming, 1))
        late_ms = frames * drift_ms + spread_ms * math.sqrt(frames) + (burst - 1) * pace_ms
        costs = self._costs
        decode_ms = costs.decode_deviation_ms(least)
        unsure_ms = rules.caution * math.hypot(costs.wait.deviation, decode_ms)
        return min(least, coming) * rules.frame_ms + late_ms + unsure_ms + rules.margin_ms

    def _first(self, have: int, complete: bool, waited_ms: float) -> int:
        """The smallest chunk that lasts until the next; or more, where that hardly delays it."""
        size = self._of(self._lasting(), have, complete)
        costs = self._costs
        limit_ms = costs.decode_ms(size)
        limit_ms += UNNOTICED * (waited_ms + costs.wait.mean + limit_ms)
        larger = [n for n in self._sizes(have, complete) if costs.decode_ms(n) <= limit_ms]
        return self._of(max(size, *larger, 0), have, complete)

    def _lasting(self) -> int:
        """The smallest size that is heard until as little as possible more is decoded."""
        least = self._least()
        until_ms = self._turn_ms(least) + self._rules.margin_ms
        return self._fitting(lambda n: n >= least and n * self._rules.frame_ms >= until_ms)

    def _least(self) -> int:
        """The smallest size that does not fall behind: others take longer than they last."""
        mean_ms, frame_ms = self._costs.wait.mean, self._rules.frame_ms * SUSTAINS
        return self._fitting(lambda n: mean_ms + self._costs.decode_ms(n) <= n * frame_ms)

    def _fitting(self, fits: Callable[[int], bool]) -> int:
        sizes = self._rules.sizes
        return next((n for n in sizes if fits(n)), sizes[-1])

    def _sizes(self, have: int, complete: bool) -> list[int]:
        """What can be decoded now, ascending."""
        sizes = [n for n in self._rules.sizes if n <= have]
        if complete and have <= self._rules.sizes[-1] and have not in sizes:
            sizes.append(have)
        return sizes

    def _of(self, size: int, have: int, complete: bool) -> int:
        """The size, or what comes nearest to it: it is there, and leaves no crumb behind."""
        sizes = self._rules.sizes
        if complete and have < size + sizes[0] and have <= sizes[-1]:
            return have
        below = [n for n in sizes if n <= min(size, have)] or [sizes[0]]
        whole = [n for n in below if have - n >= sizes[0]] if complete else below
        return (whole or below)[-1]

    def _turn_ms(self, frames: int) -> float:
        """Time that a decode takes from being asked for, with caution."""
        wait, costs = self._costs.wait, self._costs
        unsure_ms = math.hypot(wait.deviation, costs.decode_deviation_ms(frames))
        return wait.mean + self._rules.caution * unsure_ms + costs.decode_ms(frames)

    def _arrival_ms(self, frames: int, *, wary: bool = False) -> float:
        """Time until so many more frames are there, with caution.

        Of frames that come in bursts the first may take as long as a burst. ``wary``: the
        spread counts for as much as the pace at least.
        """
        pace_ms, deviation_ms = self._pace()
        spread_ms = self._rules.caution * deviation_ms
        each_ms = pace_ms + (max(spread_ms, pace_ms) if wary else spread_ms)
        return (frames + self._costs.burst - 1) * each_ms

    def _pace(self) -> tuple[float, float]:
        """Mean and deviation; that of real time until anything is known."""
        if not self._costs.pace_known:
            return self._rules.frame_ms, 0.0
        pace = self._costs.pace
        return pace.mean, pace.deviation


class Fixed:
    """Takes one size after the other, whatever happens; the last repeats."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        """``sizes``: frames of the chunks, at least one.

        Raises:
            ValueError: there is none, or one is not positive.
        """
        if not sizes or min(sizes) < 1:
            raise ValueError(f"expected at least one size, all positive, got {sizes}")
        self._sizes = sizes
        self._index = 0

    def next(
        self,
        *,
        have: int,
        complete: bool,
        buffer_ms: float | None,
        waited_ms: float = 0.0,
        expected_ms: float | None = None,
        behind: int = 0,
    ) -> Step:
        """Choose the next chunk; see :meth:`ChunkRule.next`. It counts as taken."""
        size = self._sizes[self._index]
        if have < 1 or (have < size and not complete):
            return Step(0)
        self._index = min(self._index + 1, len(self._sizes) - 1)
        return Step(min(size, have))
