"""What a model may say next, as far as it isn't free: plain data."""

from __future__ import annotations

import msgspec

from .layout import Layout

RULES_KEY = "token_rules"
"""Of the extra arguments of a request, where its rules are."""


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens that a model doesn't choose: it asks for the next of them.

    After each *ask* token that the model says by itself, the next :attr:`each` tokens are these,
    whatever it would have said. Where it asks and none are left, it is made to stop.
    """

    ask: int
    each: int
    """Tokens given at once."""

    tokens: tuple[int, ...]
    """A multiple of :attr:`each`."""

    def __post_init__(self) -> None:
        """Refuse a script that would end within a turn."""
        if self.each < 1 or len(self.tokens) % self.each:
            raise ValueError(f"script: expected a multiple of {self.each} tokens")


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of one request; each part may be left out."""

    frames: tuple[tuple[int, int], ...] = ()
    """First id and number of the codes of each slot of a frame: within a frame nothing else
    may be said, and between two frames no code but one that begins the next."""

    ends: tuple[int, ...] = ()
    """Tokens that stop: between frames alone. The first ends a script."""

    markup: bool = True
    """Whether tokens that are no codes may lie between frames."""

    penalty: float = 1.0
    """What was said lately is said less: logits above 0 are divided by it, others multiplied."""

    window: int = 0
    """Over so many of the last tokens, the prompt's among them."""

    script: Script | None = None

    def __post_init__(self) -> None:
        """Refuse rules that can't be kept."""
        if self.penalty <= 0 or self.window < 0:
            raise ValueError("penalty, window: expected numbers above 0")
        if self.script is not None and not self.ends:
            raise ValueError("ends: expected a token for where the script ends")

    @property
    def idle(self) -> bool:
        """Whether nothing is ruled at all."""
        return not self.frames and self.script is None and (self.window == 0 or self.penalty == 1)


def frames_of(layout: Layout) -> tuple[tuple[int, int], ...]:
    """The blocks of a layout, as rules have them."""
    return tuple((block.base, block.size) for block in layout.blocks)
