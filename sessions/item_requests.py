"""What clients ask of items: to add, to show and to remove them."""

from __future__ import annotations

from typing import assert_never

from .answers import Answers
from .delivery import Delivery
from .effects import ItemAdded, ItemDeleted, ItemDone, ItemRetrieved
from .errors import Refusal
from .events import CreateItem, DeleteItem, RetrieveItem, TruncateItem
from .hearing import Hearing
from .items import Item, Role
from .items_in import check_item, make_item
from .settings import SessionKind
from .state import SessionState


class ItemRequests:
    """Carries them out, and tells whoever works on the items."""

    def __init__(
        self, state: SessionState, hearing: Hearing, answers: Answers, delivery: Delivery
    ) -> None:
        self._state = state
        self._hearing = hearing
        self._answers = answers
        self._delivery = delivery

    def handle(
        self, event: CreateItem | RetrieveItem | TruncateItem | DeleteItem, now: float
    ) -> None:
        """Do what a client asks.

        Raises:
            Refusal: it can't be done.
        """
        match event:
            case CreateItem():
                self._create(event, now)
            case RetrieveItem(item_id=item_id):
                item = self._item(item_id, "retrieve", "retrieving")
                audio = self._state.conversation.audio(item_id)
                self._state.emit(ItemRetrieved(item, audio))
            case TruncateItem():
                self._truncate(event)
            case DeleteItem(item_id=item_id):
                self._item(item_id, "delete", "deleting")
                self._answers.check_deletable(item_id)
                self._delivery.forget(item_id)
                self._state.conversation.remove(item_id)
                self._state.emit(ItemDeleted(item_id))
                self._hearing.forget(item_id, now)
            case _:
                assert_never(event)

    def _create(self, event: CreateItem, now: float) -> None:
        new = event.item
        check_item(new, self._state.can)
        self._hearing.check_free(new.id)
        if new.audio:
            self._hearing.check_room()
        item = make_item(new, self._state)
        conversation = self._state.conversation
        conversation.add(item, event.previous_item_id)
        if new.audio:
            conversation.keep_audio(item.id, new.audio)
        previous = conversation.previous_id(item.id)
        self._state.emit(ItemAdded(item, previous), ItemDone(item, previous))
        if new.audio and new.role is Role.USER and item.unheard:
            self._hearing.understand(item.id, new.audio, now)

    def _truncate(self, event: TruncateItem) -> None:
        if self._state.settings.kind is SessionKind.TRANSCRIPTION:
            raise Refusal(
                "unsupported_in_transcription_session",
                "This session only transcribes: nothing in it is spoken that could be truncated.",
            )
        self._delivery.truncate(event)

    def _item(self, item_id: str, verb: str, doing: str) -> Item:
        item = self._state.conversation.get(item_id)
        if item is None:
            raise Refusal(
                f"item_{verb}_invalid_item_id",
                f"Error {doing} item: the item with id '{item_id}' does not exist.",
                "item_id",
            )
        return item
