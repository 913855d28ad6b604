"""The protocol of a film that goes out while it is made: pure, without any I/O.

A connection is one film of some chunks, each made when the one before it is. A new prompt counts
from the next chunk on that is begun after it came; of several, the newest. Events come in,
effects go out; whoever carries them out makes and sends.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, assert_never

from ...realtime.refusals import not_served
from ...sessions.errors import ErrorInfo, Refusal

CHANGES = 1000
"""Changes of the prompt that a connection may ask for, as each is remembered."""

DONE, REFUSED, FAILED = 1000, 1008, 1011
"""Close codes."""

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Started:
    """The client asked for a film that can be made."""

    prompt: str
    chunks: int
    prompt_chars: int
    """Most that a prompt may have."""

    said: Json
    """What ``video.start`` tells of it."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The client asked for another prompt."""

    prompt: str
    event_id: str | None = None
    transition_chunks: int = 0


@dataclass(frozen=True, slots=True)
class Stopped:
    """The client has seen enough."""


@dataclass(frozen=True, slots=True)
class Pinged:
    """The client asked whether anybody is there."""


@dataclass(frozen=True, slots=True)
class Misspoken:
    """The client said what can't be understood."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class ChunkMade:
    """What was to be made is."""

    frames: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ChunkFailed:
    """It can't be made."""

    code: str
    message: str


Event: TypeAlias = Started | Changed | Stopped | Pinged | Misspoken | ChunkMade | ChunkFailed


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message."""

    body: Json


@dataclass(frozen=True, slots=True)
class SendChunk:
    """Send a message, and behind it, with nothing between, the chunk that was made."""

    body: Json


@dataclass(frozen=True, slots=True)
class MakeChunk:
    """Begin a chunk."""

    index: int
    prompt: str


@dataclass(frozen=True, slots=True)
class StopMaking:
    """Make no more of what was begun."""


@dataclass(frozen=True, slots=True)
class Close:
    """The last effect: end the connection once all is sent."""

    code: int
    reason: str = ""


Effect: TypeAlias = Tell | SendChunk | MakeChunk | StopMaking | Close


class _Phase(Enum):
    NEW = "new"
    RUNNING = "running"
    OVER = "over"


class LiveFilm:
    """Decides what one connection does."""

    def __init__(
        self, request_id: str, new_id: Callable[[], str] = lambda: uuid.uuid4().hex
    ) -> None:
        """``new_id`` names changes whose client gave them no id."""
        self._request_id = request_id
        self._new_id = new_id
        self._phase = _Phase.NEW
        self._prompt = ""
        self._chunks = 0
        self._prompt_chars = 0
        self._begun = 0
        self._sent = 0
        self._changes: dict[str, Changed] = {}
        self._pending: tuple[str, str] | None = None
        """Id and prompt of the newest change that no chunk was begun with yet."""

        self._starting: list[str] = []
        """Changes that count from the chunk under way on."""

        self._effects: list[Effect] = []

    @property
    def over(self) -> bool:
        """Whether nothing more is decided: :class:`Close` was the last effect."""
        return self._phase is _Phase.OVER

    def handle(self, event: Event) -> list[Effect]:
        """What is to be done now, in this order. After the end nothing is."""
        if self.over:
            return []
        match event:
            case Started():
                self._start(event)
            case Changed():
                self._change(event)
            case Stopped():
                self._effects.append(StopMaking())
                self._finish(stopped=True)
            case Pinged():
                self._tell("session.pong")
            case Misspoken(error):
                self._complain(error)
            case ChunkMade():
                self._made(event)
            case ChunkFailed():
                self._failed(event)
            case _:
                assert_never(event)
        effects, self._effects = self._effects, []
        return effects

    def refuse(self, error: ErrorInfo) -> list[Effect]:
        """End a connection that asked for what can't be."""
        if self.over:
            return []
        self._complain(error)
        self._close(REFUSED, error.code or "refused")
        effects, self._effects = self._effects, []
        return effects

    def _start(self, event: Started) -> None:
        if self._phase is not _Phase.NEW:
            message = "A connection makes one film, and this one has begun; open another."
            self._complain(ErrorInfo("session_started", message))
            return
        self._phase = _Phase.RUNNING
        self._prompt, self._chunks = event.prompt, event.chunks
        self._prompt_chars = event.prompt_chars
        self._tell("video.start", **event.said)
        self._begin()

    def _change(self, event: Changed) -> None:
        try:
            event_id = self._check(event)
        except Refusal as refusal:
            self._complain(refusal.info(event.event_id))
            return
        if event_id not in self._changes:
            self._changes[event_id] = event
            self._pending = event_id, event.prompt
        self._tell("session.interaction.queued", event_id=event_id)

    def _check(self, event: Changed) -> str:
        """The id of a change that may be made, or was made already.

        Raises:
            Refusal: it may not.
        """
        if self._phase is _Phase.NEW:
            raise Refusal("session_not_started", "Send session.start first.")
        if event.event_id is not None and (earlier := self._changes.get(event.event_id)):
            if earlier != event:
                message = "This event_id came with another prompt before; use a new one."
                raise Refusal("event_id_conflict", message, "interaction.event_id")
            return event.event_id
        if not event.prompt.strip():
            message = "interaction.event.prompt must have some text."
            raise Refusal("invalid_value", message, "interaction.event.prompt")
        if len(event.prompt) > self._prompt_chars:
            message = f"interaction.event.prompt: at most {self._prompt_chars} characters."
            raise Refusal("invalid_value", message, "interaction.event.prompt")
        if event.transition_chunks:
            what = "only 0 is possible here: a change is whole from the next chunk on."
            raise not_served("interaction.transition_chunks", what)
        if self._begun >= self._chunks:
            message = "The last chunk is being made already, so that nothing can change any more."
            raise Refusal("interaction_failed", message)
        if len(self._changes) >= CHANGES:
            raise Refusal("interaction_failed", f"No more than {CHANGES} changes are possible.")
        return self._new_id() if event.event_id is None else event.event_id

    def _begin(self) -> None:
        if self._pending is not None:
            event_id, self._prompt = self._pending
            self._starting, self._pending = [event_id], None
        self._effects.append(MakeChunk(self._begun, self._prompt))
        self._begun += 1

    def _made(self, event: ChunkMade) -> None:
        body = self._body(
            "video.chunk_metadata",
            kind="media",
            transport_chunk_index=self._sent,
            generation_chunk_index=self._begun - 1,
            num_frames=event.frames,
            byte_length=event.bytes,
            started_event_ids=self._starting,
            # A change is whole at once, so none is ever under way.
            active_event_ids=[],
            completed_event_ids=self._starting,
        )
        self._effects.append(SendChunk(body))
        self._sent += 1
        self._starting = []
        if self._begun < self._chunks:
            self._begin()
        else:
            self._finish(stopped=False)

    def _failed(self, event: ChunkFailed) -> None:
        kind = "server_error"
        if self._starting:
            error = ErrorInfo("interaction_failed", event.message, None, self._starting[0], kind)
        else:
            error = ErrorInfo(event.code, event.message, type=kind)
        self._complain(error)
        self._close(FAILED, event.code)

    def _finish(self, *, stopped: bool) -> None:
        self._tell("session.done", chunks=self._sent, stopped=stopped)
        self._close(DONE)

    def _close(self, code: int, reason: str = "") -> None:
        self._phase = _Phase.OVER
        self._effects.append(Close(code, reason))

    def _complain(self, error: ErrorInfo) -> None:
        more = {"event_id": error.event_id, "param": error.param}
        told = {name: value for name, value in more.items() if value is not None}
        self._tell("error", code=error.code, message=error.message, **told)

    def _tell(self, name: str, /, **members: Any) -> None:
        self._effects.append(Tell(self._body(name, **members)))

    def _body(self, name: str, /, **members: Any) -> Json:
        return {"type": name, "request_id": self._request_id, **members}
