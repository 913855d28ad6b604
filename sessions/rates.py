"""Limits on how much may be asked for in a minute.

A limit is a leaky bucket: what was taken drains at the rate of the limit, so that a
session may ask for all of it at once, and then for as much as has drained. It needs no
memory of single requests.
"""

from __future__ import annotations

import math

from .effects import RateLimit
from .settings import Capabilities

WINDOW_S = 60.0
"""In which a full bucket drains."""


class Bucket:
    """What is used of one limit, which is at least 1."""

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self._level = 0.0
        self._at = 0.0

    def take(self, amount: int, now: float) -> None:
        """Note use; it may go beyond the limit, and is then paid back first."""
        self._level = self._used(now) + amount
        self._at = now

    def wait_s(self, now: float) -> float:
        """Return how long it takes until one more may be taken; 0 where it may be now."""
        excess = self._used(now) + 1 - self.limit
        return max(0.0, excess * WINDOW_S / self.limit)

    def view(self, now: float) -> RateLimit:
        """Return what a client is told of it."""
        used = self._used(now)
        return RateLimit(
            self.name,
            self.limit,
            max(0, math.floor(self.limit - used)),
            round(used * WINDOW_S / self.limit, 3),
        )

    def _used(self, now: float) -> float:
        drained = max(0.0, now - self._at) * self.limit / WINDOW_S
        return max(0.0, self._level - drained)


class Rates:
    """The limits of one session: responses begun, and tokens they read and wrote."""

    def __init__(self, can: Capabilities) -> None:
        self._requests = Bucket("requests", can.responses_per_minute)
        self._tokens = Bucket("tokens", can.tokens_per_minute)

    def wait_s(self, now: float) -> float:
        """Return how long it takes until a response may begin; 0 where it may be now."""
        return max(self._requests.wait_s(now), self._tokens.wait_s(now))

    def begin(self, now: float) -> None:
        """Note a response that begins."""
        self._requests.take(1, now)

    def spend(self, tokens: int, now: float) -> None:
        """Note what a response read and wrote."""
        self._tokens.take(tokens, now)

    def view(self, now: float) -> tuple[RateLimit, ...]:
        """Return what a client is told."""
        return (self._requests.view(now), self._tokens.view(now))
