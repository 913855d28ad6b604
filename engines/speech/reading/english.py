"""How a written word of English is read, with the words around it."""

from __future__ import annotations

import re

from ..clauses import is_speakable
from . import amounts, dates, figures, words
from .marks import host
from .tokens import NOWHERE, Place, Said

_WHOLE = {
    "C++": "C plus plus",
    "C#": "C sharp",
    "F#": "F sharp",
    "w/": "with",
    "w/o": "without",
    "and/or": "and or",
    "either/or": "either or",
    "c/o": "care of",
    "b/c": "because",
    "n/a": "not applicable",
    "N/A": "not applicable",
}
_SIGNS = {
    "+": "plus",
    "=": "equals",
    "==": "equals",
    "×": "times",
    "*": "times",
    "÷": "divided by",
    "−": "minus",
    "<": "is less than",
    ">": "is greater than",
    "≤": "is at most",
    "<=": "is at most",
    "≥": "is at least",
    ">=": "is at least",
    "≠": "is not equal to",
    "!=": "is not equal to",
    "≈": "is about",
    "±": "plus or minus",
    "→": "to",
    "->": "to",
    "=>": "to",
    "⇒": "to",
    "^": "to the power of",
    "√": "the square root of",
    "∞": "infinity",
    "&": "and",
    "%": "percent",
    "@": "at",
}
_ADDRESS = {".": " dot ", "@": " at ", "_": " underscore ", "-": " dash ", "+": " plus "}
_JOINT = re.compile(r"(<=|>=|!=|==|->|=>|\++|[=×÷−<>≤≥≠≈→⇒√^&]|(?<=[0-9)])\*(?=[0-9(])|/+)")
_MINUS = re.compile(r"(?<=[0-9a-z)])-(?=[0-9a-z(])")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS: tuple[figures.Rule, ...] = (
    words.abbreviation,
    words.initials,
    words.numeral,
    dates.calendar_word,
)


def read(place: Place) -> tuple[str, int]:
    """What the word at ``place`` is read as, and how many words after it go with it.

    Raises:
        Wait: it depends on a word that is not complete yet.
    """
    word = place.word
    core = word.core
    said = _read(core, place) if core else None
    if said is None:
        return f"{word.lead}{core}{word.tail}", 0
    text = said.text if is_speakable(said.text) or not is_speakable(core) else core
    tail = word.tail if said.tail is None else said.tail
    if said.used and said.tail is None:
        last = place.peek(said.used)
        tail = last.tail if last else ""
    return f"{_lead(word.lead, core, tail)}{text}{tail}", said.used


def _lead(lead: str, core: str, tail: str) -> str:
    """What opens before a word, without what belongs to its figures: ``'90s``, ``(555)``."""
    if core[:1].isdigit() and lead.endswith(("'", "’", "‘")) and not set(tail) & set("'’"):
        return lead[:-1]
    return lead.replace("(", "") if ")" not in tail and core.isdigit() else lead


def _read(core: str, place: Place) -> Said | None:
    plain = core.isascii() and core.isalpha() and core.islower() and core != "x"
    if plain and "." not in place.word.tail:
        # Most words: none of the rules is about them, so none needs to see the next one.
        return Said("versus") if core == "vs" else None
    whole = _WHOLE.get(core)
    if whole:
        return Said(whole)
    for rule in _WORDS:
        said = rule(core, place)
        if said is not None:
            return said
    if core.isalpha() and core != "x":
        return None
    for rule in _FIGURES:
        said = rule(core, place)
        if said is not None:
            return said
    return _owned(core, place) or _compound(core)


def _owned(core: str, place: Place) -> Said | None:
    """``Louis IX's``, ``2026's``."""
    if not core.endswith(("'s", "’s")):
        return None
    said = _read(core[:-2], place)
    return Said(f"{said.text}'s") if said and not said.used else None


def _sign(core: str, place: Place) -> Said | None:
    """A sign that is a word by itself."""
    if core in _SIGNS and core != "*":
        return Said(_SIGNS[core])
    if core not in ("*", "-", "–", "x"):
        return None
    before = place.before()
    after = place.next() if _is_figure(before.core if before else "") else None
    if after is None or not _is_figure(after.core):
        return Said("") if core == "*" else None
    return Said({"*": "times", "-": "minus", "–": "to", "x": "by"}[core])


def _is_figure(core: str) -> bool:
    return core[:1].isdigit() or core[1:2].isdigit()


def _name(core: str, place: Place) -> Said | None:
    """An address, ``#tag`` or ``@name``."""
    del place
    address = host(core)
    if address:
        spoken = "".join(_ADDRESS.get(char, char) for char in address)
        return Said(" ".join(spoken.split()))
    if core[0] in "#@" and is_speakable(core[1:]):
        kind = "hashtag" if core[0] == "#" else "at"
        return Said(f"{kind} {_HUMP.sub(' ', core[1:])}")
    return None


_FIGURES: tuple[figures.Rule, ...] = (figures.figure, _sign, _name)


def _compound(core: str) -> Said | None:
    """Words and figures with signs between them: ``x+y``, ``AT&T``, ``$5/month``, ``he/she``."""
    if core in amounts.RATES:
        return Said(amounts.RATES[core])
    if "=" in core:
        core = _MINUS.sub("−", core)
    pieces = _JOINT.split(core)
    if len(pieces) == 1:
        spoken = _hyphened(core)
        return Said(spoken) if spoken != core else None
    if core == "/":
        return Said("")
    path = core.startswith("/") or core.count("/") > 1
    said: list[str] = []
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            said.append(_hyphened(piece))
        elif piece.startswith("/"):
            said.append("slash" if path else _slash(pieces[index - 1], pieces[index + 1]))
        elif piece[0] == "+":
            said += ["plus"] * min(2, len(piece))
        else:
            said.append(_SIGNS[piece])
    if len(pieces) == 3 and pieces[1] == "/" and pieces[2] in amounts.PER and said[1] == "per":
        said[2] = amounts.PER[pieces[2]]
    return Said(" ".join(filter(None, said)))


def _slash(left: str, right: str) -> str:
    if right in amounts.PER and any(map(str.isdigit, left)):
        return "per"
    both = left.isalpha() and right.isalpha() and len(left + right) > 2
    return "or" if both and not (left.isupper() and right.isupper()) else ""


def _hyphened(core: str) -> str:
    """A piece, and the figures between its hyphens: ``mid-1990s``."""
    if not any(map(str.isdigit, core)):
        return core
    said = figures.figure(core, NOWHERE)
    if said:
        return said.text
    if "-" not in core:
        return core
    return "-".join(figures.part(part) if part else "" for part in core.split("-"))
