"""What frames cost one stage replica, learned while it works and shared by its requests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """A learned quantity in ms."""

    mean: float = 0.0
    deviation: float = 0.0


class Costs:
    """Pace of the producer, cost of a decode, and waiting ahead of one; all in ms."""

    def __init__(self, *, fixed_ms: float = 0.0, frame_ms: float = 0.0) -> None:
        """Begin with what a decode is thought to cost: ``fixed_ms + frames * frame_ms``."""
        self._fixed_ms = fixed_ms
        self._frame_ms = frame_ms

    def arrived(self, frames: int, gap_ms: float) -> None:
        """Note that frames came so long after those before them, in the same request."""

    def decoded(self, frames: int, cost_ms: float) -> None:
        """Note what a decode took, waiting not counted."""

    def waited(self, ms: float) -> None:
        """Note how long a decode waited for its turn."""

    @property
    def pace(self) -> Spread:
        """Time between two frames of the producer."""
        return Spread()

    @property
    def wait(self) -> Spread:
        """Time that a decode waits for its turn."""
        return Spread()

    def decode_ms(self, frames: int) -> float:
        """Return what a decode of so many frames is expected to take."""
        return self._fixed_ms + frames * self._frame_ms

    def statistics(self) -> dict[str, float]:
        """Return what is known, by name."""
        return {}
