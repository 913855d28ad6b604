"""How much to decode next, from what the listener has left and what decoding costs."""

from __future__ import annotations

from dataclasses import dataclass

from .costs import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class RampRules:
    """What the chunks of a decoder may be like."""

    frame_ms: float
    """Audio of one frame."""

    sizes: tuple[int, ...]
    """Frames that a chunk may have, ascending."""

    margin_ms: float = 40.0
    """Audio that the listener shall still have when a chunk is there."""

    caution: float = 2.0
    """How many deviations of a cost are reckoned with."""

    smooth: bool = True
    """Whether production slower than real time waits at the start rather than stutters."""

    max_first_delay_ms: float = 2000.0
    """The most that is waited for that."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now."""

    frames: int
    """To decode; 0 is to wait for more of them."""

    again_ms: float | None = None
    """Where to wait: how long at most, without any more frames, until the next question."""


class Ramp:
    """Chooses the chunks of one request."""

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
    ) -> Step:
        """Choose the next chunk.

        Args:
            have: Frames that can be decoded now.
            complete: Whether no more will be added to them: what is here is all of a
                clause, or of the utterance.
            buffer_ms: Audio that the listener has left; ``None`` ahead of the first chunk.
            waited_ms: Time since the first frame came, ahead of the first chunk.
            expected_ms: Audio that the whole utterance may have, where that is known.
        """
        sizes = self._rules.sizes
        if have and (complete or have >= sizes[0]):
            return Step(min(have, sizes[-1]))
        return Step(0)
