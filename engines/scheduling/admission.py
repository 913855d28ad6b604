"""When one more reply may begin to be spoken, so that those being spoken never falter.

Earliest deadline first serves everybody well while there is time for all. Beyond that it
serves everybody badly: each is late in turn. So replies begin only as long as the stages
have time for one more; others wait, first come first served.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

PRIOR_SHARE = 0.1
"""Of a stage's time that one reply is thought to need ahead of any measurement."""

PRIOR_SECONDS = 2.0
"""Audio whose measurement weighs as much as what was thought before."""

STARTING = 3.0
"""As so many replies one counts that has just begun: its first chunks are short, which costs more
of a stage's time, and it is to get ahead of its listener quickly."""

MEMORY_SECONDS = 30.0
"""Audio after which an earlier measurement weighs half."""


class Share:
    """Seconds of its time that a stage takes for a second of audio, all its threads together.

    That is the share of it which one reply needs whose audio is made as fast as it is heard.
    """

    def __init__(self) -> None:
        self._busy = PRIOR_SHARE * PRIOR_SECONDS
        self._audio = PRIOR_SECONDS
        self._told = (0.0, 0.0)

    @property
    def value(self) -> float:
        """What is known by now, recent audio weighing most."""
        return self._busy / self._audio

    def told(self, busy_seconds: float, audio_seconds: float) -> None:
        """Note the counters of a stage, which only grow; smaller ones begin anew."""
        busy, audio = busy_seconds - self._told[0], audio_seconds - self._told[1]
        if not (math.isfinite(busy) and math.isfinite(audio)):
            return
        self._told = (busy_seconds, audio_seconds)
        if busy < 0 or audio < 0:
            return
        kept = 0.5 ** (audio / MEMORY_SECONDS)
        self._busy = self._busy * kept + busy
        self._audio = self._audio * kept + audio


@dataclass(slots=True, eq=False)
class Applicant:
    """A reply that asked to be spoken."""

    asked_at: float
    admitted_at: float | None = None
    """``None`` while it waits, and where it was refused."""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the stages are."""

    share: float = 0.0
    """Of the busiest stage's time that one reply needs; see :class:`Share`."""

    resting: int = 0
    """Replies that were admitted and need nothing now: their listeners have stopped."""

    starting: int = 0
    """Replies that have just begun: see :data:`STARTING`."""

    pressed: bool = False
    """Whether a listener is about to run dry whose audio waits to be made."""


class Admission:
    """Counts the replies being spoken, and keeps those that wait in order.

    One begins while ``(spoken + 1) * share`` is within the load allowed, where those that have
    just begun count :data:`STARTING` times, and no listener is pressed; where nothing is being
    spoken, always.
    """

    def __init__(self, *, load: float, waiting: int, wait_seconds: float) -> None:
        """``waiting``: at most so many, each no longer than ``wait_seconds``."""
        self.admitted = 0
        self.delayed = 0
        """Of those, how many had waited."""

        self.delayed_ms = 0.0
        """How long, in all."""

        self.refused = 0
        """For too many that waited, or too long a wait."""

        self._load = load
        self._bound = waiting
        self._patience = wait_seconds
        self._active: set[Applicant] = set()
        self._waiting: deque[Applicant] = deque()

    @property
    def active(self) -> int:
        """Replies admitted that have not left."""
        return len(self._active)

    @property
    def waiting(self) -> int:
        """Replies that wait."""
        return len(self._waiting)

    def ask(self, now: float, load: Load) -> Applicant | None:
        """Admit a reply or let it wait; ``None`` where too many wait."""
        applicant = Applicant(now)
        if not self._waiting and self._has_room(load):
            self._admit(applicant, now)
        elif len(self._waiting) >= self._bound:
            self.refused += 1
            return None
        else:
            self._waiting.append(applicant)
        return applicant

    def admit(self, now: float, load: Load) -> list[Applicant]:
        """Return those who wait no longer, the first first: admitted, or refused for the time.

        The latter are those whose ``admitted_at`` is ``None``.
        """
        done: list[Applicant] = []
        while self._waiting and now - self._waiting[0].asked_at >= self._patience:
            self.refused += 1
            done.append(self._waiting.popleft())
        while self._waiting and self._has_room(load):
            applicant = self._waiting.popleft()
            self._admit(applicant, now)
            self.delayed += 1
            self.delayed_ms += (now - applicant.asked_at) * 1000
            done.append(applicant)
        return done

    def leave(self, applicant: Applicant) -> None:
        """Free the place of a reply that is made, or gone; also one that waits. Idempotent."""
        if applicant in self._active:
            self._active.remove(applicant)
        elif applicant in self._waiting:
            self._waiting.remove(applicant)

    def statistics(self) -> dict[str, float]:
        """Counters since the start, and how many are spoken and wait now."""
        return {
            "spoken": float(self.active),
            "waiting": float(self.waiting),
            "admitted": float(self.admitted),
            "delayed": float(self.delayed),
            "delayed_ms": self.delayed_ms,
            "refused": float(self.refused),
        }

    def _has_room(self, load: Load) -> bool:
        active = max(0, self.active - load.resting)
        if not active:
            return True
        starting = (STARTING - 1) * load.starting
        return not load.pressed and (active + starting + 1) * load.share <= self._load

    def _admit(self, applicant: Applicant, now: float) -> None:
        applicant.admitted_at = now
        self._active.add(applicant)
        self.admitted += 1
