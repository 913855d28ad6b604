"""Responses of the conversation: at most one runs; how it starts, is interrupted, and ends."""

from __future__ import annotations

from collections.abc import Callable

from .aside import Asides
from .delivery import Delivery
from .draft import Draft
from .errors import ErrorInfo, Refusal
from .events import ReplyAudio, ReplyEvent, ResponseOptions
from .launch import Launcher
from .measure import TurnClock, measure_turn
from .plan import make_plan
from .response import Response
from .settings import SessionKind
from .state import Deadline, DeadlineReason, SessionState, soonest
from .work_effects import AbortReply


class Answers:
    """Owns every response of a session."""

    def __init__(
        self, state: SessionState, delivery: Delivery, waiting: Callable[[], bool]
    ) -> None:
        self._state = state
        self._delivery = delivery
        self._waiting = waiting
        """Whether something in the conversation has yet to be recognized."""

        self._launcher = Launcher(state, waiting)
        self._asides = Asides(state, self._launcher, delivery)
        self._active: Response | None = None
        self._draft: Draft | None = None
        self._queued: TurnClock | None = None
        self._ended_at: float | None = None
        """When the last response of the conversation ended."""

    # What a client asks.

    def create(self, options: ResponseOptions, now: float) -> None:
        """Answer the conversation as it is, once all of it is recognized.

        Raises:
            Refusal: a response is running, an option is not allowed, the limits are used
                up, or the session only transcribes.
        """
        if options.out_of_band:
            self._asides.check_room()
        elif self._active is not None:
            raise Refusal(
                "conversation_already_has_active_response",
                "Conversation already has an active response in progress: "
                f"{self._active.id}. Wait until the response is finished before creating a "
                "new one.",
            )
        self._launcher.check_allowed(now)
        plan = make_plan(self._state, options)
        if options.out_of_band:
            self._asides.create(plan, now)
            return
        self.drop_draft()
        self._begin(Response(self._state, plan, now), now)

    def cancel(self, response_id: str | None, now: float) -> None:
        """Stop the running response of the conversation, or the one that is named.

        Raises:
            Refusal: none is running, or not the one named.
        """
        if self._asides.cancel(response_id, now):
            return
        if self._active is None or response_id not in (None, self._active.id):
            raise Refusal(
                "response_cancel_not_active", "Cancellation failed: no active response found"
            )
        self._stop_active("client_cancelled", now)
        self._settle(now)

    def check_deletable(self, item_id: str) -> None:
        """Make sure that an item is not being written.

        Raises:
            Refusal: it is.
        """
        if self._active is not None and self._active.writes(item_id):
            raise Refusal(
                "item_delete_in_progress",
                f"Item '{item_id}' is still being generated; cancel its response first.",
                "item_id",
            )

    # What hearing asks.

    def prepare(self, text: str, now: float) -> None:
        """Begin an answer to ``text`` that nobody hears of unless it is adopted."""
        if self._active is not None or not text or self._waiting() or self._transcribes:
            return
        if self._launcher.over_limit(now) is not None:
            return
        self.drop_draft()
        response = Response(self._state, make_plan(self._state, ResponseOptions()), now)
        self._draft = Draft(response, self._basis())
        self._state.counters.drafts_started += 1
        self._launcher.start(response, text, now)

    def drop_draft(self) -> None:
        """Stop preparing; no trace of it is left."""
        if self._draft is not None:
            draft, self._draft = self._draft, None
            self._state.emit(AbortReply(draft.response.id, draft.response.epoch))

    def check_draft(self) -> None:
        """Drop the draft when what it was made from has changed."""
        if self._draft is not None and self._draft.basis != self._basis():
            self.drop_draft()

    def answer_turn(self, clock: TurnClock, now: float) -> None:
        """Answer a turn that has ended and is now in the conversation.

        One that may not be answered for now has a response that fails and says so.
        """
        if self._transcribes:
            return
        if self._active is not None:
            # The client asked not to be interrupted. What still waits for its context
            # will see the turn in it; else the turn is answered next.
            if self._active.generating or self._active.plan.input is not None:
                self._queued = clock
        elif self._draft is not None and self._launcher.over_limit(now) is None:
            self._adopt(clock, now)
        else:
            self._respond(None, clock, now)

    def speak_up(self, silence_ms: int, now: float) -> None:
        """Say something to a person who has said nothing for so long; not while answering."""
        if self._active is None and not self._transcribes:
            seconds = round(silence_ms / 1000)
            self._respond(f"The person has said nothing for {seconds} seconds.", None, now)

    def quiet_since(self, now: float) -> float | None:
        """Return when all that was said so far will have been heard; may be yet to come.

        ``None`` while an answer is under way or owed, and before there was any.
        """
        if self._active is not None or self._queued is not None or self._ended_at is None:
            return None
        return self._delivery.heard_at(self._ended_at)

    def interrupt(self, now: float) -> None:
        """Stop what is being said or still played, because the person speaks."""
        self._queued = None
        played = self._delivery.cut_played(now)
        for response in played:
            # It is generated to its end, but audio of it may still wait to be written.
            self._state.emit(AbortReply(response.id, response.epoch))
        if self._active is not None:
            self._stop_active("turn_detected", now)
        elif played:
            self._state.epoch += 1
        else:
            return
        self._state.counters.interruptions += 1

    def recognized(self, error: ErrorInfo | None, now: float) -> None:
        """Go on with responses that waited for what was said."""
        if error is not None:
            self._launcher.unheard(error)
        self._asides.recognized(error, now)
        if self._active is not None:
            self._launcher.recognized(self._active, error, now)
        self._settle(now)

    # What stages and the wire report.

    def reply(self, event: ReplyEvent, now: float) -> None:
        """Take in what a stage made; what is stale is dropped."""
        draft = self._draft
        if draft is not None and event.response_id == draft.response.id:
            draft.hold(event)
            draft.response.progress_at = now
            if draft.useless:
                self.drop_draft()
            elif isinstance(event, ReplyAudio) and not draft.ended:
                self._delivery.made(draft.response, event, now)
            return
        if self._asides.take(event, now):
            return
        active = self._active
        if active is None or event.response_id != active.id or event.epoch != active.epoch:
            self._state.counters.stale_dropped += 1
            return
        if isinstance(event, ReplyAudio):
            self._delivery.made(active, event, now)
        self._take(active, event, now)
        self._settle(now)

    def audio_written(self, response_id: str, ms: float, now: float) -> None:
        """Note that audio of a response is on the wire."""
        response = self._delivery.written(response_id, ms, now)
        if response is None or response.clock is None or response.timed is None:
            return
        self._state.emit(measure_turn(response.id, response.clock, response.timed, now))

    # Time and the end.

    @property
    def deadline(self) -> Deadline | None:
        """When the first of the running responses and the draft counts as stuck."""
        first: Deadline | None = None
        if self._active is not None:
            first = self._launcher.due(self._active)
        if self._draft is not None:
            at = self._draft.response.progress_at + self._state.can.stage_timeout_s
            first = soonest(first, Deadline(at, DeadlineReason.REPLY_STALLED))
        return soonest(first, self._asides.deadline) if self._asides else first

    def handle_deadline(self, now: float) -> None:
        """Give up on what is stuck."""
        timeout_s = self._state.can.stage_timeout_s
        if self._draft is not None and now >= self._draft.response.progress_at + timeout_s:
            self.drop_draft()
        self._asides.handle_deadline(now)
        if self._active is not None and self._launcher.give_up(self._active, now):
            self._delivery.cut(self._active, now)
            self._settle(now)

    def close(self, now: float) -> None:
        """End everything: the client is gone, or its time is up."""
        self.drop_draft()
        self._queued = None
        self._asides.close(now)
        if self._active is not None:
            self._stop_active("client_cancelled", now)

    # Inside.

    @property
    def _transcribes(self) -> bool:
        return self._state.settings.kind is SessionKind.TRANSCRIPTION

    def _basis(self) -> object:
        return (self._state.settings, self._state.conversation.version)

    def _respond(self, nudge: str | None, clock: TurnClock | None, now: float) -> None:
        """Begin a response that no client asked for."""
        self.drop_draft()
        plan = make_plan(self._state, ResponseOptions(), nudge)
        response = Response(self._state, plan, now)
        response.clock = clock
        if (error := self._launcher.over_limit(now)) is None:
            self._begin(response, now)
        else:
            self._launcher.refuse(response, error, now)
            self._ended_at = now

    def _begin(self, response: Response, now: float) -> None:
        self._announce(response, now)
        self._launcher.proceed(response, now)
        self._settle(now)

    def _adopt(self, clock: TurnClock, now: float) -> None:
        draft, self._draft = self._draft, None
        assert draft is not None
        self._state.counters.drafts_used += 1
        draft.response.clock = clock
        if (item_id := self._state.conversation.last_id) is not None:
            draft.response.hear(item_id)
        self._announce(draft.response, now)
        for event in draft.held:
            self._take(draft.response, event, now)
        self._settle(now)

    def _announce(self, response: Response, now: float) -> None:
        response.progress_at = now
        self._active = response
        self._launcher.announce(response, now)
        self._delivery.follow(response, now)

    def _take(self, response: Response, event: ReplyEvent, now: float) -> None:
        self._launcher.take(response, event, now)
        self._delivery.remember(response)

    def _stop_active(self, reason: str, now: float) -> None:
        active, self._active = self._active, None
        assert active is not None
        self._ended_at = now
        self._state.epoch += 1
        active.abort(reason, now)
        self._delivery.cut(active, now)

    def _settle(self, now: float) -> None:
        """Notice that the running response has ended, and answer what waits for that."""
        if self._active is not None and self._active.done:
            self._active = None
            self._ended_at = now
        if self._queued is not None and self._active is None:
            clock, self._queued = self._queued, None
            self.answer_turn(clock, now)
