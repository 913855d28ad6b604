"""When a session that nobody speaks in speaks up by itself."""

from __future__ import annotations

from .answers import Answers
from .conversation import BYTES_PER_MS
from .effects import IdleTimedOut
from .heard_items import HeardItems
from .input_buffer import InputBuffer
from .listening import Listening
from .recognition import Pending
from .settings import SessionKind
from .state import Deadline, DeadlineReason, SessionState
from .turns import TurnDetector

NEVER = float("-inf")


class Idle:
    """Waits behind each answer once, outside turns; all instants are the session's ``now``."""

    def __init__(
        self, state: SessionState, buffer: InputBuffer, listening: Listening, items: HeardItems
    ) -> None:
        self._state = state
        self._buffer = buffer
        self._listening = listening
        self._items = items
        self._stirred_at = NEVER
        """When the person last said or did something."""

        self._fired_at = NEVER

    def join(self, answers: Answers) -> None:
        """Name who answers; called once, before any event."""
        self._answers = answers

    def stir(self, now: float) -> None:
        """Begin to wait anew: the person said something."""
        self._stirred_at = now

    def deadline(self, now: float) -> Deadline | None:
        """When the quiet will have lasted as long as the settings allow."""
        timeout_s = self._timeout_s
        if timeout_s is None or (quiet_from := self._quiet_from(now)) is None:
            return None
        return Deadline(quiet_from + timeout_s, DeadlineReason.IDLE)

    def handle_deadline(self, now: float) -> None:
        """Make an item of a quiet that was too long, and answer that."""
        due, quiet_from = self.deadline(now), self._quiet_from(now)
        detector = self._listening.detector
        if due is None or quiet_from is None or detector is None or now < due.at:
            return
        self._fired_at = now
        self._commit_silence(quiet_from, detector, now)
        if self._state.settings.answers_turns:
            self._answers.speak_up(round((now - quiet_from) * 1000), now)

    def _commit_silence(self, quiet_from: float, detector: TurnDetector, now: float) -> None:
        # What may be the first of speech stays for the turn that it begins.
        end_ms = max(detector.quiet_ms, self._buffer.start_ms)
        start_ms = min(self._buffer.position_ms(quiet_from), end_ms)
        pcm = self._buffer.read(start_ms, end_ms)
        self._buffer.drop_before(end_ms)
        detector.keep_from(end_ms)
        item_id = self._state.ids.next("item")
        self._state.emit(IdleTimedOut(start_ms, end_ms, item_id))
        self._items.commit(item_id, pcm, "")
        self._items.tell(Pending(item_id, len(pcm) // BYTES_PER_MS, now), "", ())

    @property
    def _timeout_s(self) -> float | None:
        settings = self._state.settings
        turns = settings.turn_detection
        if turns is None or turns.idle_timeout_ms is None or self._listening.detector is None:
            return None
        return None if settings.kind is SessionKind.TRANSCRIPTION else turns.idle_timeout_ms / 1000

    def _quiet_from(self, now: float) -> float | None:
        """Return when the quiet began, or ``None`` while there is none to wait in."""
        heard_at = self._answers.quiet_since(now)
        if heard_at is None or heard_at <= self._fired_at:
            return None
        return max(heard_at, self._stirred_at)
