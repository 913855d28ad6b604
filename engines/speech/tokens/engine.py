"""The contract of what generates tokens: ids in, ids out, nothing of text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..families.family import TokenSampling
from .layout import Layout
from .rules import Script


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """What is to be generated."""

    request_id: str
    tokens: Sequence[int]
    """The prompt."""

    max_tokens: int
    stop: tuple[int, ...]
    sampling: TokenSampling
    seed: int | None = None
    """``None`` for another sound each time."""

    grammar: Layout | None = None
    """Frames that may not be broken: the code tokens of a frame follow each other in their order,
    and the utterance ends between two of them. ``None`` lets the model write what it likes."""

    markup: bool = True
    """Whether, where there is a grammar, tokens that are no codes may lie between frames."""

    script: Script | None = None
    """What the model is told while it speaks; needs :attr:`stop`."""


@dataclass(frozen=True, slots=True)
class TokenPiece:
    """What was generated since the last piece: any number of tokens."""

    tokens: Sequence[int]
    finish: str | None = None
    """``stop``, ``length`` or ``error`` with the last piece; before it ``None``. The token that
    stopped it is not among the tokens."""


class TokenEngineDied(Exception):
    """The engine's process is gone; nothing can be asked of it any more."""


class TokenEngine(Protocol):
    """A running engine."""

    @property
    def unfinished(self) -> int:
        """Requests that are being generated or wait, as far as the engine has told."""
        ...

    @property
    def sentinel(self) -> int:
        """A file descriptor that becomes readable when the engine's process is gone."""
        ...

    def generate(self, request: TokenRequest) -> AsyncGenerator[TokenPiece, None]:
        """Generate until the model stops; closing the generator aborts.

        Pieces that nobody takes wait, as many as :attr:`TokenRequest.max_tokens`.

        Raises:
            TokenEngineDied: the engine's process is gone.
        """
        ...

    async def close(self) -> None:
        """End the process and return when it is gone. Idempotent."""
        ...
