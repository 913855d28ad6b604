"""Figures in English that are no amount and no date: telephone numbers, ranges, fractions."""

from __future__ import annotations

import re
from collections.abc import Callable

from . import amounts, dates
from .numbers import digits, fraction, ordinal
from .tokens import NOWHERE, Place, Said

Rule = Callable[[str, Place], Said | None]

LONGEST_CALL = 6
"""Groups of digits in one telephone number."""

_GLYPHS = {
    "½": "a half",
    "¼": "a quarter",
    "¾": "three quarters",
    "⅓": "a third",
    "⅔": "two thirds",
    "⅛": "an eighth",
}
_SIGNS = {
    "~": "about",
    "≈": "about",
    "<": "less than",
    ">": "more than",
    "≤": "at most",
    "≥": "at least",
    "<=": "at most",
    ">=": "at least",
    "–": "minus",
    "-": "minus",
    "−": "minus",
    "+": "plus",
    "±": "plus or minus",
    "+/-": "plus or minus",
    "#": "number",
    "№": "number",
}
_SIGNED = re.compile(r"(<=|>=|\+/-|[~≈<>≤≥–−+±#№-])([$€£¥]?\.?[0-9].*)")
_GROUP = re.compile(r"[0-9]{2,}(?:[-.][0-9]+)*")
_CALL = re.compile(r"\+?[0-9]{3}([-.])[0-9]{3}\1[0-9]{4}|[0-9]{3}-[0-9]{4}|\+[0-9]+(?:-[0-9]+)+")
_CHAIN = re.compile(r"[0-9]+(?:-[0-9Xx]+){2,}")
_RANGE = re.compile(r"([$€£¥]?[0-9][^–=+*<>×÷^-]*)[–-]([$€£¥]?[0-9][^–=+*<>×÷^-]*)")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)[x×]([0-9]+(?:\.[0-9]+)?)")
_SCIENTIFIC = re.compile(r"([0-9.]+)[eE]([+-]?[0-9]+)")
_VERSION = re.compile(
    r"([vV]?)([0-9]+(?:\.[0-9]+)*)((?:[-.]?(?:a|b|rc|alpha|beta|dev)\.?[0-9]*)?)(?::([0-9]{1,5}))?"
)
_FRACTION = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")
_MIXED = re.compile(r"([0-9]*)([½¼¾⅓⅔⅛])")
_POWER = re.compile(r"([\w.]*[^\W²³]|\([^()]*\))([²³])")
_RATIO = re.compile(r"([0-9]{1,6}):([0-9]{1,6})")
_FEET = re.compile(r"([0-9]{1,2})['′’]([0-9]{1,2})[\"″”]?")


def telephone(core: str, place: Place) -> Said | None:
    """``555-123-4567``, ``(555) 123-4567``, ``+1 555 123 4567``, ``020 7946 0958``."""
    if _CALL.fullmatch(core) or _CHAIN.fullmatch(core):
        return Said(_spelled([core]))
    bracketed = place.word.lead.endswith("(") and place.word.tail == ")" and core.isdigit()
    if not bracketed and not re.fullmatch(r"\+[0-9]{1,15}|0[0-9]{2,5}", core):
        return None
    groups = [core]
    tail = place.word.tail
    while len(groups) < LONGEST_CALL and tail in ("", ")"):
        after = place.peek(len(groups))
        if not after or after.lead.strip("(") or not _GROUP.fullmatch(after.core):
            break
        groups.append(after.core)
        tail = after.tail
    if len(groups) == 1 and not core.startswith("+"):
        return None
    if len(groups) == 1 and len(core) < 8 or (bracketed and len("".join(groups)) < 7):
        return None
    return Said(_spelled(groups), len(groups) - 1, tail)


def _spelled(groups: list[str]) -> str:
    """Groups of digits with a pause between them."""
    parts = [part for group in groups for part in re.split(r"[^0-9+Xx]+", group) if part]
    return ", ".join(_spelled_part(part) for part in parts)


def _spelled_part(part: str) -> str:
    plus, ten = part.startswith("+"), part[-1:] in "Xx"
    return " ".join(filter(None, ["plus" * plus, digits(part), "X" * ten]))


def range_of(core: str, place: Place) -> Said | None:
    """``3–5``, ``10-20%``, ``$10–20``, ``9am–5pm``, ``1914-18``, ``5–10 km``."""
    found = _RANGE.fullmatch(core)
    if not found:
        return None
    left, right = found[1], found[2]
    whole = dates.years(left, right) or amounts.span(left, right)
    if whole:
        return Said(whole)
    if dates.month(place.before()) and left.isdigit() and right.isdigit():
        first, second = dates.date(left, place), dates.date(right, place)
        if first and second:
            return Said(f"{first.text} to {second.text}")
    end = figure(right, place) or Said(right)
    if left.isdigit() and end.text.startswith("the "):
        return Said(f"the {ordinal(int(left))} to {end.text}", end.used, end.tail)
    return Said(f"{part(left)} to {end.text}", end.used, end.tail)


def part(core: str) -> str:
    """A figure that stands inside a word."""
    said = figure(core, NOWHERE)
    return said.text if said else core


def version(core: str, place: Place) -> Said | None:
    """``v2.1.3``, ``2.1.3``, ``192.168.1.1``."""
    found = _VERSION.fullmatch(core)
    if not found:
        return None
    numbers = found[2].split(".")
    if len(numbers) < {"": 3, "v": 1, "V": 2}[found[1]]:
        return None
    point = " dot " if len(numbers) == 4 and not found[1] else " point "
    before = place.before()
    named = before and before.core.lower() == "version"
    words = "version " if found[1] and not named else ""
    after = re.sub(r"([a-z]+)", r" \1 ", found[3].replace("-", " ").replace(".", " "))
    port = f"port {found[4]}" if found[4] else ""
    return Said(" ".join(f"{words}{point.join(numbers)} {after} {port}".split()))


def share(core: str, place: Place) -> Said | None:
    """``1/2``, ``1 1/2``, ``2½``, ``7/10``, ``24/7``."""
    mixed = _MIXED.fullmatch(core)
    if mixed:
        glyph = _GLYPHS[mixed[2]]
        return Said(f"{mixed[1]} and {glyph}" if mixed[1] else glyph)
    found = _FRACTION.fullmatch(core)
    if not found:
        return None
    if core in ("24/7", "9/11"):
        return Said(core.replace("/", " "))
    season = dates.years(found[1], found[2])
    if season:
        return Said(season)
    above, below = int(found[1]), int(found[2])
    if above + below == 100:
        return Said(f"{found[1]} {found[2]}")
    before = place.before()
    named = None if below == 10 and above > 1 else fraction(above, below)
    if named:
        counted = before and before.core.isdigit() and not before.tail
        return Said(f"and {named}" if counted else named)
    between = "out of" if above <= below else "over"
    return Said(f"{found[1]} {between} {found[2]}")


def signed(core: str, place: Place) -> Said | None:
    """``~5``, ``≥10%``, ``#1``, ``-$5``, ``-20°C``."""
    found = _SIGNED.fullmatch(core)
    if not found:
        return None
    sign, rest = found[1], found[2]
    said = figure(rest, place)
    if said is None and sign in "-−+±":
        # These are read well by themselves.
        return None
    name = _SIGNS[sign]
    return Said(f"{name} {said.text}", said.used, said.tail) if said else Said(f"{name} {rest}")


def other(core: str, place: Place) -> Said | None:
    """``.5``, ``3:1``, ``x²``, ``5'10"``, and numbers too long to be an amount."""
    if re.fullmatch(r"\.[0-9]+", core):
        return Said(f"point {digits(core)}")
    ratio = _RATIO.fullmatch(core)
    if ratio:
        return Said(f"{ratio[1]} to {ratio[2]}")
    size = _SIZE.fullmatch(core)
    if size:
        return Said(f"{size[1]} by {size[2]}")
    feet = _FEET.fullmatch(core)
    if feet:
        return Said(f"{feet[1]} foot {feet[2]}")
    power = _POWER.fullmatch(core)
    if power:
        return Said(f"{part(power[1])} {'squared' if power[2] == '²' else 'cubed'}")
    if re.fullmatch(r"[0-9]+", core) and (_is_name(core) or _is_postal(core, place)):
        return Said(digits(core))
    return None


def scientific(core: str, place: Place) -> Said | None:
    """``1e-5``."""
    del place
    found = _SCIENTIFIC.fullmatch(core)
    return Said(f"{found[1]} times 10 to the power of {found[2].lstrip('+')}") if found else None


def _is_postal(number: str, place: Place) -> bool:
    """Whether five digits stand behind the two letters of a state."""
    before = place.before()
    return len(number) == 5 and bool(before and len(before.core) == 2 and before.core.isupper())


def _is_name(number: str) -> bool:
    """Whether digits are a name rather than an amount: nobody says these as one number."""
    padded = len(number) > 1 and number.startswith("0")
    return padded or len(number) > 15 or (len(number) >= 8 and not number.endswith("000"))


_RULES: tuple[Rule, ...] = (
    dates.date,
    dates.decade_of,
    telephone,
    dates.time_of_day,
    amounts.money,
    amounts.measure,
    scientific,
    range_of,
    dates.year_alone,
    version,
    share,
    signed,
    other,
)


def figure(core: str, place: Place) -> Said | None:
    """What a figure is read as; ``None`` if it is read well as it is, or is none.

    Raises:
        Wait: it depends on a word that is not complete yet.
    """
    for rule in _RULES:
        said = rule(core, place)
        if said is not None:
            return said
    return None
