"""Responses: at most one runs; how it starts, is interrupted, and ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from .context import context_messages
from .delivery import Delivery
from .draft import Draft, ReplyEvent
from .effects import ResponseStatus, TokenUsage
from .errors import ErrorInfo, Refusal
from .events import (
    ReplyAudio,
    ReplyCall,
    ReplyEnded,
    ReplyFitted,
    ReplyOutcome,
    ReplyText,
    ReplyTimed,
    ReplyWords,
    ResponseOptions,
)
from .items import PartKind, Role
from .measure import TurnClock, measure_turn
from .merging import check_text, check_tokens, check_voice
from .response import Plan, Response
from .settings import Modality
from .state import Deadline, DeadlineReason, SessionState
from .work_effects import AbortReply, StartReply


class Answers:
    """Owns every response of a session."""

    def __init__(
        self, state: SessionState, delivery: Delivery, waiting: Callable[[], bool]
    ) -> None:
        self._state = state
        self._delivery = delivery
        self._waiting = waiting
        """Whether something in the conversation has yet to be recognized."""

        self._active: Response | None = None
        self._draft: Draft | None = None
        self._queued: TurnClock | None = None
        self._unheard: tuple[str | None, ErrorInfo] | None = None
        """The newest item that could not be recognized, and why."""

    # What a client asks.

    def create(self, options: ResponseOptions, now: float) -> None:
        """Answer the conversation as it is, once all of it is recognized.

        Raises:
            Refusal: a response is running, or an option is not allowed.
        """
        if self._active is not None:
            raise Refusal(
                "conversation_already_has_active_response",
                "Conversation already has an active response in progress: "
                f"{self._active.id}. Wait until the response is finished before creating a "
                "new one.",
            )
        plan = self._plan(options)
        self.drop_draft()
        self._begin(Response(self._state, plan, now), now)

    def cancel(self, response_id: str | None, now: float) -> None:
        """Stop the running response.

        Raises:
            Refusal: none is running, or not the one named.
        """
        if self._active is None or response_id not in (None, self._active.id):
            raise Refusal(
                "response_cancel_not_active", "Cancellation failed: no active response found"
            )
        self._stop_active("client_cancelled", now)
        self._answer_queued(now)

    def check_deletable(self, item_id: str) -> None:
        """Make sure that an item is not being written.

        Raises:
            Refusal: it is.
        """
        if self._active is not None and self._active.item_id == item_id:
            raise Refusal(
                "item_delete_in_progress",
                f"Item '{item_id}' is still being generated; cancel its response first.",
                "item_id",
            )

    # What hearing asks.

    def prepare(self, text: str, now: float) -> None:
        """Begin an answer to ``text`` that nobody hears of unless it is adopted."""
        if self._active is not None or not text or self._waiting():
            return
        self.drop_draft()
        response = Response(self._state, self._plan(ResponseOptions()), now)
        self._draft = Draft(response, self._basis())
        self._state.counters.drafts_started += 1
        self._start(response, text, now)

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
        """Answer a turn that has ended and is now in the conversation."""
        if self._active is not None:
            # The client asked not to be interrupted. What still waits for its context
            # will see the turn in it; else the turn is answered next.
            if self._active.generating:
                self._queued = clock
        elif self._draft is not None:
            self._adopt(clock, now)
        else:
            response = Response(self._state, self._plan(ResponseOptions()), now)
            response.clock = clock
            self._begin(response, now)

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
        """Go on with a response that waited for what was said."""
        if error is not None:
            self._unheard = (self._state.conversation.last_id, error)
        active = self._active
        if active is None or active.generating:
            return
        if error is not None:
            self._end(ResponseStatus.FAILED, error=error)
            self._answer_queued(now)
        elif not self._waiting():
            if active.clock is not None:
                active.clock = replace(active.clock, recognized_at=now)
            self._start_or_end(active, now)

    # What stages and the wire report.

    def reply(self, event: ReplyEvent, now: float) -> None:
        """Take in what a stage made; what is stale is dropped."""
        draft = self._draft
        if draft is not None and event.response_id == draft.response.id:
            draft.hold(event)
            draft.response.progress_at = now
            if draft.useless:
                self.drop_draft()
            return
        active = self._active
        if active is None or event.response_id != active.id or event.epoch != active.epoch:
            self._state.counters.stale_dropped += 1
            return
        active.progress_at = now
        self._take(active, event)
        self._answer_queued(now)

    def audio_written(self, response_id: str, ms: float, now: float) -> None:
        """Note that audio of a response is on the wire."""
        response = self._delivery.written(response_id, ms, now)
        if response is None or response.clock is None or response.timed is None:
            return
        if self._state.settings.extensions:
            self._state.emit(measure_turn(response.id, response.clock, response.timed, now))

    # Time and the end.

    @property
    def deadline(self) -> Deadline | None:
        """When the running response or the draft counts as stuck."""
        running = [
            response.progress_at
            for response in (self._active, self._draft.response if self._draft else None)
            if response is not None and response.generating
        ]
        if not running:
            return None
        at = min(running) + self._state.can.stage_timeout_s
        return Deadline(at, DeadlineReason.REPLY_STALLED)

    def handle_deadline(self, now: float) -> None:
        """Give up on what is stuck."""
        timeout_s = self._state.can.stage_timeout_s
        if self._draft is not None and now >= self._draft.response.progress_at + timeout_s:
            self.drop_draft()
        active = self._active
        if active is not None and active.generating and now >= active.progress_at + timeout_s:
            self._state.emit(AbortReply(active.id, active.epoch))
            error = ErrorInfo(
                "response_timeout", "The model did not answer in time.", type="server_error"
            )
            self._end(ResponseStatus.FAILED, error=error)
            self._delivery.cut(active, now)
            self._answer_queued(now)

    def close(self, now: float) -> None:
        """End everything: the client is gone, or its time is up."""
        self.drop_draft()
        self._queued = None
        if self._active is not None:
            self._stop_active("client_cancelled", now)

    # Inside.

    def _plan(self, options: ResponseOptions) -> Plan:
        settings, can = self._state.settings, self._state.can
        if options.voice is not None:
            check_voice(options.voice, can, "response.audio.output.voice")
        tokens = options.max_output_tokens
        check_tokens(tokens, "response.max_output_tokens")
        own = options.instructions
        check_text(own or "", can, "response.instructions")
        return Plan(
            modality=options.modality or settings.modality,
            voice=options.voice or settings.voice,
            output_format=options.output_format or settings.output_format,
            speed=settings.speed,
            instructions=settings.instructions if own is None else own,
            max_output_tokens=settings.max_output_tokens if tokens is None else tokens,
            metadata=options.metadata,
            own_instructions=own is not None,
        )

    def _basis(self) -> object:
        return (self._state.settings, self._state.conversation.version)

    def _begin(self, response: Response, now: float) -> None:
        self._announce(response)
        if not self._waiting():
            self._start_or_end(response, now)

    def _adopt(self, clock: TurnClock, now: float) -> None:
        draft, self._draft = self._draft, None
        assert draft is not None
        self._state.counters.drafts_used += 1
        draft.response.clock = clock
        draft.response.progress_at = now
        self._announce(draft.response)
        for event in draft.held:
            self._take(draft.response, event)

    def _announce(self, response: Response) -> None:
        self._state.counters.responses += 1
        self._active = response
        self._delivery.follow(response)
        response.announce()

    def _start_or_end(self, response: Response, now: float) -> None:
        if not self._nothing_said(response):
            self._start(response, None, now)
            return
        unheard, error = self._unheard or (None, None)
        if error is not None and unheard == self._state.conversation.last_id:
            self._end(ResponseStatus.FAILED, error=error)
        else:
            self._end(ResponseStatus.COMPLETED)
        self._answer_queued(now)

    def _nothing_said(self, response: Response) -> bool:
        """Whether the newest item is audio in which no words were found."""
        if response.plan.own_instructions:
            return False
        newest = self._state.conversation.last
        return (
            newest is not None
            and newest.role is Role.USER
            and not newest.text
            and any(part.kind is PartKind.INPUT_AUDIO for part in newest.parts)
        )

    def _start(self, response: Response, draft_text: str | None, now: float) -> None:
        response.generating = True
        response.progress_at = now
        plan = response.plan
        conversation = self._state.conversation
        self._state.emit(
            StartReply(
                response_id=response.id,
                epoch=response.epoch,
                messages=context_messages(plan.instructions, conversation, draft_text),
                speak=plan.modality is Modality.AUDIO,
                voice=plan.voice,
                speed=plan.speed,
                max_output_tokens=plan.max_output_tokens,
            )
        )

    def _take(self, response: Response, event: ReplyEvent) -> None:
        match event:
            case ReplyText(text=text):
                response.add_text(text)
                self._delivery.remember(response)
            case ReplyWords(words=words):
                response.add_words(words)
                self._delivery.remember(response)
            case ReplyAudio(pcm=pcm):
                response.add_audio(pcm)
                self._delivery.remember(response)
            case ReplyCall() | ReplyFitted():
                pass
            case ReplyTimed():
                response.timed = event
            case ReplyEnded():
                self._reply_ended(event)
            case _:
                assert_never(event)

    def _reply_ended(self, event: ReplyEnded) -> None:
        usage = TokenUsage(
            input_tokens=event.input_tokens,
            cached_tokens=event.cached_tokens,
            output_tokens=event.output_tokens,
        )
        match event.outcome:
            case ReplyOutcome.COMPLETED:
                self._end(ResponseStatus.COMPLETED, usage=usage)
            case ReplyOutcome.LENGTH:
                self._end(ResponseStatus.INCOMPLETE, reason="max_output_tokens", usage=usage)
            case ReplyOutcome.FAILED:
                error = ErrorInfo(
                    event.error_code or "internal_error",
                    event.error_message or "The response failed.",
                    type="server_error",
                    retry_after_ms=event.retry_after_ms,
                )
                self._end(ResponseStatus.FAILED, error=error, usage=usage)
            case _:
                assert_never(event.outcome)

    def _stop_active(self, reason: str, now: float) -> None:
        active = self._active
        assert active is not None
        self._state.emit(AbortReply(active.id, active.epoch))
        self._state.epoch += 1
        self._end(ResponseStatus.CANCELLED, reason=reason)
        self._delivery.cut(active, now)

    def _end(
        self,
        status: ResponseStatus,
        *,
        reason: str | None = None,
        error: ErrorInfo | None = None,
        usage: TokenUsage | None = None,
    ) -> None:
        active, self._active = self._active, None
        assert active is not None
        active.finish(status, reason=reason, error=error, usage=usage)

    def _answer_queued(self, now: float) -> None:
        if self._queued is not None and self._active is None:
            clock, self._queued = self._queued, None
            self.answer_turn(clock, now)
