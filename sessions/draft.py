"""An answer made ahead of the end of a turn, and what the stages made of it so far."""

from __future__ import annotations

from .conversation import BYTES_PER_MS
from .events import ReplyAudio, ReplyEnded, ReplyEvent, ReplyOutcome
from .response import Response

HELD_MS = 10_000
"""Audio made ahead for an answer that may never be given; a draft beyond it is dropped."""

HELD_EVENTS = 10_000
"""What stages may tell of such an answer; a draft beyond it is dropped too."""


class Draft:
    """An answer prepared in a pause, before it is known that the turn is over."""

    def __init__(self, response: Response, basis: object) -> None:
        self.response = response
        self.basis = basis
        """What it was made from; it is worth nothing once that has changed."""

        self.held: list[ReplyEvent] = []
        self._held_bytes = 0
        self._failed = False
        self.ended = False
        """Whether nothing more comes of it."""

    @property
    def useless(self) -> bool:
        """Whether it is better made again: it failed, or is more than may be held."""
        too_much = self._held_bytes > HELD_MS * BYTES_PER_MS or len(self.held) > HELD_EVENTS
        return self._failed or too_much

    def hold(self, event: ReplyEvent) -> None:
        """Keep what a stage made until the answer is given."""
        self.held.append(event)
        if isinstance(event, ReplyAudio):
            self._held_bytes += len(event.pcm)
        elif isinstance(event, ReplyEnded):
            self.ended = True
            self._failed = event.outcome is ReplyOutcome.FAILED
