"""Numbers as words, where figures alone would be read wrongly.

espeak reads ``42``, ``1,234``, ``3.14`` and ``3rd`` well, so figures stay figures; here is
what it can't know: that a number is a year, or is to be read digit by digit.
"""

from __future__ import annotations

import re

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_PARTS = {
    2: ("half", "halves"),
    3: ("third", "thirds"),
    4: ("quarter", "quarters"),
    5: ("fifth", "fifths"),
    6: ("sixth", "sixths"),
    7: ("seventh", "sevenths"),
    8: ("eighth", "eighths"),
    9: ("ninth", "ninths"),
    10: ("tenth", "tenths"),
    12: ("twelfth", "twelfths"),
    16: ("sixteenth", "sixteenths"),
    20: ("twentieth", "twentieths"),
    32: ("thirty-second", "thirty-seconds"),
}


def below_hundred(number: int) -> str:
    """A number from 0 to 99: ``twenty-six``."""
    if number < len(_ONES):
        return _ONES[number]
    tens, ones = divmod(number, 10)
    return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")


def digits(text: str) -> str:
    """Each digit by itself, whatever script it is in; other characters are left out."""
    return " ".join(_ONES[int(char)] for char in text if char.isdecimal())


def year(number: int) -> str:
    """A year from 1000 to 2999: ``twenty twenty-six``, ``nineteen oh five``."""
    century, rest = divmod(number, 100)
    if century % 10 == 0 and rest < 10:
        return str(number)
    if rest == 0:
        return f"{below_hundred(century)} hundred"
    late = below_hundred(rest) if rest >= 10 else f"oh {below_hundred(rest)}"
    return f"{below_hundred(century)} {late}"


def decade(text: str) -> str:
    """The ten years that begin with ``text``, of two or four digits: ``nineteen nineties``."""
    rest = int(text[-2:])
    century = below_hundred(int(text[:-2])) if len(text) == 4 else ""
    if rest == 0:
        return f"{century} hundreds" if int(text) % 1000 else f"{_ONES[int(text[0])]} thousands"
    name = below_hundred(rest)
    plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    return f"{century} {plural}".strip()


def ordinal(number: int) -> str:
    """A place in an order, in figures: ``29th``."""
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def fraction(above: int, below: int) -> str | None:
    """A common fraction: ``three quarters``; ``None`` where the parts have no short name."""
    if below not in _PARTS or not 0 < above < below:
        return None
    one, many = _PARTS[below]
    return f"{below_hundred(above)} {one if above == 1 else many}"


_ROMAN = re.compile(r"(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})")
_TENS_OF = {"X": 10, "L": 50, "I": 1, "V": 5}


def roman(text: str) -> int | None:
    """The value of a Roman numeral up to 99, in capitals; ``None`` if it isn't one."""
    if not text or len(text) > 8 or not _ROMAN.fullmatch(text):
        return None
    values = [_TENS_OF.get(char, 100) for char in text]
    following = [*values[1:], 0]
    return sum(
        -value if value < after else value for value, after in zip(values, following, strict=True)
    )
