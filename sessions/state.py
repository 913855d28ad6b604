"""What the parts of a session share: one owner, passed to each."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from .conversation import Conversation
from .effects import Effect, ItemDeleted
from .ids import IdSource
from .settings import Capabilities, Settings


class DeadlineReason(Enum):
    """Why a session wants to be woken."""

    SESSION_EXPIRES = auto()
    INPUT_STALLED = auto()
    RECOGNITION_STALLED = auto()
    REPLY_STALLED = auto()
    PLAYBACK_STALLED = auto()
    MEASURE = auto()
    IDLE = auto()


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant, and the timer that asked for it."""

    at: float
    reason: DeadlineReason


def soonest(*deadlines: Deadline | None) -> Deadline | None:
    """Return the earliest of several deadlines, if there is any."""
    # Asked after every event, so written for speed.
    first: Deadline | None = None
    for each in deadlines:
        if each is not None and (first is None or each.at < first.at):
            first = each
    return first


@dataclass(slots=True, kw_only=True)
class Counters:
    """What happened so far; for metrics only, nothing is decided by them."""

    stale_dropped: int = 0
    """Events of stages that came after their work was cancelled."""

    drafts_started: int = 0
    drafts_used: int = 0
    interruptions: int = 0
    responses: int = 0


class SessionState:
    """Settings, conversation, epoch, and the effects waiting to be carried out."""

    def __init__(self, seed: str, settings: Settings, can: Capabilities) -> None:
        self.ids = IdSource(seed)
        self.settings = settings
        self.can = can
        self.conversation = Conversation(can.max_items, can.max_retained_ms, self._evicted)
        self.epoch = 0
        self.effects: deque[Effect] = deque()
        self.counters = Counters()

    def emit(self, *effects: Effect) -> None:
        """Ask for effects, in order."""
        self.effects.extend(effects)

    def _evicted(self, item_id: str) -> None:
        self.emit(ItemDeleted(item_id))
