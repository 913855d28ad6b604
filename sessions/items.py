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


class ItemKind(Enum):
    """What an item is."""

    MESSAGE = "message"
    FUNCTION_CALL = "function_call"
    """The model wants a function to be called."""

    FUNCTION_OUTPUT = "function_call_output"
    """What a function gave."""


class PartKind(Enum):
    """What a content part holds."""

    INPUT_TEXT = "input_text"
    INPUT_AUDIO = "input_audio"
    INPUT_IMAGE = "input_image"
    OUTPUT_TEXT = "output_text"
    OUTPUT_AUDIO = "output_audio"


AUDIO_KINDS = frozenset({PartKind.INPUT_AUDIO, PartKind.OUTPUT_AUDIO})


@dataclass(frozen=True, slots=True)
class Part:
    """One content part; its audio, if any, is kept by the conversation."""

    kind: PartKind
    text: str | None = None
    """The text, or for audio its transcript; ``None`` while that is not known."""

    image_url: str | None = None
    """Of an image: a ``data:`` URL of PNG or JPEG; ``None`` once it was let go."""

    detail: str | None = None
    """Of an image: ``auto``, ``low`` or ``high``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A message of the conversation, a call of a function, or what one gave."""

    id: str
    kind: ItemKind = ItemKind.MESSAGE
    role: Role = Role.ASSISTANT
    """Of a message. A call counts as the assistant's; its output is nobody's."""

    status: ItemStatus = ItemStatus.COMPLETED
    parts: tuple[Part, ...] = ()
    """Of a message."""

    call_id: str | None = None
    """Of a call and of its output: what joins them."""

    name: str | None = None
    """Of a call: the function."""

    arguments: str = ""
    """Of a call: JSON text as the model wrote it."""

    output: str = ""
    """Of an output: what the function gave, as the client wrote it."""

    response_id: str | None = None
    """The response that made it; ``None`` for what the person or the client made."""

    @property
    def text(self) -> str:
        """Everything in it that a model can read."""
        return " ".join(part.text for part in self.parts if part.text).strip()

    @property
    def images(self) -> tuple[str, ...]:
        """Everything in it that a model can look at, as ``data:`` URLs."""
        return tuple(part.image_url for part in self.parts if part.image_url)

    @property
    def heard(self) -> bool:
        """Whether audio of the person is in it."""
        return any(part.kind is PartKind.INPUT_AUDIO for part in self.parts)

    @property
    def unheard(self) -> bool:
        """Whether the person's audio is in it of which it is not known what it says."""
        return any(part.kind is PartKind.INPUT_AUDIO and not part.text for part in self.parts)

    @property
    def spoken(self) -> bool:
        """Whether it is speech of ours."""
        return any(part.kind is PartKind.OUTPUT_AUDIO for part in self.parts)

    def with_text(self, text: str) -> Item:
        """Return a copy whose audio, or else whose first part, says ``text``."""
        parts = list(self.parts)
        audio = (i for i, part in enumerate(parts) if part.kind in AUDIO_KINDS)
        index = next(audio, 0)
        parts[index] = replace(parts[index], text=text)
        return replace(self, parts=tuple(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An item as a client sends it."""

    kind: ItemKind = ItemKind.MESSAGE
    role: Role = Role.ASSISTANT
    parts: tuple[Part, ...] = ()
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""
    output: str = ""
    id: str | None = None
    audio: bytes = b""
    """s16le at 24 kHz of its audio parts, joined."""
