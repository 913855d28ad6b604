"""What the person says: the input buffer, turns, recognition, and answers made ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from .answers import Answers
from .conversation import BYTES_PER_MS
from .effects import (
    BufferCleared,
    BufferCommitted,
    ErrorRaised,
    ItemAdded,
    ItemDone,
    SpeechStarted,
    SpeechStopped,
    TranscriptionDone,
    TranscriptionFailed,
)
from .errors import ErrorInfo, Refusal
from .events import AppendAudio, RecognitionEnded, SpeechScored
from .input_buffer import InputBuffer
from .items import Item, Part, PartKind, Role
from .measure import TurnClock
from .recognition import Ahead, Pending, Recognitions
from .settings import TurnDetection
from .state import Deadline, DeadlineReason, SessionState, soonest
from .turns import (
    PauseLasted,
    PauseNoticed,
    SpeechBegan,
    SpeechResumed,
    TurnChange,
    TurnDetector,
    TurnEnded,
)
from .work_effects import (
    CancelRecognition,
    ExpectTurnEnd,
    FeedListening,
    StartListening,
    StopListening,
)

MIN_COMMIT_MS = 100
"""Less audio than this can't be committed; the protocol's own figure."""

QUIET_KEPT_MS = 60_000
"""With turn detection on, silence older than this is let go before it fills memory."""

STALL_MS = 1_000
"""Beyond the silence that ends a turn: a client that stops sending has stopped talking."""

LISTENING_RETRIES = 3
"""How often a failed voice activity stream is opened again in one session."""


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
        self._detector: TurnDetector | None = None
        self._listen_id = 0
        self._listening_failures = 0
        self._turn: OpenTurn | None = None
        self._ahead: Ahead | None = None
        self._recognitions = Recognitions(state)
        self._heard_at = 0.0
        """When audio last came or was judged."""

    def join(self, answers: Answers) -> None:
        """Name who answers; called once, before any event."""
        self._answers = answers

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
        if wanted is None:
            self._stop_listening()
        elif self._detector is None:
            self._start_listening(wanted)
        else:
            self._detector.configure(wanted)

    def append(self, event: AppendAudio, now: float) -> None:
        """Take in audio.

        Raises:
            Refusal: the buffer is full, the audio is not whole samples, or its turns would
                be too many that wait to be recognized.
        """
        if len(event.pcm) % 2:
            raise Refusal("invalid_value", "audio must be whole 16-bit samples.", "audio")
        if self._detector is not None:
            self._recognitions.check_room()
        self._make_room(len(event.pcm) / BYTES_PER_MS, now)
        self._heard_at = now
        self._buffer.append(event.pcm, now)
        if self._detector is not None:
            self._state.emit(FeedListening(self._listen_id, event.pcm))

    def commit(self, now: float) -> None:
        """Make a user item of the buffer; ends an open turn early.

        Raises:
            Refusal: there is less than the protocol's least amount of audio, or too many
                items wait to be recognized.
        """
        if self._buffer.length_ms < MIN_COMMIT_MS:
            raise Refusal(
                "input_audio_buffer_commit_empty",
                "Error committing input audio buffer: buffer too small. Expected at least "
                f"{MIN_COMMIT_MS}ms of audio, but buffer only has "
                f"{self._buffer.length_ms:.2f}ms of audio.",
            )
        self._recognitions.check_room()
        self._drop_ahead()
        item_id = self._close_turn() or self._state.ids.next("item")
        pcm = self._buffer.read_all()
        self._forget_buffer()
        self._commit(item_id, pcm, now)

    def clear(self) -> None:
        """Forget the buffer and the open turn."""
        self._drop_ahead()
        self._turn = None
        self._forget_buffer()
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
        detector = self._detector
        if detector is None or event.listen_id != self._listen_id:
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

    def listening_failed(self, listen_id: int, message: str, now: float) -> None:
        """Open voice activity again, a few times; then go on without it."""
        if listen_id != self._listen_id or self._detector is None:
            return
        self._listening_failures += 1
        settings = self._detector.settings
        if self._turn is not None:
            # Nobody would tell when it ends; what was said of it shall not be lost.
            self._end_turn_here(now)
        self._detector = None
        if self._listening_failures <= LISTENING_RETRIES:
            self._start_listening(settings)
        else:
            error = ErrorInfo("turn_detection_failed", message, type="server_error")
            self._state.emit(ErrorRaised(error))

    def recognized(self, event: RecognitionEnded, now: float) -> None:
        """Take in what was said, in a pause or in a committed item."""
        ahead = self._ahead
        if ahead is not None and ahead.awaits(event.recognition_id):
            self._recognized_ahead(ahead, event, now)
        elif (pending := self._recognitions.take(event.recognition_id)) is not None:
            if event.text is not None:
                self._understood(pending, event.text.strip())
                self._answers.recognized(None, now)
            else:
                self._not_understood(pending, event.error_code, event.error_message, now)
        else:
            self._state.counters.stale_dropped += 1

    # Time and the end.

    @property
    def deadline(self) -> Deadline | None:
        """When audio is missed in an open turn, or a recognition counts as stuck."""
        return soonest(self._stall_deadline(), self._recognitions.deadline)

    def handle_deadline(self, now: float) -> None:
        """End a turn whose audio stopped; give up on stuck recognitions."""
        stall = self._stall_deadline()
        if stall is not None and now >= stall.at:
            self._end_turn_here(now)
        while (pending := self._recognitions.give_up(now)) is not None:
            message = "What was said could not be recognized in time."
            self._not_understood(pending, "recognition_timeout", message, now)

    def close(self) -> None:
        """Stop everything: the client is gone, or its time is up."""
        self._drop_ahead()
        self._turn = None
        self._recognitions.close()
        self._stop_listening()
        self._buffer.clear()

    # Turns.

    def _turn_changed(self, change: TurnChange, now: float) -> None:
        match change:
            case SpeechBegan(start_ms=start_ms):
                self._begin_turn(start_ms, now)
            case PauseNoticed():
                self._expect_end()
            case PauseLasted(heard_ms=heard_ms):
                self._recognize_ahead(heard_ms)
            case SpeechResumed():
                self._drop_ahead()
            case TurnEnded(speech_end_ms=speech_end_ms, end_ms=end_ms):
                self._end_turn(speech_end_ms, end_ms, now)
            case _:
                assert_never(change)

    def _begin_turn(self, start_ms: int, now: float) -> None:
        start_ms = max(start_ms, self._buffer.start_ms)
        self._buffer.drop_before(start_ms)
        self._turn = OpenTurn(self._state.ids.next("item"), start_ms)
        self._state.emit(SpeechStarted(start_ms, self._turn.item_id))
        settings = self._state.settings.turn_detection
        if settings is not None and settings.interrupt_response:
            self._answers.interrupt(now)

    def _expect_end(self) -> None:
        settings = self._state.settings.turn_detection
        if settings is not None and settings.create_response:
            self._state.emit(ExpectTurnEnd())

    def _end_turn(self, speech_end_ms: int, end_ms: int, now: float) -> None:
        turn, self._turn = self._turn, None
        assert turn is not None
        clock = TurnClock(self._buffer.arrival(speech_end_ms) or now, now)
        pcm = self._buffer.read(turn.start_ms, end_ms)
        self._buffer.drop_before(end_ms)
        self._state.emit(SpeechStopped(end_ms, turn.item_id))
        ahead = self._ahead
        self._commit(turn.item_id, pcm, now)
        settings = self._state.settings.turn_detection
        if settings is not None and settings.create_response:
            if ahead is not None and ahead.recognized_at is not None:
                clock = TurnClock(clock.speech_end_at, now, ahead.recognized_at)
            self._answers.answer_turn(clock, now)
        else:
            self._answers.drop_draft()

    def _close_turn(self) -> str | None:
        """End the open turn where the audio ends; return the id its item shall have."""
        turn, self._turn = self._turn, None
        if turn is None:
            return None
        self._state.emit(SpeechStopped(self._buffer.end_ms, turn.item_id))
        return turn.item_id

    def _stall_deadline(self) -> Deadline | None:
        if self._turn is None or self._detector is None:
            return None
        patience_ms = self._detector.settings.silence_duration_ms + STALL_MS
        return Deadline(self._heard_at + patience_ms / 1000, DeadlineReason.INPUT_STALLED)

    def _end_turn_here(self, now: float) -> None:
        """End the open turn where the audio ends, judged or not."""
        assert self._detector is not None
        end_ms = self._buffer.end_ms
        speech_end_ms = self._detector.speech_end_ms
        self._detector.restart(end_ms)
        self._end_turn(speech_end_ms, end_ms, now)

    def _start_listening(self, settings: TurnDetection) -> None:
        self._listen_id += 1
        self._detector = TurnDetector(settings, self._state.can.speculate_ms, self._buffer.end_ms)
        self._state.emit(StartListening(self._listen_id))

    def _stop_listening(self) -> None:
        if self._detector is not None:
            self._drop_ahead()
            self._turn = None
            self._detector = None
            self._state.emit(StopListening(self._listen_id))

    # The buffer.

    def _make_room(self, coming_ms: float, now: float) -> None:
        limit_ms = self._state.can.max_input_ms
        if self._turn is not None and coming_ms <= limit_ms < self._buffer.length_ms + coming_ms:
            # A turn can't be longer than what is kept of it: it ends here.
            self._end_turn_here(now)
        if self._buffer.length_ms + coming_ms > limit_ms:
            raise Refusal(
                "input_audio_buffer_full",
                f"The input audio buffer holds at most {limit_ms // 1000} s of audio; "
                "commit or clear it first.",
                "audio",
            )

    def _forget_buffer(self) -> None:
        self._buffer.clear()
        if self._detector is not None:
            self._detector.restart(self._buffer.end_ms)

    def _commit(self, item_id: str, pcm: bytes, now: float) -> None:
        conversation = self._state.conversation
        item = Item(id=item_id, role=Role.USER, parts=(Part(PartKind.INPUT_AUDIO),))
        previous = conversation.last_id
        conversation.add_made(item)
        conversation.keep_audio(item_id, pcm)
        self._state.emit(
            BufferCommitted(item_id, previous), ItemAdded(item, previous), ItemDone(item, previous)
        )
        pending = Pending(item_id, len(pcm) // BYTES_PER_MS, now)
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            self._recognitions.expect(self._recognitions.start(pcm), pending)
        elif ahead.text is None:
            self._recognitions.expect(ahead.recognition_id, pending)
        else:
            self._understood(pending, ahead.text)

    # Recognition.

    def _recognize_ahead(self, heard_ms: int) -> None:
        settings = self._state.settings.turn_detection
        if self._turn is not None and settings is not None and settings.create_response:
            pcm = self._buffer.read(self._turn.start_ms, heard_ms)
            self._ahead = Ahead(self._recognitions.start(pcm))

    def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.text is None:
            self._state.emit(CancelRecognition(ahead.recognition_id))
        self._answers.drop_draft()

    def _recognized_ahead(self, ahead: Ahead, event: RecognitionEnded, now: float) -> None:
        if event.text is None:
            # The turn's own recognition will tell whether it was bad luck.
            self._ahead = None
            return
        ahead.text = event.text.strip()
        ahead.recognized_at = now
        self._answers.prepare(ahead.text, now)

    def _understood(self, pending: Pending, text: str) -> None:
        item = self._state.conversation.get(pending.item_id)
        if item is None:
            return
        self._state.conversation.replace(item.with_text(text))
        if self._state.settings.transcription is not None:
            self._state.emit(TranscriptionDone(item.id, text, pending.audio_ms))

    def _not_understood(
        self, pending: Pending, code: str | None, message: str | None, now: float
    ) -> None:
        error = ErrorInfo(
            code or "recognition_failed",
            message or "What was said could not be recognized.",
            type="server_error",
        )
        known = self._state.conversation.get(pending.item_id) is not None
        if known and self._state.settings.transcription is not None:
            self._state.emit(TranscriptionFailed(pending.item_id, error))
        newest = self._state.conversation.last_id == pending.item_id
        self._answers.recognized(error if newest else None, now)
