"""The sounds that our own talker is told one at a time, as it asks for them.

A *unit* is a sound of espeak's with what belongs to it: that it begins a word, its stress, its
length; or a pause. A token names a unit and the sound that comes next, so that the talker
hears how one goes over into the other. Rare pairs have no token of their own: those that name
any sound as the next stand for them.
"""

from __future__ import annotations

from collections.abc import Sequence

ASK, STOP, BEGIN = "<|ask|>", "<|stop|>", "<|begin|>"

ANY = "*"
"""In place of the sound that comes next."""

END = "$"
"""The sound after the last one."""

PAUSES = frozenset(",.;:!?")

_AHEAD = frozenset(" ˈˌ")
"""Symbols that belong to the sound after them: of a word's begin, and of stress."""

_BEHIND = frozenset("ː̩ʲ")
"""Symbols that belong to the sound before them."""


def units_of(symbols: str, frames: Sequence[int] = ()) -> tuple[list[str], list[int]]:
    """Put symbols together to units, and add up what each takes.

    ``frames``: of each symbol; zeros where they aren't told. Both lists have the same length.
    """
    units: list[str] = []
    lengths: list[int] = []
    ahead, owed = "", 0
    for symbol, count in zip(symbols, frames or [0] * len(symbols), strict=True):
        joins = symbol in _BEHIND or (symbol == " " and bool(units) and units[-1] in PAUSES)
        if joins and units and not ahead:
            units[-1] += symbol.strip()
            lengths[-1] += count
        elif symbol in _AHEAD:
            ahead = (ahead + symbol).replace("  ", " ")
            owed += count
        else:
            units.append(ahead + symbol)
            lengths.append(owed + count)
            ahead, owed = "", 0
    if units:
        lengths[-1] += owed
    return units, lengths


def sound_of(unit: str) -> str:
    """A unit without what says where in a word it is, and its stress."""
    return unit.strip(" ˈˌ")


def pairs_of(units: Sequence[str]) -> list[tuple[str, str]]:
    """Each unit with the sound that comes next."""
    following = [*map(sound_of, units[1:]), END]
    return list(zip(units, following, strict=False))


def pair_name(unit: str, following: str) -> str:
    """The token of a pair, as the vocabulary has it."""
    return f"<|{unit.replace(' ', '_')}>{following}|>"


def code_name(book: int, code: int) -> str:
    """The token of a code."""
    return f"<|{'ab'[book]}_{code}|>"
