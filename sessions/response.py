"""One response: what a stage makes of it, and the events that tell the client.

The order of events is the protocol's: an item is added before its part, a part before
its deltas; everything added is done exactly once, and the response itself last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .conversation import BYTES_PER_MS
from .effects import (
    AudioDelta,
    AudioDone,
    ContentPartAdded,
    ContentPartDone,
    ItemAdded,
    ItemDone,
    OutputItemAdded,
    OutputItemDone,
    PartAt,
    ResponseCreated,
    ResponseDone,
    ResponseStatus,
    ResponseView,
    TextDelta,
    TextDone,
    TokenUsage,
    TranscriptDelta,
    TranscriptDone,
    WordSpoken,
)
from .errors import ErrorInfo
from .events import ReplyTimed, WordTime
from .items import Item, ItemStatus, Part, PartKind, Role
from .measure import TurnClock
from .playback import PlaybackLedger, heard_text
from .settings import AudioFormat, Modality
from .state import SessionState


class Spoken:
    """What a spoken item says, when each word sounds, and how much was heard."""

    def __init__(self) -> None:
        self.text = ""
        self.words: list[WordTime] = []
        self.ledger = PlaybackLedger()
        self.cut_ms: float | None = None
        """Where it was cut; only what was heard by then counts for the model."""

        self.told_ms: float | None = None
        """Where the client said that it cut: what is behind it never comes back."""

    @property
    def length_ms(self) -> float:
        """How much of it the client may have heard at most."""
        return self.ledger.sent_ms if self.told_ms is None else self.told_ms

    @property
    def heard(self) -> str:
        """What the model is shown: all of it, or the words that were over at the cut."""
        if self.cut_ms is None:
            return self.text
        return heard_text(self.text, self.words, self.cut_ms, self.ledger.generated_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a response shall be: settings and options of its moment."""

    modality: Modality
    voice: str
    output_format: AudioFormat
    speed: float
    instructions: str
    max_output_tokens: int | None
    metadata: tuple[tuple[str, str], ...] | None = None
    own_instructions: bool = False
    """Whether the instructions came with the request for this response."""


class Response:
    """A response from its creation to its one terminal event."""

    def __init__(self, state: SessionState, plan: Plan, now: float) -> None:
        self.id = state.ids.next("resp")
        self.epoch = state.epoch
        self.plan = plan
        self.spoken = Spoken()
        self.progress_at = now
        """When a stage last said something about it."""

        self.generating = False
        """Whether its stages have been started."""

        self.clock: TurnClock | None = None
        """Instants of the turn it answers, if it answers one."""

        self.timed: ReplyTimed | None = None
        """When it passed the stages."""

        self.done = False
        """Whether its terminal event was told."""

        self._state = state
        self._item: Item | None = None

    @property
    def item_id(self) -> str | None:
        """Id of the item it writes, once there is one."""
        return self._item.id if self._item else None

    @property
    def audible(self) -> bool:
        """Whether it is spoken, not written."""
        return self.plan.modality is Modality.AUDIO

    def announce(self) -> None:
        """Tell the client that the response exists."""
        self._state.emit(ResponseCreated(self._view(ResponseStatus.IN_PROGRESS)))

    def add_text(self, text: str) -> None:
        """Pass on text, written or about to be spoken."""
        at = self._part()
        self.spoken.text += text
        self._state.emit(TranscriptDelta(at, text) if self.audible else TextDelta(at, text))

    def add_words(self, words: tuple[WordTime, ...]) -> None:
        """Take in word times; told to a client that asked for extensions."""
        at = self._part()
        self.spoken.words.extend(words)
        if self._state.settings.extensions:
            for word in words:
                self._state.emit(
                    WordSpoken(at, word.text, round(word.start_ms), round(word.end_ms))
                )

    def add_audio(self, pcm: bytes) -> None:
        """Pass on sound."""
        at = self._part()
        self.spoken.ledger.generate(len(pcm) / BYTES_PER_MS)
        if self.spoken.told_ms is None:
            self._state.conversation.keep_audio(at.item_id, pcm)
        self._state.emit(AudioDelta(at, self.epoch, pcm))

    def finish(
        self,
        status: ResponseStatus,
        *,
        reason: str | None = None,
        error: ErrorInfo | None = None,
        usage: TokenUsage | None = None,
    ) -> None:
        """Tell the rest: everything open is done, then the response itself."""
        self.done = True
        output = () if self._item is None else (self._close(status),)
        view = self._view(status)
        self._state.emit(
            ResponseDone(
                replace(
                    view, reason=reason, error=error, output=output, usage=usage or TokenUsage()
                )
            )
        )

    def _view(self, status: ResponseStatus) -> ResponseView:
        return ResponseView(
            id=self.id,
            status=status,
            modality=self.plan.modality,
            voice=self.plan.voice,
            output_format=self.plan.output_format,
            max_output_tokens=self.plan.max_output_tokens,
            metadata=self.plan.metadata,
        )

    def _part(self) -> PartAt:
        """Return where output goes, having added the item and its part when needed."""
        if self._item is None:
            self._open()
        assert self._item is not None
        return PartAt(self.id, self._item.id)

    def _open(self) -> None:
        conversation = self._state.conversation
        kind = PartKind.OUTPUT_AUDIO if self.audible else PartKind.OUTPUT_TEXT
        item = Item(
            id=self._state.ids.next("item"),
            role=Role.ASSISTANT,
            status=ItemStatus.IN_PROGRESS,
        )
        previous = conversation.last_id
        self._item = replace(item, parts=(Part(kind, ""),))
        conversation.add_made(self._item)
        # The part is announced by its own event: the item is shown without it.
        self._state.emit(
            OutputItemAdded(self.id, 0, item),
            ItemAdded(item, previous),
            ContentPartAdded(PartAt(self.id, item.id), self.plan.modality),
        )

    def _close(self, outcome: ResponseStatus) -> Item:
        completed = outcome is ResponseStatus.COMPLETED
        status = ItemStatus.COMPLETED if completed else ItemStatus.INCOMPLETE
        assert self._item is not None
        at = PartAt(self.id, self._item.id)
        text = self.spoken.text
        item = replace(self._item.with_text(text), status=status)
        conversation = self._state.conversation
        previous = conversation.previous_id(item.id)
        conversation.replace(item.with_text(self.spoken.heard))
        if self.audible:
            self._state.emit(AudioDone(at), TranscriptDone(at, text))
        else:
            self._state.emit(TextDone(at, text))
        self._state.emit(
            ContentPartDone(at, self.plan.modality, text),
            ItemDone(item, previous),
            OutputItemDone(self.id, 0, item),
        )
        return item
