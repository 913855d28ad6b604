"""Cutting a clause into phrases that are made one by one, at its pauses where it has some.

Sound of the first is there sooner than the clause would be, and no job takes as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..clauses import Pause
from .japanese import OPENING, Symbol

COMMA_SYMBOLS = 20
"""A phrase ends at a comma from here on: about 1.5 s of speech."""

SENTENCE_SYMBOLS = 8
"""A phrase ends with its sentence from here on; shorter ones join the next."""

LONG_SYMBOLS = 60
"""It ends between words from here on: about 4 s of speech."""

MOST_SYMBOLS = 200
"""It ends anywhere here. A voice has no style for more than 510."""

SENTENCE_MARK = "."

_PAUSES = {
    **dict.fromkeys(".!?", Pause.SENTENCE),
    **dict.fromkeys(",;:…—", Pause.COMMA),
}


@dataclass(frozen=True, slots=True)
class Phrase:
    """Symbols that are made at once, with some sound among them, and the pause after them."""

    symbols: tuple[Symbol, ...]
    pause: Pause


def phrases(symbols: Sequence[Symbol], at_end: Pause) -> list[Phrase]:
    """The phrases of a clause that ends in the pause ``at_end``, or in that of its marks."""
    made: list[Phrase] = []
    begin = sounded = 0
    for at, each in enumerate(symbols):
        if not each.is_sound:
            continue
        between = symbols[sounded:at]
        if sounded > begin and _is_enough(at - begin, _pause(between), bool(between)):
            end = _before_opening(symbols, sounded, at)
            made.append(_phrase(symbols[begin:end], Pause.NONE))
            begin = end
        sounded = at + 1
    if sounded > begin:
        made.append(_phrase(symbols[begin:], at_end))
    return made


def _is_enough(length: int, pause: Pause, spaced: bool) -> bool:
    if length >= MOST_SYMBOLS or (spaced and length >= LONG_SYMBOLS):
        return True
    if pause is Pause.SENTENCE:
        return length >= SENTENCE_SYMBOLS
    return pause is Pause.COMMA and length >= COMMA_SYMBOLS


def _pause(between: Sequence[Symbol]) -> Pause:
    return max((_PAUSES.get(each.char, Pause.NONE) for each in between), default=Pause.NONE)


def _before_opening(symbols: Sequence[Symbol], start: int, stop: int) -> int:
    """Where what stands between two sounds begins to belong to the second."""
    opening = (at for at in range(start, stop) if symbols[at].char in OPENING)
    return next(opening, stop)


def _phrase(symbols: Sequence[Symbol], at_end: Pause) -> Phrase:
    kept = list(symbols)
    while kept[0].char == " ":
        del kept[0]
    while kept[-1].char == " ":
        del kept[-1]
    last = max(at for at, each in enumerate(kept) if each.is_sound)
    marked = _pause(kept[last + 1 :])
    if marked is Pause.NONE and at_end is Pause.SENTENCE:
        # A line ended: said as a sentence.
        kept.insert(last + 1, Symbol(SENTENCE_MARK, kept[last].word))
    return Phrase(tuple(kept), max(marked, at_end))
