"""The conversation: items in order, and the audio and the images kept with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from .errors import Refusal
from .items import Item, ItemStatus, Role

BYTES_PER_MS = 48
"""s16le at 24 kHz, the only audio the core knows."""

MAX_IMAGE_BYTES = 32 * 1024 * 1024
"""Images kept in one conversation, as base64; beyond, those of the oldest items are let go."""


def _ignore(item_id: str) -> None:
    """Nobody wants to know what made room."""


class Conversation:
    """Items in order, each id once; the oldest audio and images are let go at the bound."""

    def __init__(
        self,
        max_items: int,
        max_retained_ms: int,
        evicted: Callable[[str], None] = _ignore,
    ) -> None:
        self.version = 0
        """Grows with every change that a model would notice."""

        self._max_items = max_items
        self._max_audio_bytes = max_retained_ms * BYTES_PER_MS
        self._items: list[Item] = []
        self._evicted = evicted
        """Told the id of each item that made room for a newer one."""

        self._audio: dict[str, bytearray] = {}
        self._audio_bytes = 0
        self._lengths: dict[str, int] = {}
        """Bytes of audio that each item came with, kept or not."""

        self._images: dict[str, int] = {}
        """Bytes of the images of each item that still has them, the oldest first."""

        self._shown_from: str | None = None
        """The last of the items that a model is not shown any more."""

    def __iter__(self) -> Iterator[Item]:
        """Iterate over the items in order."""
        return iter(self._items)

    def shown(self) -> Iterator[Item]:
        """Iterate over what a model is shown: all that :meth:`hide_through` left, in order.

        What the system says is always shown.
        """
        start = self._index(self._shown_from) + 1 if self._shown_from else 0
        yield from (item for item in self._items[:start] if item.role is Role.SYSTEM)
        yield from self._items[start:]

    def hide_through(self, item_id: str | None) -> None:
        """Show models only what is behind an item, so that later contexts begin alike.

        ``None`` shows all again, and so does an item that is put among the hidden ones.
        """
        self._shown_from = item_id if item_id and self._index(item_id) >= 0 else None

    def get(self, item_id: str) -> Item | None:
        """Return the item, or ``None`` when there is none of this id."""
        index = self._index(item_id)
        return self._items[index] if index >= 0 else None

    def previous_id(self, item_id: str) -> str | None:
        """Return the id of the item before ``item_id``; ``None`` for the first."""
        index = self._index(item_id)
        return self._items[index - 1].id if index > 0 else None

    def add(self, item: Item, after: str | None = None) -> None:
        """Insert ``item`` behind the item ``after``, at the start (``root``), or at the end.

        Raises:
            Refusal: the id is taken, ``after`` is unknown, or the conversation is full.
        """
        if len(self._items) >= self._max_items:
            raise Refusal(
                "conversation_full",
                f"The conversation holds at most {self._max_items} items; delete some first.",
            )
        if self.get(item.id) is not None:
            raise Refusal(
                "item_create_duplicate_item_id",
                f"Error adding item: an item with id '{item.id}' already exists.",
                "item.id",
            )
        place = self._place(after)
        if self._shown_from and place <= self._index(self._shown_from):
            self._shown_from = None
        self._items.insert(place, item)
        self._keep_images(item)
        self.version += 1

    def add_made(self, item: Item) -> None:
        """Append an item that the session itself made; the oldest makes room for it.

        A model has long forgotten it by then, and a person who talks can't delete items.
        What is still being written stays: its end has yet to be told.
        """
        while len(self._items) >= self._max_items:
            settled = (i for i in self._items if i.status is not ItemStatus.IN_PROGRESS)
            oldest = next(settled, self._items[0])
            self.remove(oldest.id)
            self._evicted(oldest.id)
        self.add(item)

    def replace(self, item: Item) -> None:
        """Put ``item`` in the place of the one with its id, if that is still there."""
        index = self._index(item.id)
        if index >= 0:
            self._items[index] = item
            self.version += 1

    def remove(self, item_id: str) -> None:
        """Drop the item and its audio; harmless when it is not there."""
        index = self._index(item_id)
        if index >= 0:
            if item_id == self._shown_from:
                self._shown_from = self.previous_id(item_id)
            del self._items[index]
            self._forget_audio(item_id)
            self._lengths.pop(item_id, None)
            self._images.pop(item_id, None)
            self.version += 1

    def keep_audio(self, item_id: str, pcm: bytes) -> None:
        """Add ``pcm`` to the audio of an item; the oldest items' audio makes room."""
        if self._index(item_id) < 0:
            return
        self._audio.setdefault(item_id, bytearray()).extend(pcm)
        self._audio_bytes += len(pcm)
        self._lengths[item_id] = self._lengths.get(item_id, 0) + len(pcm)
        while self._audio_bytes > self._max_audio_bytes and len(self._audio) > 1:
            self._forget_audio(next(iter(self._audio)))

    def audio(self, item_id: str) -> bytes:
        """Return the kept audio of an item, empty when there is none (any more)."""
        return bytes(self._audio.get(item_id, b""))

    def audio_bytes(self, item_id: str) -> int:
        """Return how much audio an item came with, whether or not it is still kept."""
        return self._lengths.get(item_id, 0)

    def cut_audio(self, item_id: str, keep_ms: int) -> None:
        """Forget an item's audio behind ``keep_ms``."""
        pcm = self._audio.get(item_id)
        if pcm is not None:
            before = len(pcm)
            del pcm[keep_ms * BYTES_PER_MS :]
            self._audio_bytes -= before - len(pcm)

    @property
    def last(self) -> Item | None:
        """The newest item."""
        return self._items[-1] if self._items else None

    @property
    def last_id(self) -> str | None:
        """Id of the newest item."""
        return self._items[-1].id if self._items else None

    def _keep_images(self, item: Item) -> None:
        size = sum(len(image) for image in item.images)
        if not size:
            return
        self._images[item.id] = size
        while sum(self._images.values()) > MAX_IMAGE_BYTES and len(self._images) > 1:
            oldest = next(iter(self._images))
            del self._images[oldest]
            index = self._index(oldest)
            parts = tuple(replace(part, image_url=None) for part in self._items[index].parts)
            self._items[index] = replace(self._items[index], parts=parts)

    def _forget_audio(self, item_id: str) -> None:
        self._audio_bytes -= len(self._audio.pop(item_id, b""))

    def _index(self, item_id: str) -> int:
        # From the end: nearly every look-up is for a recent item.
        for index in range(len(self._items) - 1, -1, -1):
            if self._items[index].id == item_id:
                return index
        return -1

    def _place(self, after: str | None) -> int:
        if after is None:
            return len(self._items)
        if after == "root":
            return 0
        index = self._index(after)
        if index < 0:
            raise Refusal(
                "item_create_invalid_previous_item_id",
                f"Error adding item: the previous item with id '{after}' does not exist.",
                "previous_item_id",
            )
        return index + 1
