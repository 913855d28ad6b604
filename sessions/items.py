"""Conversation items: immutable, so that what was sent to a client can't change later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Role(Enum):
    """Who an item speaks for."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class ItemStatus(Enum):
    """How far an item has come."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"


class PartKind(Enum):
    """What a content part holds."""

    INPUT_TEXT = "input_text"
    INPUT_AUDIO = "input_audio"
    OUTPUT_TEXT = "output_text"
    OUTPUT_AUDIO = "output_audio"


@dataclass(frozen=True, slots=True)
class Part:
    """One content part; its audio, if any, is kept by the conversation."""

    kind: PartKind
    text: str | None = None
    """The text, or for audio its transcript; ``None`` while that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A message of the conversation."""

    id: str
    role: Role
    status: ItemStatus = ItemStatus.COMPLETED
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """Everything in it that a model can read."""
        return " ".join(part.text for part in self.parts if part.text).strip()

    @property
    def spoken(self) -> bool:
        """Whether it is speech of ours."""
        return any(part.kind is PartKind.OUTPUT_AUDIO for part in self.parts)

    def with_text(self, text: str) -> Item:
        """Return a copy whose first part says ``text``."""
        return replace(self, parts=(replace(self.parts[0], text=text), *self.parts[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An item as a client sends it."""

    role: Role
    parts: tuple[Part, ...]
    id: str | None = None
    audio: bytes = b""
    """s16le at 24 kHz of its audio parts, joined."""
