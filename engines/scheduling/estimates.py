"""Learned quantities that one stall does not spoil and that soon follow a lasting change."""

from __future__ import annotations

import math
from dataclasses import dataclass

MEMORY = 16
"""Samples that an estimate mostly rests on."""

TINY_MS = 0.25
"""Differences below this are of clocks and schedulers."""

CLIP = 3.0
"""Deviations from what is expected that a sample counts for at most."""

DRIFT, CHANGE = 1.0, 5.0
"""A lasting change: deviations to one side, less so many for each sample, add up to more.
Three samples far off in a row do, and five that are two deviations off."""

WARM_UP = 3
"""Of these first samples a slow one is dropped as soon as one comes that is far quicker."""

KEPT = 0.2
"""Samples that all that was known before a lasting change still counts for."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A learned quantity in ms."""

    mean: float = 0.0
    deviation: float = 0.0


class Gate:
    """Clips samples that lie far off, until they add up to a lasting change."""

    def __init__(self) -> None:
        self._above = 0.0
        self._below = 0.0

    def admit(self, value: float, expected: float, deviation: float) -> tuple[float, bool]:
        """Return the value to learn from, and whether a lasting change begins with it."""
        scale = max(deviation, 0.1 * expected, TINY_MS)
        off = min(max((value - expected) / scale, -CLIP), CLIP)
        self._above = max(0.0, self._above + off - DRIFT)
        self._below = max(0.0, self._below - off - DRIFT)
        if max(self._above, self._below) > CHANGE:
            self._above = self._below = 0.0
            return value, True
        return (value if abs(off) < CLIP else expected + off * scale), False


class Estimate:
    """A quantity that comes in portions: so many ms for so many units."""

    def __init__(self) -> None:
        self.samples = 0
        """Portions so far."""

        self._gate = Gate()
        self._portions = 0.0
        self._units = 0.0
        self._total = 0.0
        self._variance = 0.0

    @property
    def mean(self) -> float:
        """Ms of a unit: of all portions together over all their units. 0 before the first."""
        return self._total / self._units if self._units > 0 else 0.0

    @property
    def deviation(self) -> float:
        """Of a unit's ms, from portion to portion."""
        return math.sqrt(self._variance)

    @property
    def portion(self) -> float:
        """Units of a portion, on average."""
        return self._units / self._portions if self._portions > 0 else 1.0

    def add(self, ms: float, units: float = 1.0) -> None:
        """Note a portion; ``ms`` are not negative and ``units`` are positive."""
        self.samples += 1
        each = ms / units
        if self.samples == 1 or (self.samples <= WARM_UP and 0 < each < self.mean / 3):
            self._restart(each, units, kept=0.0)
            return
        each, changed = self._gate.admit(each, self.mean, self.deviation)
        if changed:
            self._restart(each, units, kept=KEPT / self._portions)
        else:
            self._learn(each, units)

    def extend(self, units: float) -> None:
        """Note units that belong to the last portion, if there was any."""
        if self.samples:
            self._units += units

    def _restart(self, each: float, units: float, kept: float) -> None:
        self._forget(kept)
        self._take(each, units)
        # One portion says little of how much the next will differ.
        self._variance = min(max(self._variance, (each / 8) ** 2), (each / 4) ** 2)

    def _learn(self, each: float, units: float) -> None:
        self._forget(1 - 1 / MEMORY)
        off = each - self.mean
        self._take(each, units)
        # As in Welford's method: the product of the distances to the mean before and after.
        self._variance += (off * (each - self.mean) - self._variance) / self._portions

    def _take(self, each: float, units: float) -> None:
        self._portions += 1
        self._units += units
        self._total += units * each

    def _forget(self, kept: float) -> None:
        self._portions *= kept
        self._units *= kept
        self._total *= kept


class Line:
    """A cost of a fixed part and a part for each unit, by least squares. Forgets slowly.

    What the samples can't tell apart, as when all have one number of units, stays as near as
    may be to what was thought at first.
    """

    TRACE = 0.01
    """Weight of the first belief for ever, against 1 for a sample."""

    FIXED_SCALE, EACH_SCALE = 2.0, 1.0
    """How much the parts are thought to differ from that, against each other. A cost seen at
    one size only is therefore mostly taken to grow with the size: larger chunks are then dearer
    than they turn out to be, rather than cheaper."""

    FIRST_SIZES = (4, 4, 32, 32)
    """The first belief counts as samples of these sizes, until they are forgotten."""

    def __init__(self, fixed: float = 0.0, each: float = 0.0) -> None:
        """Begin with what the parts are thought to be."""
        self.samples = 0
        self.fixed, self.each = fixed, each
        self.spread = 0.0
        """Deviation of a cost from what was expected, as a share of that: what slows a machine
        down costs a large chunk more than a small one."""

        self._first = (fixed, each)
        self._known = fixed > 0 or each > 0
        self._gate = Gate()
        # Sums over samples: weights, units and their squares, and both with how far the cost
        # was from the first belief.
        self._w = self._x = self._xx = self._y = self._xy = 0.0
        if self._known:
            for units in self.FIRST_SIZES:
                self._take(units, self.at(units))

    def at(self, units: float) -> float:
        """Return the cost to expect."""
        return self.fixed + units * self.each

    def add(self, units: float, cost: float) -> None:
        """Note a cost, not negative."""
        self.samples += 1
        expected = self.at(units)
        if not self._known or (self.samples <= WARM_UP and cost < expected / 3):
            self._restart(units, cost)
            return
        cost, changed = self._gate.admit(cost, expected, self.spread * expected)
        if changed:
            self._restart(units, cost)
            return
        self._forget(1 - 1 / MEMORY)
        self._take(units, cost)
        # As in Welford's method: the product of the distances to the fit before and after.
        off = (cost - expected) * (cost - self.at(units)) / max(expected, TINY_MS) ** 2
        variance = self.spread**2
        variance += (max(0.0, off) - variance) / max(2.0, self._w)
        self.spread = math.sqrt(variance)

    def _restart(self, units: float, cost: float) -> None:
        self._known = True
        self._forget(KEPT / self._w if self._w > 0 else 0.0)
        # What slows a decode down slows all sizes down: the line is kept, scaled.
        scale = cost / expected if (expected := self.at(units)) > 0 else 0.0
        fixed, each = scale * self.fixed - self._first[0], scale * self.each - self._first[1]
        self._y = self._w * fixed + self._x * each
        self._xy = self._x * fixed + self._xx * each
        self._take(units, cost)
        self.spread = 1 / 8

    def _take(self, units: float, cost: float) -> None:
        off = cost - self._first[0] - units * self._first[1]
        self._w += 1
        self._x += units
        self._xx += units * units
        self._y += off
        self._xy += units * off
        self._solve()

    def _solve(self) -> None:
        fixed, each = self._first
        # A trace of the first belief stays, for what samples leave open.
        w = self._w + self.TRACE / self.FIXED_SCALE**2
        xx = self._xx + self.TRACE / self.EACH_SCALE**2
        determinant = w * xx - self._x**2
        self.fixed = fixed + (self._y * xx - self._xy * self._x) / determinant
        self.each = each + (w * self._xy - self._x * self._y) / determinant
        if self.each < 0:
            self.each = 0.0
            self.fixed = max(0.0, fixed + (self._y + each * self._x) / self._w)
        elif self.fixed < 0:
            self.fixed = 0.0
            self.each = max(0.0, each + (self._xy + fixed * self._x) / self._xx)

    def _forget(self, kept: float) -> None:
        self._w *= kept
        self._x *= kept
        self._xx *= kept
        self._y *= kept
        self._xy *= kept
