"""Looks at a turn that is still being said, so that its words are told while it goes on.

Only transcription sessions are told words of an open turn.
"""

from __future__ import annotations

from .agreement import Agreement
from .effects import TranscriptionDelta
from .events import RecognitionEnded
from .input_buffer import InputBuffer
from .recognition import Recognitions, stalls_at
from .settings import SessionKind
from .state import Deadline, SessionState
from .work_effects import CancelRecognition

LOOK_EVERY_MS = 1_000
"""New audio that is worth another look; more where looks take long, see below."""

LOOK_SHARE = 2
"""New audio is at least so many times as long as the last look of the turn took, so that a
recognizer which has much to do is not kept busy with looks."""

LOOK_MAX_MS = 15_000
"""Audio of one look. Each begins where the turn does, so that a longer turn would cost ever
more; of what follows the client is told at its pauses, where the turn is recognized anyway."""


class Partials:
    """At most one recognition of the open turn so far; what comes late is not missed."""

    def __init__(self, state: SessionState, recognitions: Recognitions) -> None:
        self._state = state
        self._recognitions = recognitions
        self._item_id: str | None = None
        self._start_ms = 0
        self._looked_ms = 0
        """End of the audio of the newest look."""

        self._every_ms = float(LOOK_EVERY_MS)
        self._running: int | None = None
        self._since = 0.0
        self._agreement = Agreement()

    @property
    def deadline(self) -> Deadline | None:
        """When the running look counts as stuck."""
        return None if self._running is None else stalls_at(self._state, self._since)

    def begin(self, item_id: str, start_ms: int) -> None:
        """Follow a turn that has begun."""
        self.end()
        self._item_id = item_id
        self._start_ms = self._looked_ms = start_ms
        self._every_ms = LOOK_EVERY_MS

    def look(self, buffer: InputBuffer, speech_end_ms: int, heard_ms: int, now: float) -> None:
        """Recognize the turn up to ``heard_ms`` if enough was said since the last look."""
        if self._item_id is None or self._running is not None or not self._wanted:
            return
        new_ms = heard_ms - self._looked_ms
        if new_ms < self._every_ms or speech_end_ms <= self._looked_ms:
            return
        if heard_ms - self._start_ms > LOOK_MAX_MS:
            return
        self._looked_ms = heard_ms
        self._since = now
        pcm = buffer.read(self._start_ms, heard_ms)
        self._running = self._recognitions.start(pcm, partial=True)

    def recognized(self, event: RecognitionEnded, now: float) -> bool:
        """Take in what a look saw; return whether it was one of these that ended."""
        if event.recognition_id != self._running:
            return False
        self._running = None
        took_ms = (now - self._since) * 1000
        self._every_ms = max(LOOK_EVERY_MS, LOOK_SHARE * took_ms)
        if event.text is not None:
            self.hear(event.text)
        return True

    def hear(self, text: str) -> None:
        """Take in the next hypothesis of the turn so far; tell what is certain by now."""
        if self._item_id is None or not self._wanted:
            return
        certain = self._agreement.hear(text)
        if certain:
            self._state.emit(TranscriptionDelta(self._item_id, certain))

    def make_way(self, heard_ms: int) -> None:
        """Cancel the running look: all up to ``heard_ms`` is being recognized otherwise."""
        self._looked_ms = heard_ms
        self._stop()

    def give_up(self, now: float) -> None:
        """Cancel a look that is stuck."""
        due = self.deadline
        if due is not None and now >= due.at:
            self._stop()

    def end(self) -> Agreement | None:
        """Let the turn go; return what was told of it, if anything was."""
        self._stop()
        self._item_id = None
        told, self._agreement = self._agreement, Agreement()
        return None if told.silent else told

    @property
    def _wanted(self) -> bool:
        settings = self._state.settings
        return settings.kind is SessionKind.TRANSCRIPTION and settings.transcription is not None

    def _stop(self) -> None:
        if self._running is not None:
            self._state.emit(CancelRecognition(self._running))
            self._running = None
