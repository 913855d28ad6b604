"""The session core: events and instants in, effects and a deadline out.

The whole truth about one conversation. Nothing here reads a clock, awaits, or touches a
socket. The contract, for whoever drives it:

1. Call :meth:`Session.handle` or :meth:`Session.handle_deadline`: one mutation.
2. Drain :meth:`Session.next_effect` until it returns ``None``.
3. Re-arm one timer from :attr:`Session.deadline`. Then the next mutation.

The same events at the same instants give the same effects, byte for byte.
"""

from __future__ import annotations

from typing import assert_never

from .answers import Answers
from .delivery import Delivery
from .effects import Effect, ErrorRaised, SessionCreated, SessionUpdated
from .errors import ErrorInfo, Refusal
from .events import (
    AppendAudio,
    Attached,
    AudioWritten,
    CancelResponse,
    ClearAudio,
    ClientEvent,
    CommitAudio,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Detached,
    Event,
    ListeningFailed,
    RecognitionEnded,
    RejectMessage,
    ReplyAudio,
    ReplyCall,
    ReplyEnded,
    ReplyFitted,
    ReplyText,
    ReplyTimed,
    ReplyWords,
    ReportPlayback,
    RetrieveItem,
    SpeechScored,
    TruncateItem,
    UpdateSession,
)
from .hearing import Hearing
from .item_requests import ItemRequests
from .merging import merge
from .settings import Capabilities, Settings
from .state import Counters, Deadline, DeadlineReason, SessionState, soonest
from .work_effects import CloseConnection


class Session:
    """One conversation with one client."""

    def __init__(self, seed: str, settings: Settings, can: Capabilities) -> None:
        self._state = SessionState(seed, settings, can)
        self.id = self._state.ids.next("sess")
        self.conversation_id = self._state.ids.next("conv")
        self._delivery = Delivery(self._state)
        self._hearing = Hearing(self._state)
        self._answers = Answers(self._state, self._delivery, self._hearing.waiting)
        self._hearing.join(self._answers)
        self._items = ItemRequests(self._state, self._hearing, self._answers, self._delivery)
        self._expiry: Deadline | None = None
        self._expires_epoch_s = 0
        self._closed = False
        self._now = 0.0

    @property
    def settings(self) -> Settings:
        """The effective configuration."""
        return self._state.settings

    @property
    def epoch(self) -> int:
        """Grows with every interruption and cancel."""
        return self._state.epoch

    @property
    def counters(self) -> Counters:
        """What happened so far."""
        return self._state.counters

    @property
    def deadline(self) -> Deadline | None:
        """When to call :meth:`handle_deadline`, and why."""
        if self._closed or self._expiry is None:
            return None
        return soonest(
            self._expiry,
            self._hearing.deadline,
            self._hearing.idle_deadline(self._now),
            self._answers.deadline,
            self._delivery.deadline,
        )

    def handle(self, event: Event, now: float) -> None:
        """Apply one event received at ``now``, monotonic seconds.

        Never raises for anything that a client or a stage may do.
        """
        if self._closed:
            return
        now = self._advance(now)
        try:
            self._dispatch(event, now)
        except Refusal as refusal:
            event_id = getattr(event, "event_id", None)
            self._state.emit(ErrorRaised(refusal.info(event_id)))
        self._answers.check_draft()

    def handle_deadline(self, now: float) -> None:
        """Apply the passing of time; harmless before the deadline."""
        if self._closed:
            return
        now = self._advance(now)
        if self._expiry is not None and now >= self._expiry.at:
            self._expire(now)
            return
        self._hearing.handle_deadline(now)
        self._answers.handle_deadline(now)
        self._delivery.handle_deadline(now)

    def next_effect(self) -> Effect | None:
        """Return the oldest effect not yet carried out."""
        effects = self._state.effects
        return effects.popleft() if effects else None

    # Inside.

    def _advance(self, now: float) -> float:
        # Time going backwards is ignored, here and nowhere else.
        self._now = max(self._now, now)
        return self._now

    def _dispatch(self, event: Event, now: float) -> None:
        match event:
            case SpeechScored():
                self._hearing.scored(event, now)
            case ListeningFailed(listen_id=listen_id, message=message):
                self._hearing.listening_failed(listen_id, message, now)
            case RecognitionEnded():
                self._hearing.recognized(event, now)
            case (
                ReplyText()
                | ReplyWords()
                | ReplyAudio()
                | ReplyCall()
                | ReplyFitted()
                | ReplyTimed()
                | ReplyEnded()
            ):
                self._answers.reply(event, now)
            case AudioWritten(response_id=response_id, ms=ms):
                self._answers.audio_written(response_id, ms, now)
            case Attached(epoch_s=epoch_s):
                self._attach(epoch_s, now)
            case Detached():
                self._close(now)
            case _:
                self._dispatch_client(event, now)

    def _dispatch_client(self, event: ClientEvent, now: float) -> None:
        match event:
            case AppendAudio():
                self._hearing.append(event, now)
            case UpdateSession():
                self._update(event)
            case CommitAudio():
                self._hearing.commit(now)
            case ClearAudio():
                self._hearing.clear(now)
            case CreateResponse(options=options):
                self._answers.create(options, now)
            case CancelResponse(response_id=response_id):
                self._answers.cancel(response_id, now)
            case ReportPlayback():
                self._delivery.report(event, now)
            case RejectMessage(error=error):
                self._state.emit(ErrorRaised(error))
            case CreateItem() | RetrieveItem() | TruncateItem() | DeleteItem():
                self._items.handle(event, now)
            case _:
                assert_never(event)

    def _attach(self, epoch_s: int, now: float) -> None:
        life_s = self._state.can.max_session_s
        self._expiry = Deadline(now + life_s, DeadlineReason.SESSION_EXPIRES)
        self._expires_epoch_s = epoch_s + int(life_s)
        self._state.emit(SessionCreated(self.id, self.settings, self._expires_epoch_s))
        self._hearing.apply_settings()

    def _update(self, event: UpdateSession) -> None:
        merged = merge(self.settings, event.patch, self._state.can)
        if merged.voice != self.settings.voice and self._has_spoken():
            raise Refusal(
                "cannot_update_voice",
                "Cannot update a conversation's voice if assistant audio is present.",
                "session.audio.output.voice",
            )
        self._state.settings = merged
        self._state.emit(SessionUpdated(self.id, merged, self._expires_epoch_s))
        self._hearing.apply_settings()

    def _has_spoken(self) -> bool:
        return any(item.spoken for item in self._state.conversation)

    def _expire(self, now: float) -> None:
        minutes = round(self._state.can.max_session_s / 60)
        message = f"Your session hit the maximum duration of {minutes} minutes."
        self._state.emit(ErrorRaised(ErrorInfo("session_expired", message)))
        self._close(now)
        self._state.emit(CloseConnection(1001, message))

    def _close(self, now: float) -> None:
        self._answers.close(now)
        self._delivery.close(now)
        self._hearing.close()
        self._closed = True
