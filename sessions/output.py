"""The items that a response writes, and the events that tell the client of them.

The order of events is the protocol's: an item is added before its part, a part before
its deltas, and everything added is done exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .conversation import BYTES_PER_MS
from .effects import (
    AudioDelta,
    AudioDone,
    CallDelta,
    CallDone,
    ContentPartAdded,
    ContentPartDone,
    ItemAdded,
    ItemDone,
    OutputItemAdded,
    OutputItemDone,
    PartAt,
    TextDelta,
    TextDone,
    TranscriptDelta,
    TranscriptDone,
    WordSpoken,
)
from .events import WordTime
from .items import Item, ItemKind, ItemStatus, Part, PartKind, Role
from .playback import Spoken
from .settings import Modality
from .state import SessionState


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item of a response belongs."""

    response_id: str
    epoch: int
    index: int
    """Among the items of the response."""

    joins: bool
    """Whether it becomes part of the conversation."""


class Message:
    """What a response says, spoken or written."""

    def __init__(
        self, state: SessionState, place: Place, modality: Modality, spoken: Spoken
    ) -> None:
        self._state = state
        self._place = place
        self._modality = modality
        self._spoken = spoken
        audible = modality is Modality.AUDIO
        shown = Item(
            id=state.ids.next("item"),
            role=Role.ASSISTANT,
            status=ItemStatus.IN_PROGRESS,
            response_id=place.response_id,
        )
        kind = PartKind.OUTPUT_AUDIO if audible else PartKind.OUTPUT_TEXT
        self.item = replace(shown, parts=(Part(kind, ""),))
        self._at = PartAt(place.response_id, shown.id, place.index)
        # The part is announced by its own event: the item is shown without it.
        _open(state, place, shown, self.item)
        state.emit(ContentPartAdded(self._at, modality))

    @property
    def done(self) -> bool:
        """Whether nothing more comes of it."""
        return self.item.status is not ItemStatus.IN_PROGRESS

    def add_text(self, text: str) -> None:
        """Pass on text, written or about to be spoken."""
        self._spoken.text += text
        delta = TranscriptDelta if self._modality is Modality.AUDIO else TextDelta
        self._state.emit(delta(self._at, text))

    def add_words(self, words: tuple[WordTime, ...]) -> None:
        """Take in word times; told to a client that asked for extensions."""
        self._spoken.words.extend(words)
        if self._state.settings.extensions:
            for word in words:
                self._state.emit(
                    WordSpoken(self._at, word.text, round(word.start_ms), round(word.end_ms))
                )

    def add_audio(self, pcm: bytes) -> None:
        """Pass on sound."""
        self._spoken.ledger.generate(len(pcm) / BYTES_PER_MS)
        if self._place.joins and self._spoken.told_ms is None:
            self._state.conversation.keep_audio(self.item.id, pcm)
        self._state.emit(AudioDelta(self._at, self._place.epoch, pcm))

    def close(self, complete: bool) -> None:
        """Tell the rest: no more sound, no more text, and what it was in all."""
        status = ItemStatus.COMPLETED if complete else ItemStatus.INCOMPLETE
        text = self._spoken.text
        self.item = replace(self.item.with_text(text), status=status)
        if self._modality is Modality.AUDIO:
            self._state.emit(AudioDone(self._at), TranscriptDone(self._at, text))
        else:
            self._state.emit(TextDone(self._at, text))
        self._state.emit(ContentPartDone(self._at, self._modality, text))
        _close(self._state, self._place, self.item, self.item.with_text(self._spoken.heard))


class Call:
    """A function that a response wants to be called."""

    def __init__(self, state: SessionState, place: Place, name: str) -> None:
        self._state = state
        self._place = place
        self._name = name
        self._arguments: list[str] = []
        self._call_id = state.ids.next("call")
        self.item = Item(
            id=state.ids.next("item"),
            kind=ItemKind.FUNCTION_CALL,
            status=ItemStatus.IN_PROGRESS,
            call_id=self._call_id,
            name=name,
            response_id=place.response_id,
        )
        self._at = PartAt(place.response_id, self.item.id, place.index)
        _open(state, place, self.item, self.item)

    @property
    def done(self) -> bool:
        """Whether nothing more comes of it."""
        return self.item.status is not ItemStatus.IN_PROGRESS

    def add(self, arguments: str) -> None:
        """Pass on more of the arguments."""
        if arguments:
            self._arguments.append(arguments)
            self._state.emit(CallDelta(self._at, self._call_id, arguments))

    def close(self, complete: bool) -> None:
        """Tell the rest.

        The arguments of a call that was cut short are never told to be done: clients call
        the function when they are.
        """
        status = ItemStatus.COMPLETED if complete else ItemStatus.INCOMPLETE
        arguments = "".join(self._arguments)
        self.item = replace(self.item, status=status, arguments=arguments)
        if complete:
            self._state.emit(CallDone(self._at, self._call_id, self._name, arguments))
        _close(self._state, self._place, self.item, self.item)


def _open(state: SessionState, place: Place, shown: Item, kept: Item) -> None:
    if place.joins:
        state.conversation.add_made(kept)
    state.emit(OutputItemAdded(place.response_id, place.index, shown))
    if place.joins:
        state.emit(ItemAdded(shown, state.conversation.previous_id(shown.id)))


def _close(state: SessionState, place: Place, shown: Item, kept: Item) -> None:
    if place.joins:
        state.conversation.replace(kept)
        state.emit(ItemDone(shown, state.conversation.previous_id(shown.id)))
    state.emit(OutputItemDone(place.response_id, place.index, shown))
