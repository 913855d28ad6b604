"""What the person says: the input buffer, turns, recognition, and answers made ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from .agreement import Agreement
from .ahead import LookAhead
from .answers import Answers
from .conversation import BYTES_PER_MS
from .effects import BufferCleared, SpeechStarted, SpeechStopped
from .errors import ErrorInfo, Refusal
from .events import AppendAudio, RecognitionEnded, SpeechScored
from .heard_items import HeardItems
from .idle import Idle
from .input_buffer import InputBuffer
from .listening import Listening
from .measure import TurnClock
from .partials import Partials
from .recognition import Pending, Recognitions
from .state import Deadline, DeadlineReason, SessionState, soonest
from .turns import (
    PauseLasted,
    PauseNoticed,
    SpeechBegan,
    SpeechResumed,
    TurnChange,
    TurnEnded,
)
from .work_effects import ExpectTurnEnd

QUIET_KEPT_MS = 60_000
"""With turn detection on, silence older than this is let go before it fills memory."""

STALL_MS = 1_000
"""Beyond the silence that ends a turn: a client that stops sending has stopped talking."""


@dataclass(slots=True)
class OpenTurn:
    """Speech that has begun and not ended."""

    item_id: str
    start_ms: int


class Hearing:
    """Owns everything between audio appended and a user item that has a transcript."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._buffer = InputBuffer()
        self._listening = Listening(state)
        self._turn: OpenTurn | None = None
        self._recognitions = Recognitions(state)
        self._ahead = LookAhead(state, self._recognitions)
        self._partials = Partials(state, self._recognitions)
        self._items = HeardItems(state)
        self._idle = Idle(state, self._buffer, self._listening, self._items)
        self._heard_at = 0.0
        """When audio last came or was judged."""

        self._expected = False
        """Whether, without turn detection, it was said of this buffer that its end is near."""

    def join(self, answers: Answers) -> None:
        """Name who answers; called once, before any event."""
        self._answers = answers
        self._ahead.join(answers)
        self._idle.join(answers)

    def waiting(self) -> bool:
        """Whether some item of the conversation has yet to be recognized."""
        return self._recognitions.waiting

    def check_free(self, item_id: str | None) -> None:
        """Make sure that an id is not promised to what is being said.

        Raises:
            Refusal: it is.
        """
        if self._turn is not None and self._turn.item_id == item_id:
            raise Refusal(
                "item_create_duplicate_item_id",
                f"Error adding item: the id '{item_id}' belongs to an open turn.",
                "item.id",
            )

    # What a client asks.

    def apply_settings(self) -> None:
        """Start, change or stop turn detection as the settings now say."""
        wanted = self._state.settings.turn_detection
        detector = self._listening.detector
        if wanted is None:
            self._stop_listening()
        elif detector is None:
            self._listening.start(wanted, self._buffer.end_ms)
        else:
            detector.configure(wanted)
            self._judge_words()

    def append(self, event: AppendAudio, now: float) -> None:
        """Take in audio.

        Raises:
            Refusal: the buffer is full, the audio is not whole samples, or its turns would
                be too many that wait to be recognized.
        """
        if len(event.pcm) % 2:
            raise Refusal("invalid_value", "audio must be whole 16-bit samples.", "audio")
        if self._listening.detector is not None:
            self._recognitions.check_room()
        self._make_room(len(event.pcm) / BYTES_PER_MS, now)
        self._heard_at = now
        self._buffer.append(event.pcm, now)
        self._listening.feed(event.pcm)
        if self._listening.detector is None and not self._expected:
            # No pause will tell that the end is near: it may be, whenever the client likes.
            self._expected = True
            self._state.emit(ExpectTurnEnd())

    def commit(self, now: float) -> None:
        """Make a user item of the buffer; ends an open turn early.

        Raises:
            Refusal: there is less than the protocol's least amount of audio, or too many
                items wait to be recognized.
        """
        self._buffer.check_commit()
        self._recognitions.check_room()
        self._ahead.drop()
        told = self._partials.end()
        item_id = self._close_turn() or self._state.ids.next("item")
        pcm = self._buffer.read_all()
        self._forget_buffer()
        self._commit(item_id, pcm, told, now)

    def clear(self, now: float) -> None:
        """Forget the buffer and the open turn, of which nothing more is said."""
        self._drop_turn()
        self._forget_buffer()
        self._idle.stir(now)
        self._state.emit(BufferCleared())

    def check_room(self) -> None:
        """Make sure that another audio item may wait to be recognized.

        Raises:
            Refusal: too many do.
        """
        self._recognitions.check_room()

    def understand(self, item_id: str, pcm: bytes, now: float) -> None:
        """Find out what the audio of an item says that a client made."""
        pending = Pending(item_id, len(pcm) // BYTES_PER_MS, now)
        self._recognitions.expect(self._recognitions.start(pcm), pending)

    def forget(self, item_id: str, now: float) -> None:
        """Stop finding out what a deleted item says; an answer that waits for it goes on."""
        if self._recognitions.forget(item_id):
            self._answers.recognized(None, now)

    # What stages report.

    def scored(self, event: SpeechScored, now: float) -> None:
        """Judge the next frames."""
        detector = self._listening.of(event.listen_id)
        if detector is None:
            self._state.counters.stale_dropped += 1
            return
        self._heard_at = now
        for probability in event.probabilities:
            change = detector.judge(probability, event.frame_ms)
            if change is not None:
                self._turn_changed(change, now)
        if self._turn is None:
            kept_ms = min(QUIET_KEPT_MS, self._state.can.max_input_ms // 2)
            self._buffer.drop_before(detector.position_ms - kept_ms)
        elif not self._ahead.begun:
            heard_ms = min(detector.position_ms, self._buffer.end_ms)
            self._partials.look(self._buffer, detector.speech_end_ms, heard_ms, now)

    def listening_failed(self, listen_id: int, message: str, now: float) -> None:
        """Open voice activity again, a few times; then go on without it."""
        if self._listening.of(listen_id) is None:
            return
        if self._turn is not None:
            # Nobody would tell when it ends; what was said of it shall not be lost.
            self._end_turn_here(now)
        self._listening.failed(message, self._buffer.end_ms)

    def recognized(self, event: RecognitionEnded, now: float) -> None:
        """Take in what was said: in a pause, in an open turn, or in a committed item."""
        if self._ahead.recognized(event, now):
            self._words_known(now)
        elif self._partials.recognized(event, now):
            pass
        elif (pending := self._recognitions.take(event.recognition_id)) is not None:
            if event.text is not None:
                self._items.understood(pending, event.text.strip(), event.logprobs)
                self._answers.recognized(None, now)
            else:
                self._not_understood(pending, event.error_code, event.error_message, now)
        else:
            self._state.counters.stale_dropped += 1

    # Time and the end.

    @property
    def deadline(self) -> Deadline | None:
        """When audio is missed in an open turn, or a recognition counts as stuck."""
        return soonest(self._stall_deadline(), self._recognitions.deadline, self._partials.deadline)

    def idle_deadline(self, now: float) -> Deadline | None:
        """When nobody will have spoken for so long that the session speaks up."""
        return self._idle.deadline(now) if self._turn is None else None

    def handle_deadline(self, now: float) -> None:
        """End a turn whose audio stopped; give up on stuck recognitions; end a long quiet."""
        stall = self._stall_deadline()
        if stall is not None and now >= stall.at:
            self._end_turn_here(now)
        self._partials.give_up(now)
        while (pending := self._recognitions.give_up(now)) is not None:
            message = "What was said could not be recognized in time."
            self._not_understood(pending, "recognition_timeout", message, now)
        if self._turn is None:
            self._idle.handle_deadline(now)

    def close(self) -> None:
        """Stop everything: the client is gone, or its time is up."""
        self._recognitions.close()
        self._drop_turn()
        self._listening.stop()
        self._buffer.clear()

    # Turns.

    def _turn_changed(self, change: TurnChange, now: float) -> None:
        match change:
            case SpeechBegan(start_ms=start_ms):
                self._begin_turn(start_ms, now)
            case PauseNoticed():
                if self._state.settings.looks_ahead:
                    self._state.emit(ExpectTurnEnd())
            case PauseLasted(heard_ms=heard_ms):
                self._look_ahead(heard_ms)
            case SpeechResumed():
                self._ahead.drop()
            case TurnEnded(speech_end_ms=speech_end_ms, end_ms=end_ms):
                self._end_turn(speech_end_ms, end_ms, now)
            case _:
                assert_never(change)

    def _begin_turn(self, start_ms: int, now: float) -> None:
        start_ms = max(start_ms, self._buffer.start_ms)
        self._buffer.drop_before(start_ms)
        self._turn = OpenTurn(self._state.ids.next("item"), start_ms)
        self._partials.begin(self._turn.item_id, start_ms)
        self._state.emit(SpeechStarted(start_ms, self._turn.item_id))
        settings = self._state.settings.turn_detection
        if settings is not None and settings.interrupt_response:
            self._answers.interrupt(now)

    def _end_turn(self, speech_end_ms: int, end_ms: int, now: float) -> None:
        turn, self._turn = self._turn, None
        assert turn is not None
        told = self._partials.end()
        spoken_at = self._buffer.arrival(speech_end_ms) or now
        pcm = self._buffer.read(turn.start_ms, end_ms)
        self._buffer.drop_before(end_ms)
        self._state.emit(SpeechStopped(end_ms, turn.item_id))
        recognized_at = self._commit(turn.item_id, pcm, told, now)
        if not self._state.settings.answers_turns:
            self._answers.drop_draft()
            return
        self._answers.answer_turn(TurnClock(spoken_at, now, recognized_at), now)

    def _close_turn(self) -> str | None:
        """End the open turn where the audio ends; return the id its item shall have."""
        turn, self._turn = self._turn, None
        if turn is None:
            return None
        self._state.emit(SpeechStopped(self._buffer.end_ms, turn.item_id))
        return turn.item_id

    def _drop_turn(self) -> None:
        """Forget the open turn: it becomes no item."""
        self._ahead.drop()
        self._partials.end()
        self._turn = None

    def _stall_deadline(self) -> Deadline | None:
        detector = self._listening.detector
        if self._turn is None or detector is None:
            return None
        patience_ms = detector.patience_ms + STALL_MS
        return Deadline(self._heard_at + patience_ms / 1000, DeadlineReason.INPUT_STALLED)

    def _end_turn_here(self, now: float) -> None:
        """End the open turn where the audio ends, judged or not."""
        detector = self._listening.detector
        assert detector is not None
        end_ms = self._buffer.end_ms
        speech_end_ms = detector.speech_end_ms
        if detector.position_ms < end_ms:
            # There may be speech behind the pause that was looked at.
            self._ahead.drop()
        detector.restart(end_ms)
        self._end_turn(speech_end_ms, end_ms, now)

    def _stop_listening(self) -> None:
        if self._listening.detector is not None:
            self._drop_turn()
            self._listening.stop()

    # The buffer.

    def _make_room(self, coming_ms: float, now: float) -> None:
        limit_ms = self._state.can.max_input_ms
        if self._turn is not None and coming_ms <= limit_ms < self._buffer.length_ms + coming_ms:
            # A turn can't be longer than what is kept of it: it ends here.
            self._end_turn_here(now)
        self._buffer.check_room(coming_ms, limit_ms)

    def _forget_buffer(self) -> None:
        self._buffer.clear()
        self._expected = False
        if self._listening.detector is not None:
            self._listening.detector.restart(self._buffer.end_ms)

    def _commit(self, item_id: str, pcm: bytes, told: Agreement | None, now: float) -> float | None:
        """Make an item of speech; return when it was recognized, if it is already."""
        self._idle.stir(now)
        self._items.commit(item_id, pcm)
        pending = Pending(item_id, len(pcm) // BYTES_PER_MS, now, told)
        ahead = self._ahead.take()
        if ahead is None:
            self._recognitions.expect(self._recognitions.start(pcm), pending)
        elif ahead.text is None:
            self._recognitions.expect(ahead.recognition_id, pending)
        else:
            self._items.understood(pending, ahead.text, ahead.logprobs)
            return ahead.recognized_at
        return None

    # Recognition.

    def _look_ahead(self, heard_ms: int) -> None:
        if self._turn is not None and self._state.settings.looks_ahead:
            self._partials.make_way(heard_ms)
            self._ahead.begin(self._buffer.read(self._turn.start_ms, heard_ms))

    def _words_known(self, now: float) -> None:
        """Go on with what was said before the pause, if it was understood."""
        text, detector = self._ahead.text, self._listening.detector
        if text is None or detector is None:
            return
        self._partials.hear(text)
        self._judge_words()
        ended = detector.overdue()
        if ended is not None:
            self._turn_changed(ended, now)
        else:
            self._ahead.prepare(now)

    def _judge_words(self) -> None:
        silence_ms, detector = self._ahead.silence_ms(), self._listening.detector
        if silence_ms is not None and detector is not None:
            detector.wait(silence_ms)

    def _not_understood(
        self, pending: Pending, code: str | None, message: str | None, now: float
    ) -> None:
        error = ErrorInfo(
            code or "recognition_failed",
            message or "What was said could not be recognized.",
            type="server_error",
        )
        self._items.not_understood(pending, error)
        newest = self._state.conversation.last_id == pending.item_id
        self._answers.recognized(error if newest else None, now)
