"""What is done in a pause in case the turn is over: its words, how finished they sound, an
answer to them."""

from __future__ import annotations

from dataclasses import dataclass

from .answers import Answers
from .events import RecognitionEnded, TokenLogprob
from .finished import Finish, judge, silence_ms
from .recognition import Recognitions
from .settings import TurnKind
from .state import SessionState
from .work_effects import CancelRecognition


@dataclass(slots=True)
class Ahead:
    """A recognition begun in a pause, before it is known that the turn is over."""

    recognition_id: int
    text: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    recognized_at: float | None = None


class LookAhead:
    """At most one recognition ahead, and what follows from it; nothing of it is told."""

    def __init__(self, state: SessionState, recognitions: Recognitions) -> None:
        self._state = state
        self._recognitions = recognitions
        self._ahead: Ahead | None = None

    def join(self, answers: Answers) -> None:
        """Name who answers; called once, before any event."""
        self._answers = answers

    @property
    def begun(self) -> bool:
        """Whether the turn so far is being recognized, or has been."""
        return self._ahead is not None

    @property
    def text(self) -> str | None:
        """What was said so far, once that is known."""
        return self._ahead.text if self._ahead is not None else None

    def begin(self, pcm: bytes) -> None:
        """Find out what the turn says so far."""
        self._ahead = Ahead(self._recognitions.start(pcm))

    def recognized(self, event: RecognitionEnded, now: float) -> bool:
        """Take in what the turn says so far; return whether that is what ended."""
        ahead = self._ahead
        if ahead is None or ahead.text is not None:
            return False
        if event.recognition_id != ahead.recognition_id:
            return False
        if event.text is None:
            # The turn's own recognition will tell whether it was bad luck.
            self._ahead = None
            return True
        ahead.text = event.text.strip()
        ahead.logprobs = event.logprobs
        ahead.recognized_at = now
        return True

    def silence_ms(self) -> int | None:
        """Return the silence that is enough behind what was said, if that is known."""
        turns = self._state.settings.turn_detection
        if turns is None or self.text is None:
            return None
        return silence_ms(self._finish, turns.eagerness)

    def prepare(self, now: float) -> None:
        """Begin an answer to what was said, if one is likely to be wanted soon."""
        settings, text = self._state.settings, self.text
        if text is None or not settings.answers_turns or self._state.can.speculate_ms == 0:
            return
        turns = settings.turn_detection
        by_words = turns is not None and turns.kind is TurnKind.SEMANTIC_VAD
        if not (by_words and self._finish is Finish.UNFINISHED):
            self._answers.prepare(text, now)

    def take(self) -> Ahead | None:
        """Return what was begun, for the turn that has ended."""
        ahead, self._ahead = self._ahead, None
        return ahead

    def drop(self) -> None:
        """Cancel all of it: the turn goes on, or is no more."""
        ahead = self.take()
        if ahead is not None and ahead.text is None:
            self._state.emit(CancelRecognition(ahead.recognition_id))
        self._answers.drop_draft()

    @property
    def _finish(self) -> Finish:
        wanted = self._state.settings.transcription
        return judge(self.text, wanted.language if wanted else None)
