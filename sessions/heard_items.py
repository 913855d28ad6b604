"""Items made of what the person said, and what the client is told of their words."""

from __future__ import annotations

from .effects import (
    BufferCommitted,
    ItemAdded,
    ItemDone,
    TranscriptionDelta,
    TranscriptionDone,
    TranscriptionFailed,
)
from .errors import ErrorInfo
from .events import TokenLogprob
from .items import Item, Part, PartKind, Role
from .recognition import Pending
from .state import SessionState


class HeardItems:
    """Adds them to the conversation, and later their words."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    def commit(self, item_id: str, pcm: bytes, transcript: str | None = None) -> None:
        """Make an item of audio; its transcript may be known already."""
        conversation = self._state.conversation
        part = Part(PartKind.INPUT_AUDIO, transcript)
        item = Item(id=item_id, role=Role.USER, parts=(part,))
        conversation.add_made(item)
        conversation.keep_audio(item_id, pcm)
        previous = conversation.previous_id(item_id)
        self._state.emit(
            BufferCommitted(item_id, previous), ItemAdded(item, previous), ItemDone(item, previous)
        )

    def understood(self, pending: Pending, text: str, logprobs: tuple[TokenLogprob, ...]) -> None:
        """Add what an item says; one that is gone by now is not spoken of."""
        item = self._state.conversation.get(pending.item_id)
        if item is None:
            return
        self._state.conversation.replace(item.with_text(text))
        self.tell(pending, text, logprobs)

    def tell(self, pending: Pending, text: str, logprobs: tuple[TokenLogprob, ...]) -> None:
        """Tell the client what an item says, if it wants to know: what is new, then all."""
        settings = self._state.settings
        if settings.transcription is None:
            return
        wanted = logprobs if settings.logprobs else None
        told = pending.told
        rest = text if told is None else told.finish(text)
        if rest:
            of_rest = wanted if told is None else None
            self._state.emit(TranscriptionDelta(pending.item_id, rest, of_rest))
        self._state.emit(TranscriptionDone(pending.item_id, text, pending.audio_ms, wanted))

    def not_understood(self, pending: Pending, error: ErrorInfo) -> None:
        """Tell the client that it is not known what an item says, if it wants to know."""
        known = self._state.conversation.get(pending.item_id) is not None
        if known and self._state.settings.transcription is not None:
            self._state.emit(TranscriptionFailed(pending.item_id, error))
