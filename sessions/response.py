"""One response, from its creation to its one terminal event."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from .context import Context
from .conversation import BYTES_PER_MS
from .effects import (
    ResponseCreated,
    ResponseDone,
    ResponseStatus,
    ResponseView,
    TokenUsage,
)
from .errors import ErrorInfo
from .events import (
    ReplyAudio,
    ReplyCall,
    ReplyEnded,
    ReplyEvent,
    ReplyFitted,
    ReplyOutcome,
    ReplyText,
    ReplyTimed,
    ReplyWords,
)
from .measure import Meter, TurnClock
from .output import Call, Message, Place
from .pacing import Pace
from .plan import Plan
from .playback import Spoken
from .settings import Modality
from .state import SessionState
from .work_effects import AbortReply

MAX_CALLS = 128
"""Functions that one response may want to be called; what is beyond is not told of."""

HEARD_TOKEN_MS = 100
"""Audio of the person that counts as one token."""

SPOKEN_TOKEN_MS = 50
"""Audio made that counts as one token."""

CLIENT_FAULTS = frozenset({"context_length_exceeded"})
"""Failures of a stage that come of what the client asked for."""


class Response:
    """A response from its creation to its one terminal event."""

    def __init__(self, state: SessionState, plan: Plan, now: float) -> None:
        self.id = state.ids.next("resp")
        self.epoch = state.epoch
        self.plan = plan
        self.spoken = Spoken()
        self.pace = Pace(self.spoken.ledger)
        self.meter = Meter()
        self.created_at = now
        self.progress_at = now
        """When a stage last said something about it."""

        self.generating = False
        """Whether its stages have been started."""

        self.announced = False
        """Whether the client was told of it."""

        self.clock: TurnClock | None = None
        """Instants of the turn it answers, if it answers one."""

        self.timed: ReplyTimed | None = None
        """When it passed the stages."""

        self.done = False
        """Whether its terminal event was told."""

        self.ended_at = now
        """When it was; meaningless before."""

        self._state = state
        self._message: Message | None = None
        self._calls: dict[int, Call] = {}
        self._whole: Call | None = None
        """A call that is all there, but not yet told to be done."""

        self._items: list[Message | Call] = []
        """What it writes, in order of appearance."""

        self._context = Context((), ())
        self._heard_tokens: dict[str, int] = {}
        """Of the items of its context that are the person's audio."""

        self._spoken_bytes = 0

    @property
    def message_id(self) -> str | None:
        """Id of the message it writes, once there is one."""
        return self._message.item.id if self._message else None

    @property
    def audible(self) -> bool:
        """Whether it is spoken, not written."""
        return self.plan.modality is Modality.AUDIO

    @property
    def works(self) -> bool:
        """Whether its stages may still be at work."""
        return self.generating and not self.done

    @property
    def asked_at(self) -> float:
        """When the person had said what it answers, or else when it was created."""
        return self.created_at if self.clock is None else self.clock.speech_end_at

    def writes(self, item_id: str) -> bool:
        """Whether an item is being written by it."""
        return any(each.item.id == item_id and not each.done for each in self._items)

    def announce(self) -> None:
        """Tell the client that the response exists."""
        self.announced = True
        self._state.emit(ResponseCreated(self._view(ResponseStatus.IN_PROGRESS)))

    def begin(self, context: Context, now: float) -> None:
        """Note that its stages are started, and what they are shown."""
        self.generating = True
        self.progress_at = now
        self._context = context
        for message, item_ids in zip(context.messages, context.sources, strict=True):
            if message.role == "user":
                for item_id in item_ids:
                    self.hear(item_id)

    def hear(self, item_id: str) -> None:
        """Note that the audio of an item of the person is part of what it answers."""
        size = self._state.conversation.audio_bytes(item_id)
        self._heard_tokens[item_id] = -(-size // (HEARD_TOKEN_MS * BYTES_PER_MS))

    def left_out(self, dropped: int) -> tuple[str, ...]:
        """Note how many messages the model had no room for; return the items in them."""
        gone = self._context.left_out(dropped)
        for item_id in gone:
            self._heard_tokens.pop(item_id, None)
        return gone

    def take(self, event: ReplyEvent, now: float) -> None:
        """Take in what a stage made."""
        match event:
            case ReplyText(text=text):
                self._close_whole()
                self._say().add_text(text)
            case ReplyWords() | ReplyAudio() if not self.audible:
                # A client that asked for text gets no sound, whatever a stage makes.
                pass
            case ReplyWords(words=words):
                self._say().add_words(words)
            case ReplyAudio(pcm=pcm):
                self._spoken_bytes += len(pcm)
                self._say().add_audio(pcm)
            case ReplyCall():
                self._call(event)
            case ReplyTimed():
                self.timed = event
            case ReplyEnded():
                self._end(event, now)
            case ReplyFitted():
                # What it means for later contexts is not this response's matter.
                pass
            case _:
                assert_never(event)

    def abort(self, reason: str, now: float) -> None:
        """Stop its stages and tell that it was cancelled."""
        self._state.emit(AbortReply(self.id, self.epoch))
        self.finish(ResponseStatus.CANCELLED, now, reason=reason)

    def fail(self, error: ErrorInfo, now: float) -> None:
        """Tell that it failed."""
        self.finish(ResponseStatus.FAILED, now, error=error)

    def finish(
        self,
        status: ResponseStatus,
        now: float,
        *,
        reason: str | None = None,
        error: ErrorInfo | None = None,
        ended: ReplyEnded | None = None,
    ) -> None:
        """Tell the rest: everything open is done, then the response itself."""
        self.done = True
        self.ended_at = now
        self._context = Context((), ())
        for each in self._items:
            if not each.done:
                said = status is ResponseStatus.COMPLETED and each is self._message
                each.close(said or each is self._whole)
        done = replace(
            self._view(status),
            reason=reason,
            error=error,
            output=tuple(each.item for each in self._items),
            usage=self._usage(ended),
        )
        self._state.emit(ResponseDone(done))

    # Inside.

    def _view(self, status: ResponseStatus) -> ResponseView:
        plan = self.plan
        return ResponseView(
            id=self.id,
            status=status,
            modality=plan.modality,
            voice=plan.voice,
            output_format=plan.output_format,
            out_of_band=plan.out_of_band,
            temperature=plan.temperature,
            max_output_tokens=plan.max_output_tokens,
            metadata=plan.metadata,
        )

    def _usage(self, ended: ReplyEnded | None) -> TokenUsage:
        return TokenUsage(
            input_tokens=ended.input_tokens if ended else 0,
            cached_tokens=ended.cached_tokens if ended else 0,
            output_tokens=ended.output_tokens if ended else 0,
            input_audio_tokens=sum(self._heard_tokens.values()),
            output_audio_tokens=-(-self._spoken_bytes // (SPOKEN_TOKEN_MS * BYTES_PER_MS)),
        )

    def _place(self) -> Place:
        return Place(self.id, self.epoch, len(self._items), not self.plan.out_of_band)

    def _say(self) -> Message:
        if self._message is None:
            self._message = Message(self._state, self._place(), self.plan.modality, self.spoken)
            self._items.append(self._message)
        return self._message

    def _close_whole(self) -> None:
        if self._whole is not None:
            self._whole.close(complete=True)
            self._whole = None

    def _call(self, event: ReplyCall) -> None:
        call = self._calls.get(event.index)
        if call is not None and call is self._whole:
            return
        self._close_whole()
        if call is None:
            if len(self._calls) >= MAX_CALLS:
                return
            call = Call(self._state, self._place(), event.name)
            self._calls[event.index] = call
            self._items.append(call)
        if call.done:
            return
        call.add(event.arguments)
        if event.done:
            # Told only when more follows or the response ends: clients answer a call as
            # soon as it is done, and could not while its response still runs.
            self._whole = call

    def _end(self, event: ReplyEnded, now: float) -> None:
        match event.outcome:
            case ReplyOutcome.COMPLETED:
                self.finish(ResponseStatus.COMPLETED, now, ended=event)
            case ReplyOutcome.LENGTH:
                reason = "max_output_tokens"
                self.finish(ResponseStatus.INCOMPLETE, now, reason=reason, ended=event)
            case ReplyOutcome.FAILED:
                code = event.error_code or "internal_error"
                error = ErrorInfo(
                    code,
                    event.error_message or "The response failed.",
                    type="invalid_request_error" if code in CLIENT_FAULTS else "server_error",
                    retry_after_ms=event.retry_after_ms,
                )
                self.finish(ResponseStatus.FAILED, now, error=error, ended=event)
            case _:
                assert_never(event.outcome)
