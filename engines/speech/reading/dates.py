"""Days, years and times of day in English."""

from __future__ import annotations

import re

from .numbers import decade, ordinal, year
from .tokens import NOWHERE, Place, Said, Word

_NAMES = (
    "January February March April May June July August September October November December"
).split()
_MONTHS = {name: name for name in _NAMES} | {name[:3]: name for name in _NAMES}
_MONTHS["Sept"] = "September"
_WEEKDAYS = {
    short: name
    for shorts, name in (
        ("Mon", "Monday"),
        ("Tue Tues", "Tuesday"),
        ("Wed", "Wednesday"),
        ("Thu Thur Thurs", "Thursday"),
        ("Fri", "Friday"),
        ("Sat", "Saturday"),
        ("Sun", "Sunday"),
    )
    for short in shorts.split()
}

_ISO = re.compile(r"([12][0-9]{3})[-/]([01]?[0-9])[-/]([0-3]?[0-9])")
_MOMENT = re.compile(r"([12][0-9]{3}-[01][0-9]-[0-3][0-9])T([0-9]{2}:[0-9]{2})(?::[0-9.]+)?Z?")
_SLASHED = re.compile(r"([0-3]?[0-9])([/.])([0-3]?[0-9])\2([12][0-9]{3}|[0-9]{2})")
_DAY = re.compile(r"([0-3]?[0-9])(?:st|nd|rd|th)?")
_YEAR = re.compile(r"[12][0-9]{3}")
_DECADE = re.compile(r"((?:1[0-9]|20)?[0-9]0)['’]?s")
_CLOCK = re.compile(r"([0-2]?[0-9]):([0-5][0-9])(?::([0-5][0-9]))?([ap]\.?m)?", re.IGNORECASE)
_HOUR = re.compile(r"(1[0-2]|0?[1-9])([ap]\.?m)?", re.IGNORECASE)
_HALVES = {"am": "A-M", "pm": "P-M", "a.m": "A-M", "p.m": "P-M"}

_CUES = frozenset("in since until till circa year during ca".split())
"""Words before a year of any century."""

_OWNERS = frozenset("the his her their my your our early late mid".split())
_DAY_CUES = frozenset("on by until since from before after".split())
_AFTER_DAY = frozenset("at in and or to of on is was the for from until through with by".split())


def month(word: Word | None) -> str | None:
    """The month that a word names or abbreviates."""
    return _MONTHS.get(word.core) if word else None


def date(core: str, place: Place) -> Said | None:
    """``2026-11-29``, ``11/29/2026``, ``29.11.2026``, ``29 Nov``, the day in ``Nov 29``."""
    moment = _MOMENT.fullmatch(core)
    if moment:
        said = date(moment[1], place)
        clock = time_of_day(moment[2], place)
        return Said(f"{said.text}, {clock.text}") if said and clock else None
    found = _ISO.fullmatch(core)
    if found:
        return _full(int(found[1]), int(found[2]), int(found[3]))
    found = _SLASHED.fullmatch(core)
    if found:
        first, second, number = int(found[1]), int(found[3]), int(found[4])
        number += 2000 if number < 100 else 0
        month_first = found[2] == "/" and first <= 12
        return _full(number, *((first, second) if month_first else (second, first)))
    return _short(core, place) or _day(core, place)


def _full(number: int, month_number: int, day: int) -> Said | None:
    if not (1 <= month_number <= 12 and 1 <= day <= 31):
        return None
    return Said(f"{_NAMES[month_number - 1]} {ordinal(day)}, {year(number)}")


def _short(core: str, place: Place) -> Said | None:
    """``11/29`` where a day is meant."""
    before = place.before()
    found = re.fullmatch(r"(1[0-2]|[1-9])/([1-3]?[0-9])", core)
    if not found or not before or before.core.lower() not in _DAY_CUES:
        return None
    day = int(found[2])
    return Said(f"{_NAMES[int(found[1]) - 1]} {ordinal(day)}") if 1 <= day <= 31 else None


def _day(core: str, place: Place) -> Said | None:
    found = _DAY.fullmatch(core)
    if not found or not 1 <= int(found[1]) <= 31:
        return None
    day = ordinal(int(found[1]))
    before = place.before()
    if month(before) and before and not before.tail.strip("."):
        return Said(day) if core.isdigit() and _ends_date(place) else None
    after = place.next()
    name = month(after)
    if not name or not after:
        return None
    article = "" if before and before.core.lower() == "the" else "the "
    tail = after.tail if name == after.core else stop(place, after, 1)
    return Said(f"{article}{day} of {name}", 1, tail)


def _ends_date(place: Place) -> bool:
    """Whether what follows a day leaves it a day: not ``November 20 people``."""
    after = place.next()
    return after is None or after.core in _AFTER_DAY or bool(_YEAR.fullmatch(after.core))


def decade_of(core: str, place: Place) -> Said | None:
    """``1990s``, ``'90s``, ``her 20s``, but not the seconds of ``30s``."""
    found = _DECADE.fullmatch(core)
    if not found:
        return None
    before = place.before()
    named = before and before.core.lower() in _OWNERS
    if len(found[1]) == 4 or named or place is NOWHERE or place.word.lead.endswith(("'", "’", "‘")):
        return Said(decade(found[1]))
    return None


def year_alone(core: str, place: Place) -> Said | None:
    """``2026``, ``in 1848``, ``(1066``."""
    if not _YEAR.fullmatch(core):
        return None
    number, before = int(core), place.before()
    if 1900 <= number <= 2099 or month(before) or _follows_day(place):
        return Said(year(number))
    cued = place.word.lead.endswith("(") or bool(before and before.core.lower() in _CUES)
    return Said(year(number)) if cued and number >= 1000 else None


def _follows_day(place: Place) -> bool:
    day, name = place.before(), place.before(2)
    return bool(day and name and month(name) and _DAY.fullmatch(day.core))


def years(left: str, right: str) -> str | None:
    """From one year to another: ``1914`` and ``18``, ``2019`` and ``2024``."""
    if not _YEAR.fullmatch(left) or not 1100 <= int(left) <= 2099:
        return None
    if _YEAR.fullmatch(right):
        return f"{year(int(left))} to {year(int(right))}"
    if re.fullmatch(r"[1-9][0-9]", right) and int(right) > int(left[2:]):
        return f"{year(int(left))} to {year(int(left[:2] + right)).split(' ', 1)[-1]}"
    return None


def time_of_day(core: str, place: Place) -> Said | None:
    """``10:30``, ``14:05``, ``10:00 a.m.``, ``3pm``, ``3 p.m.``"""
    found = _CLOCK.fullmatch(core)
    if found and int(found[1]) <= 24:
        return _clock(found[1], found[2], found[3], found[4], place)
    hour = _HOUR.fullmatch(core)
    if not hour:
        return None
    said = _half(hour[2], place)
    return Said(f"{int(hour[1])} {said.text}", said.used, said.tail) if said else None


def _clock(hour: str, minute: str, second: str | None, half: str | None, place: Place) -> Said:
    said = _half(half, place)
    parts = [str(int(hour)) if int(hour) or said else "zero"]
    if second is not None:
        parts += [_minute(minute), _minute(second)]
    elif minute != "00":
        parts.append(_minute(minute))
    elif not said:
        parts.append("o'clock" if 1 <= int(hour) <= 12 else "hundred")
    if not said:
        return Said(" ".join(parts))
    return Said(" ".join([*parts, said.text]), said.used, said.tail)


def _minute(text: str) -> str:
    return text if text[0] != "0" else f"oh {text[1]}" if text[1] != "0" else "zero"


def _half(half: str | None, place: Place) -> Said | None:
    """The half of the day: of the word itself, or the next word."""
    if half:
        dotted = "." in half
        return Said(_HALVES[half.lower()], 0, stop(place, place.word, 0) if dotted else None)
    after = place.next()
    name = _HALVES.get(after.core.lower()) if after else None
    if not name or not after:
        return None
    return Said(name, 1, stop(place, after, 1) if "." in after.core else after.tail)


def stop(place: Place, word: Word, ahead: int) -> str:
    """A tail whose full stop may be that of the abbreviation and not of a sentence."""
    if not word.tail.startswith("."):
        return word.tail
    rest = word.tail[1:]
    return word.tail if ends_sentence(place, ahead) else rest


def ends_sentence(place: Place, ahead: int = 0) -> bool:
    """Whether a sentence may begin after the word so many places ahead.

    Raises:
        Wait: the next word is not complete yet.
    """
    after = place.peek(ahead + 1)
    first = after.core[:1] if after else ""
    return not (first.islower() or first.isdigit() or (after and "(" in after.lead))


def calendar_word(core: str, place: Place) -> Said | None:
    """``Nov.`` beside a day or a year, ``Tue,`` before a date."""
    name = _MONTHS.get(core)
    if name and name != core and place.word.tail in ("", "."):
        after, before = place.peek(), place.before()
        if (after and after.core[:1].isdigit()) or (before and _DAY.fullmatch(before.core)):
            return Said(name, 0, "")
        return None
    if core not in _WEEKDAYS or place.word.tail not in ("", ",", ".", ".,"):
        return None
    after = place.peek()
    if not after or not (month(after) or after.core[:1].isdigit()):
        return None
    return Said(_WEEKDAYS[core], 0, place.word.tail.replace(".", ""))
