"""Which token says what: how codes of a codec lie in the stream of a language model's tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Slot:
    """One token of a frame."""

    codebook: int
    """Row of the codes that it gives."""

    first: int = 0
    """The first step of the frame that it gives it for."""

    steps: int = 1
    """How many it gives it for."""


@dataclass(frozen=True, slots=True)
class TokenBlock:
    """Tokens that are the codes of one slot: ids from ``base``, one a code."""

    base: int
    size: int

    def code(self, token: int) -> int | None:
        """The code of a token; ``None`` where it is none of these."""
        return token - self.base if self.base <= token < self.base + self.size else None


@dataclass(frozen=True, slots=True)
class Layout:
    """Frames of tokens, one block of ids a slot, the same block where ids are shared.

    Tokens of none of the blocks may lie anywhere between: they are *markup*.
    """

    slots: tuple[Slot, ...]
    """In the order in which their tokens come."""

    blocks: tuple[TokenBlock, ...]
    """Of each slot."""

    steps: int
    """Of a frame."""

    codebooks: int

    def __post_init__(self) -> None:
        """Refuse a layout in which a code of a frame is missing or said twice."""
        if len(self.slots) != len(self.blocks):
            raise ValueError(f"expected a block for each of {len(self.slots)} slots")
        said = [
            (slot.codebook, step)
            for slot in self.slots
            for step in range(slot.first, slot.first + slot.steps)
        ]
        wanted = {(book, step) for book in range(self.codebooks) for step in range(self.steps)}
        if len(said) != len(wanted) or set(said) != wanted:
            raise ValueError("expected every codebook to be said once for every step of a frame")
