"""Vocabularies to read: letters are their code points, and marks have names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_MARKS = re.compile(r"(<[^<>\s]+>|\[[A-Z]+\])")


class Letters:
    """A vocabulary of one token a character, and of the names that it is given."""

    def __init__(
        self, names: Mapping[str, int], *, size: int | None = None, opening: Sequence[int] = ()
    ) -> None:
        self._names = dict(names)
        self._texts = {at: name for name, at in self._names.items()}
        self.size = size or max(self._names.values()) + 1
        self.opening = opening

    def find(self, name: str) -> int | None:
        return self._names.get(name)

    def encode(self, text: str) -> list[int]:
        tokens: list[int] = []
        for part in _MARKS.split(text):
            mark = self._names.get(part)
            tokens += [mark] if mark is not None else map(ord, part)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self._texts.get(token) or chr(token) for token in tokens)


FIRST = 2000
"""The first id of names that :func:`compact` gives."""


def compact(*groups: Iterable[str]) -> Letters:
    """Names at ids one after the other."""
    names = [name for group in groups for name in group]
    return Letters({name: FIRST + at for at, name in enumerate(names)})
