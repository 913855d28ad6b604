"""How responses come about: what they are made from, whether they may, when they start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from .context import build_context
from .effects import RateLimitsUpdated, ResponseStatus
from .errors import ErrorInfo, Refusal
from .events import ItemReference, ReplyEnded, ReplyEvent, ReplyFitted
from .items import Item, Role
from .rates import Rates
from .response import Response
from .settings import Modality, SessionKind, Truncation, TruncationMode
from .state import Deadline, DeadlineReason, SessionState
from .work_effects import AbortReply, StartReply

ENOUGH_MS = 1000
"""A listener with so much left to play wants for nothing: stages may be silent."""


class Launcher:
    """Starts the stages of responses, of the conversation and beside it."""

    def __init__(self, state: SessionState, waiting: Callable[[], bool]) -> None:
        self._state = state
        self._waiting = waiting
        """Whether something in the conversation has yet to be recognized."""

        self._rates = Rates(state.can)
        self._unheard: tuple[str | None, ErrorInfo] | None = None
        """The newest item that could not be recognized, and why."""

        self._fitted: Truncation | None = None
        """The rule by which the oldest messages are hidden, where some are."""

    # Whether a response may be.

    def check_allowed(self, now: float) -> None:
        """Make sure that a client may ask for a response.

        Raises:
            Refusal: the session only transcribes, or its limits are used up.
        """
        if self._state.settings.kind is SessionKind.TRANSCRIPTION:
            raise Refusal(
                "unsupported_in_transcription_session",
                "This session only transcribes: it gives no responses.",
            )
        if (error := self.over_limit(now)) is not None:
            raise Refusal(
                error.code, error.message, kind=error.type, retry_after_ms=error.retry_after_ms
            )

    def over_limit(self, now: float) -> ErrorInfo | None:
        """Return why no response may begin now, or ``None`` where one may."""
        wait_s = self._rates.wait_s(now)
        if wait_s <= 0:
            return None
        can = self._state.can
        return ErrorInfo(
            "rate_limit_exceeded",
            f"Rate limit reached: {can.responses_per_minute} responses and "
            f"{can.tokens_per_minute} tokens a minute. Try again in {wait_s:.1f} s.",
            type="rate_limit_error",
            retry_after_ms=int(wait_s * 1000) + 1,
        )

    # How it starts.

    def announce(self, response: Response, now: float) -> None:
        """Tell the client that a response exists, and what is left of the limits."""
        self._state.counters.responses += 1
        self._rates.begin(now)
        self._tell(response, now)

    def refuse(self, response: Response, error: ErrorInfo, now: float) -> None:
        """Tell of a response that may not be; it costs nothing."""
        self._tell(response, now)
        response.fail(error, now)

    def proceed(self, response: Response, now: float) -> None:
        """Start a response that was announced, or end it where nothing was said.

        One that is made from the conversation starts once all of that is recognized.
        """
        if response.plan.refers and self._waiting():
            return
        if not self._nothing_said(response):
            self.start(response, None, now)
            return
        unheard, error = self._unheard or (None, None)
        if error is not None and unheard == self._state.conversation.last_id:
            response.fail(error, now)
        else:
            response.finish(ResponseStatus.COMPLETED, now)

    def start(self, response: Response, draft_text: str | None, now: float) -> None:
        """Start the stages of a response; ``draft_text`` is not in the conversation yet."""
        plan = response.plan
        context = build_context(
            plan.instructions, self._items(response), draft=draft_text, nudge=plan.nudge
        )
        response.begin(context, now)
        self._state.emit(
            StartReply(
                response_id=response.id,
                epoch=response.epoch,
                messages=context.messages,
                speak=plan.modality is Modality.AUDIO,
                voice=plan.voice,
                speed=plan.speed,
                max_output_tokens=plan.max_output_tokens,
                temperature=plan.temperature,
                tools=plan.tools,
                tool_choice=plan.tool_choice,
                truncation=plan.truncation,
            )
        )

    # What happens meanwhile.

    def unheard(self, error: ErrorInfo) -> None:
        """Note that the newest item could not be recognized."""
        self._unheard = (self._state.conversation.last_id, error)

    def recognized(self, response: Response, error: ErrorInfo | None, now: float) -> None:
        """Go on with a response that waited for what was said."""
        if response.generating or response.done:
            return
        if error is not None and response.plan.input is None:
            response.fail(error, now)
            return
        if response.clock is not None and not self._waiting():
            response.clock = replace(response.clock, recognized_at=now)
        self.proceed(response, now)

    def take(self, response: Response, event: ReplyEvent, now: float) -> None:
        """Take in what a stage made of a response."""
        response.progress_at = now
        if isinstance(event, ReplyEnded):
            self._rates.spend(event.input_tokens + event.output_tokens, now)
        elif isinstance(event, ReplyFitted):
            self._fit(response, event.dropped)
        response.take(event, now)

    def due(self, response: Response) -> Deadline | None:
        """When to give up on a response: on its stages, or on its listener.

        Stages may be silent while the listener has enough: what they could make is not
        wanted. Where they have enough for ever, because they do not play, it ends as well.
        """
        if not response.works:
            return None
        can, since = self._state.can, response.progress_at
        ledger = response.spoken.ledger
        low_at = ledger.low_at(ENOUGH_MS)
        if low_at == math.inf:
            paused_at = ledger.moved_at(response.meter.made_at)
            return Deadline(paused_at + can.max_paused_s, DeadlineReason.PLAYBACK_STALLED)
        return Deadline(max(since, low_at) + can.stage_timeout_s, DeadlineReason.REPLY_STALLED)

    def give_up(self, response: Response, now: float) -> bool:
        """Fail a response that is stuck; return whether it is."""
        due = self.due(response)
        if due is None or now < due.at:
            return False
        self._state.emit(AbortReply(response.id, response.epoch))
        if due.reason is DeadlineReason.PLAYBACK_STALLED:
            paused_s = self._state.can.max_paused_s
            error = ErrorInfo(
                "playback_stalled",
                f"None of the response was played for {paused_s:g} s; ask for it again.",
            )
        else:
            error = ErrorInfo(
                "response_timeout", "The model did not answer in time.", type="server_error"
            )
        response.fail(error, now)
        return True

    # Inside.

    def _tell(self, response: Response, now: float) -> None:
        response.announce()
        self._state.emit(RateLimitsUpdated(self._rates.view(now)))

    def _items(self, response: Response) -> Iterator[Item]:
        conversation = self._state.conversation
        if response.plan.input is None:
            truncation = self._state.settings.truncation
            if self._fitted != truncation or truncation.mode is TruncationMode.DISABLED:
                conversation.hide_through(None)
            yield from conversation.shown()
            return
        for each in response.plan.input:
            item = conversation.get(each.item_id) if isinstance(each, ItemReference) else each
            if item is not None:
                yield item

    def _fit(self, response: Response, dropped: int) -> None:
        """Remember what the model had no room for: later contexts begin behind it."""
        left_out = response.left_out(dropped)
        if left_out and response.plan.usual:
            self._fitted = response.plan.truncation
            self._state.conversation.hide_through(left_out[-1])

    def _nothing_said(self, response: Response) -> bool:
        """Whether the newest item is audio in which no words were found."""
        if response.plan.insists:
            return False
        newest = self._state.conversation.last
        return (
            newest is not None
            and newest.role is Role.USER
            and newest.heard
            and not newest.text
            and not newest.images
        )
