"""Tokens of a language model to steps of codes: pure, as many tokens at a time as come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..decoders.decoder import Codes
from .layout import Layout


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A stretch of what the model has said: first markup, then steps of codes."""

    step: int
    """Of the utterance, from 0: where the stretch is."""

    markup: tuple[int, ...]
    """Tokens that are no codes, which came ahead of :attr:`step`; often none."""

    codes: Codes
    """int32 ``(codebooks, n)`` from :attr:`step` on; ``n`` may be 0."""


class Splitter:
    """Reads the tokens of one utterance.

    A step is given as soon as all of its codebooks are known: of a frame of SNAC the first half
    after four of seven tokens. What is given doesn't depend on how the tokens are cut into
    calls. Which code a token is depends on its block alone, never on how many came before, and
    every code of a block is one, 0 and the last as well.

    A code token out of its place breaks its frame: the steps of it that are given already
    stay, its other tokens are dropped and counted, and reading goes on at the next token that
    can begin a frame, which may be the one that broke it. Markup breaks nothing, wherever it is.
    """

    def __init__(self, layout: Layout) -> None:
        self._blocks = layout.blocks
        self._codebooks = layout.codebooks
        self._steps = layout.steps
        self._sources = _sources(layout)
        self._ready = [max(row) + 1 for row in self._sources]
        self._frame: list[int] = []
        self._given = 0
        self._step = 0
        self._dropped = 0

    @property
    def steps(self) -> int:
        """Steps that were given."""
        return self._step

    @property
    def dropped(self) -> int:
        """Code tokens that are in no step that was given, those of a frame that is still being
        read left out."""
        return self._dropped

    def feed(self, tokens: Iterable[int]) -> list[Split]:
        """Read on; what is certain now, in the order in which it was said."""
        made: list[Split] = []
        markup: list[int] = []
        columns: list[list[int]] = []

        def cut() -> None:
            if markup or columns:
                made.append(self._split(markup, columns))
                markup.clear()
                columns.clear()

        for token in tokens:
            if not self._take(token):
                if columns:
                    cut()
                markup.append(token)
                continue
            while self._given < self._steps and self._ready[self._given] <= len(self._frame):
                columns.append([self._frame[slot] for slot in self._sources[self._given]])
                self._given += 1
            if len(self._frame) == len(self._blocks):
                self._begin()
        cut()
        return made

    def end(self) -> None:
        """The utterance is over: an incomplete frame is dropped, but for the steps of it that
        are given already, because nobody knows the rest of its codes."""
        self._drop()

    def _take(self, token: int) -> bool:
        """Put a token into the frame if it fits there; ``False`` if it is no code at all."""
        code = self._blocks[len(self._frame)].code(token)
        if code is None and all(block.code(token) is None for block in self._blocks):
            return False
        if code is None:
            self._drop()
            code = self._blocks[0].code(token)
        if code is None:
            self._dropped += 1
        else:
            self._frame.append(code)
        return True

    def _begin(self) -> None:
        self._frame.clear()
        self._given = 0

    def _drop(self) -> None:
        used = {slot for row in self._sources[: self._given] for slot in row}
        self._dropped += len(self._frame) - len(used)
        self._begin()

    def _split(self, markup: list[int], columns: list[list[int]]) -> Split:
        codes = np.array(columns, np.int32).reshape(len(columns), self._codebooks)
        made = Split(self._step, tuple(markup), np.ascontiguousarray(codes.T))
        self._step += len(columns)
        return made


def _sources(layout: Layout) -> list[list[int]]:
    """Of each step of a frame the slot that says each codebook."""
    sources = [[0] * layout.codebooks for _ in range(layout.steps)]
    for number, slot in enumerate(layout.slots):
        for step in range(slot.first, slot.first + slot.steps):
            sources[step][slot.codebook] = number
    return sources
