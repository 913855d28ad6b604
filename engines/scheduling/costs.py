"""What frames cost one stage replica, learned while it works and shared by its requests."""

from __future__ import annotations

import math

from .estimates import Estimate, Line, Spread

ASSUMED_UTTERANCE_MS = 5000.0
"""Audio of an utterance before any has ended."""

SAME_BURST_MS = 0.5
"""Frames that come so soon after others came with them."""


class Costs:
    """Pace of the producer, cost of a decode, and waiting ahead of one; all in ms.

    A single stall moves them little, a lasting change moves them within a few samples, and
    the first of a kind, slow as first times are, is soon forgotten. Values that are not
    finite, or negative, are ignored.
    """

    def __init__(self, *, fixed_ms: float = 0.0, frame_ms: float = 0.0) -> None:
        """Begin with what a decode is thought to cost: ``fixed_ms + frames * frame_ms``.

        With both 0 nothing is thought, and the first decode is believed.
        """
        self._pace = Estimate()
        self._wait = Estimate()
        self._decode = Line(fixed_ms, frame_ms)
        self._utterance = Estimate()

    def arrived(self, frames: int, gap_ms: float) -> None:
        """Note that frames came so long after those before them, in the same request.

        The pace is all gaps over all frames, so it is the same whether frames come one by one
        or many at once; :attr:`burst` tells these apart. A gap in which the producer was held
        back, because its listener has enough, says nothing of its pace and is not told.
        """
        if frames < 1 or not _sound(gap_ms):
            return
        if gap_ms < SAME_BURST_MS:
            self._pace.extend(frames)
        else:
            self._pace.add(gap_ms, frames)

    def decoded(self, frames: int, cost_ms: float) -> None:
        """Note what a decode took, waiting not counted."""
        if frames >= 1 and _sound(cost_ms):
            self._decode.add(frames, cost_ms)

    def waited(self, ms: float) -> None:
        """Note how long a decode waited for its turn."""
        if _sound(ms):
            self._wait.add(ms)

    def ended(self, audio_ms: float) -> None:
        """Note how much audio an utterance had that was spoken to its end."""
        if _sound(audio_ms):
            self._utterance.add(audio_ms)

    @property
    def pace_known(self) -> bool:
        """Whether any frames have arrived after others."""
        return self._pace.samples > 0

    @property
    def pace(self) -> Spread:
        """Time between two frames of the producer."""
        return Spread(self._pace.mean, self._pace.deviation)

    @property
    def burst(self) -> float:
        """Frames that come at a time, at least 1."""
        return max(1.0, self._pace.portion)

    @property
    def wait(self) -> Spread:
        """Time that a decode waits for its turn."""
        return Spread(self._wait.mean, self._wait.deviation)

    @property
    def utterance_ms(self) -> float:
        """Audio that an utterance has."""
        return self._utterance.mean if self._utterance.samples else ASSUMED_UTTERANCE_MS

    def decode_ms(self, frames: int) -> float:
        """Return what a decode of so many frames is expected to take."""
        return self._decode.at(frames)

    def decode_deviation_ms(self, frames: int) -> float:
        """Return how far from that it usually is."""
        return self._decode.spread * self._decode.at(frames)

    def statistics(self) -> dict[str, float]:
        """Return what is known, by name; ms, and ``samples``, the decodes learned from."""
        return {
            "pace_ms": self._pace.mean,
            "pace_deviation_ms": self._pace.deviation,
            "decode_fixed_ms": self._decode.fixed,
            "decode_frame_ms": self._decode.each,
            "wait_ms": self._wait.mean,
            "wait_deviation_ms": self._wait.deviation,
            "samples": float(self._decode.samples),
        }


def _sound(ms: float) -> bool:
    return math.isfinite(ms) and ms >= 0
