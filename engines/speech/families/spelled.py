"""Figures as English words, for models that were taught on words alone."""

from __future__ import annotations

import re

from ..reading.numbers import below_hundred, digits

_FIGURE = re.compile(
    r"(?P<minus>(?<![\w)])[-−])?(?P<whole>\d{1,3}(?:,\d{3})+|\d+)"
    r"(?P<rest>\.\d+)?(?P<place>(?:st|nd|rd|th)\b)?(?P<percent>\s?%)?",
    re.ASCII,
)
_SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (1000, "thousand"))
_LONGEST = 15
"""Digits of the longest number that is read as one; others are read digit by digit."""

_PLACES = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def spelled(text: str) -> str:
    """``text`` with words for its figures: ``-3.5%`` is ``minus three point five percent``."""
    return _FIGURE.sub(lambda found: _words(found, text), text)


def cardinal(number: int) -> str:
    """A number from 0 on, below 10 to the 15th: ``one thousand two hundred five``."""
    words: list[str] = []
    for value, name in _SCALES:
        count, number = divmod(number, value)
        words += [cardinal(count), name] if count else []
    hundreds, rest = divmod(number, 100)
    words += [below_hundred(hundreds), "hundred"] if hundreds else []
    words += [below_hundred(rest)] if rest or not words else []
    return " ".join(words)


def _words(found: re.Match[str], text: str) -> str:
    whole = found["whole"].replace(",", "")
    said = cardinal(int(whole)) if len(whole) <= _LONGEST else digits(whole)
    if found["place"]:
        said = _place(said)
    words = ["minus"] if found["minus"] else []
    words.append(said)
    words += ["point", digits(found["rest"])] if found["rest"] else []
    words += ["percent"] if found["percent"] else []
    # A figure within a word is a word by itself.
    before = " " if text[: found.start()][-1:].isalpha() else ""
    after = " " if text[found.end() :][:1].isalpha() else ""
    return before + " ".join(words) + after


def _place(cardinal: str) -> str:
    """A place in an order of a number in words: ``twenty-first``."""
    at = max(cardinal.rfind(" "), cardinal.rfind("-")) + 1
    head, last = cardinal[:at], cardinal[at:]
    if last in _PLACES:
        return head + _PLACES[last]
    return f"{head}{last[:-1]}ieth" if last.endswith("y") else f"{head}{last}th"
