"""Recognitions: how they start, and which items wait for their words."""

from __future__ import annotations

from dataclasses import dataclass

from .agreement import Agreement
from .errors import Refusal
from .settings import Transcription
from .state import Deadline, DeadlineReason, SessionState
from .work_effects import CancelRecognition, StartRecognition

MAX_PENDING = 16
"""Items of one session that wait to be recognized; a person does not talk that fast."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A committed item that is being recognized."""

    item_id: str
    audio_ms: int
    since: float
    told: Agreement | None = None
    """What the client was told of it while it was being said; ``None`` for nothing."""


def expected_words(wanted: Transcription) -> str | None:
    """Return what the recognizer is told to expect: the prompt, then the keywords."""
    hints = [wanted.prompt or "", ", ".join(wanted.keywords or ())]
    return " ".join(hint for hint in hints if hint) or None


def stalls_at(state: SessionState, since: float) -> Deadline:
    """Return when a recognition begun at ``since`` counts as stuck."""
    return Deadline(since + state.can.stage_timeout_s, DeadlineReason.RECOGNITION_STALLED)


class Recognitions:
    """Starts them, and knows which item waits for which."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._started = 0
        self._pending: dict[int, Pending] = {}

    @property
    def waiting(self) -> bool:
        """Whether some item has yet to be recognized."""
        return bool(self._pending)

    @property
    def deadline(self) -> Deadline | None:
        """When the oldest counts as stuck."""
        if not self._pending:
            return None
        return stalls_at(self._state, min(pending.since for pending in self._pending.values()))

    def check_room(self) -> None:
        """Make sure that another item may wait.

        Raises:
            Refusal: too many do.
        """
        if len(self._pending) >= MAX_PENDING:
            raise Refusal(
                "too_many_recognitions",
                f"{MAX_PENDING} audio items are still being recognized; wait for them first.",
            )

    def start(self, pcm: bytes, *, partial: bool = False) -> int:
        """Find out what audio says; return the id of the recognition."""
        self._started += 1
        settings = self._state.settings
        wanted = settings.transcription
        self._state.emit(
            StartRecognition(
                self._started,
                pcm,
                wanted.language if wanted else None,
                expected_words(wanted) if wanted else None,
                logprobs=settings.logprobs and not partial,
                partial=partial,
            )
        )
        return self._started

    def expect(self, recognition_id: int, pending: Pending) -> None:
        """Note that an item waits for a recognition."""
        self._pending[recognition_id] = pending

    def take(self, recognition_id: int) -> Pending | None:
        """Return the item that waited for a recognition, which has ended."""
        return self._pending.pop(recognition_id, None)

    def forget(self, item_id: str) -> bool:
        """Cancel the recognition of an item; return whether there was one."""
        waiting = [i for i, pending in self._pending.items() if pending.item_id == item_id]
        for recognition_id in waiting:
            self._cancel(recognition_id)
        return bool(waiting)

    def give_up(self, now: float) -> Pending | None:
        """Cancel the oldest that is stuck; return the item that waited for it."""
        for recognition_id, pending in self._pending.items():
            if now >= stalls_at(self._state, pending.since).at:
                self._cancel(recognition_id)
                return pending
        return None

    def close(self) -> None:
        """Cancel all."""
        for recognition_id in list(self._pending):
            self._cancel(recognition_id)

    def _cancel(self, recognition_id: int) -> None:
        del self._pending[recognition_id]
        self._state.emit(CancelRecognition(recognition_id))
