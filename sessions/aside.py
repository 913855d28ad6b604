"""Responses out of band: beside the conversation, and several at once.

Nothing of them joins the conversation, and speech does not interrupt them. What of them
was heard paces their stages and is measured; nothing is cut to it.
"""

from __future__ import annotations

from .delivery import Delivery
from .errors import ErrorInfo, Refusal
from .events import ReplyAudio, ReplyEvent
from .launch import Launcher
from .plan import Plan
from .response import Response
from .state import Deadline, SessionState, soonest

MAX_ASIDES = 8
"""Responses out of band of one session at once."""


class Asides:
    """Owns the responses out of band."""

    def __init__(self, state: SessionState, launcher: Launcher, delivery: Delivery) -> None:
        self._state = state
        self._launcher = launcher
        self._delivery = delivery
        self._running: dict[str, Response] = {}

    def check_room(self) -> None:
        """Make sure that another may begin.

        Raises:
            Refusal: too many run.
        """
        if len(self._running) >= MAX_ASIDES:
            raise Refusal(
                "too_many_responses",
                f"{MAX_ASIDES} responses out of band are in progress; wait until one is finished.",
            )

    def create(self, plan: Plan, now: float) -> None:
        """Begin a response."""
        response = Response(self._state, plan, now)
        self._running[response.id] = response
        self._launcher.announce(response, now)
        self._delivery.follow(response, now)
        self._launcher.proceed(response, now)
        self._settle()

    def cancel(self, response_id: str | None, now: float) -> bool:
        """Stop a response; return whether it was one of these."""
        response = self._running.get(response_id or "")
        if response is None:
            return False
        self._abort(response, now)
        self._settle()
        return True

    def recognized(self, error: ErrorInfo | None, now: float) -> None:
        """Go on with those that waited for what was said."""
        for response in list(self._running.values()):
            self._launcher.recognized(response, error, now)
        self._settle()

    def take(self, event: ReplyEvent, now: float) -> bool:
        """Take in what a stage made; return whether it was of one of these."""
        response = self._running.get(event.response_id)
        if response is None or response.epoch != event.epoch:
            return False
        if isinstance(event, ReplyAudio):
            self._delivery.made(response, event, now)
        self._launcher.take(response, event, now)
        self._settle()
        return True

    def __bool__(self) -> bool:
        """Whether any is running."""
        return bool(self._running)

    @property
    def deadline(self) -> Deadline | None:
        """When the first of them counts as stuck."""
        return soonest(*[self._launcher.due(each) for each in self._running.values()])

    def handle_deadline(self, now: float) -> None:
        """Give up on those that are stuck."""
        for response in list(self._running.values()):
            if self._launcher.give_up(response, now):
                self._delivery.cut(response, now)
        self._settle()

    def close(self, now: float) -> None:
        """Stop all."""
        for response in list(self._running.values()):
            self._abort(response, now)
        self._settle()

    def _abort(self, response: Response, now: float) -> None:
        response.abort("client_cancelled", now)
        self._delivery.cut(response, now)

    def _settle(self) -> None:
        for response in [each for each in self._running.values() if each.done]:
            del self._running[response.id]
