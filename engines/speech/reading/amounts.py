"""Money and measures in English: ``$3.50``, ``£1m``, ``5 km``, ``20°C``."""

from __future__ import annotations

import re

from .dates import stop
from .tokens import Place, Said

NUMBER = r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?"
"""A number as it is written: ``1,234.5``."""

_PLAIN = re.compile(NUMBER)

_DOLLAR = ("dollar", "dollars", "cent", "cents")
_MONEY = {
    "$": _DOLLAR,
    "US$": ("U.S. dollar", "U.S. dollars", "cent", "cents"),
    "A$": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "C$": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₺": ("lira", "lira", "", ""),
    "¢": ("cent", "cents", "", ""),
}
_CODES = {
    "USD": _MONEY["US$"],
    "EUR": _MONEY["€"],
    "GBP": _MONEY["£"],
    "JPY": _MONEY["¥"],
    "INR": _MONEY["₹"],
    "AUD": _MONEY["A$"],
    "CAD": _MONEY["C$"],
    "CHF": ("Swiss franc", "Swiss francs", "", ""),
    "CNY": ("yuan", "yuan", "", ""),
}
_SCALES = {
    "k": "thousand",
    "K": "thousand",
    "m": "million",
    "M": "million",
    "mn": "million",
    "b": "billion",
    "B": "billion",
    "bn": "billion",
    "tn": "trillion",
    "T": "trillion",
}
_SCALE_WORDS = frozenset("hundred thousand million billion trillion".split())

_MARKED = re.compile(
    rf"(?P<mark>US\$|A\$|C\$|[$€£¥₹₩₽₺])(?P<sum>{NUMBER})(?P<scale>bn|mn|tn|[kKmMbBT])?"
)
_BEHIND = re.compile(rf"(?P<sum>{NUMBER})(?P<scale>bn|mn|[kKmM])?(?P<mark>[€£¥₹₩₽₺¢$])")
_MEASURE = re.compile(rf"({NUMBER})([^\W0-9_]+[²³23]?(?:/[a-z]+[²³23]?)?|°[CF]?|%|″|′|Ω|kΩ|MΩ)")
_SCALED = re.compile(rf"({NUMBER})(k|M|B|bn|mn|tn)|([0-9]{{3,}})(K)")

_UNITS: dict[str, tuple[str, str]] = {
    name: (one, many)
    for names, one, many in (
        ("km", "kilometer", "kilometers"),
        ("m", "meter", "meters"),
        ("cm", "centimeter", "centimeters"),
        ("mm", "millimeter", "millimeters"),
        ("µm μm um", "micrometer", "micrometers"),
        ("nm", "nanometer", "nanometers"),
        ("mi", "mile", "miles"),
        ("ft", "foot", "feet"),
        ("yd yds", "yard", "yards"),
        ("kg", "kilogram", "kilograms"),
        ("g", "gram", "grams"),
        ("mg", "milligram", "milligrams"),
        ("µg μg mcg", "microgram", "micrograms"),
        ("lb lbs", "pound", "pounds"),
        ("oz", "ounce", "ounces"),
        ("l L", "liter", "liters"),
        ("ml mL", "milliliter", "milliliters"),
        ("cl", "centiliter", "centiliters"),
        ("gal", "gallon", "gallons"),
        ("tbsp", "tablespoon", "tablespoons"),
        ("tsp", "teaspoon", "teaspoons"),
        ("°C ℃", "degree Celsius", "degrees Celsius"),
        ("°F ℉", "degree Fahrenheit", "degrees Fahrenheit"),
        ("°", "degree", "degrees"),
        ("%", "percent", "percent"),
        ("km/h kph kmh", "kilometer per hour", "kilometers per hour"),
        ("mph", "mile per hour", "miles per hour"),
        ("m/s", "meter per second", "meters per second"),
        ("Hz", "hertz", "hertz"),
        ("kHz", "kilohertz", "kilohertz"),
        ("MHz", "megahertz", "megahertz"),
        ("GHz", "gigahertz", "gigahertz"),
        ("KB kB", "kilobyte", "kilobytes"),
        ("MB", "megabyte", "megabytes"),
        ("GB", "gigabyte", "gigabytes"),
        ("TB", "terabyte", "terabytes"),
        ("KiB", "kibibyte", "kibibytes"),
        ("MiB", "mebibyte", "mebibytes"),
        ("GiB", "gibibyte", "gibibytes"),
        ("kbps kbit/s", "kilobit per second", "kilobits per second"),
        ("Mbps Mbit/s", "megabit per second", "megabits per second"),
        ("Gbps Gbit/s", "gigabit per second", "gigabits per second"),
        ("ns", "nanosecond", "nanoseconds"),
        ("µs μs us", "microsecond", "microseconds"),
        ("ms", "millisecond", "milliseconds"),
        ("s sec secs", "second", "seconds"),
        ("min mins", "minute", "minutes"),
        ("h hr hrs", "hour", "hours"),
        ("W", "watt", "watts"),
        ("kW", "kilowatt", "kilowatts"),
        ("MW", "megawatt", "megawatts"),
        ("GW", "gigawatt", "gigawatts"),
        ("kWh", "kilowatt hour", "kilowatt hours"),
        ("MWh", "megawatt hour", "megawatt hours"),
        ("V", "volt", "volts"),
        ("kV", "kilovolt", "kilovolts"),
        ("mA", "milliamp", "milliamps"),
        ("mAh", "milliamp hour", "milliamp hours"),
        ("Ω", "ohm", "ohms"),
        ("kΩ", "kiloohm", "kiloohms"),
        ("px", "pixel", "pixels"),
        ("fps", "frame per second", "frames per second"),
        ("dB", "decibel", "decibels"),
        ("kcal", "kilocalorie", "kilocalories"),
        ("kJ", "kilojoule", "kilojoules"),
        ("Pa", "pascal", "pascals"),
        ("hPa", "hectopascal", "hectopascals"),
        ("kPa", "kilopascal", "kilopascals"),
        ("m² m2 sqm", "square meter", "square meters"),
        ("km² km2", "square kilometer", "square kilometers"),
        ("cm² cm2", "square centimeter", "square centimeters"),
        ("ft² ft2", "square foot", "square feet"),
        ("m³ m3", "cubic meter", "cubic meters"),
        ("cm³ cm3", "cubic centimeter", "cubic centimeters"),
        ("kg/m³", "kilogram per cubic meter", "kilograms per cubic meter"),
        ("mg/L mg/l", "milligram per liter", "milligrams per liter"),
    )
    for name in names.split()
}

RATES = {name: many for name, (_, many) in _UNITS.items() if "/" in name}
"""Units that hold a slash, by themselves."""

_JOINED_ONLY = frozenset({"us", "um"})
"""Units that are words where a space is before them."""

_STOPPED = frozenset("min mins hr hrs sec secs ft yd yds lb lbs oz mi gal tbsp tsp".split())
"""Units whose full stop may be their own."""

PER = {
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "hour": "hour",
    "d": "day",
    "day": "day",
    "night": "night",
    "week": "week",
    "wk": "week",
    "month": "month",
    "mo": "month",
    "year": "year",
    "yr": "year",
    "kg": "kilogram",
    "lb": "pound",
    "l": "liter",
    "L": "liter",
    "person": "person",
    "unit": "unit",
    "user": "user",
    "token": "token",
    "request": "request",
    "kWh": "kilowatt hour",
}
"""What something can be counted by, behind a slash."""


def money(core: str, place: Place) -> Said | None:
    """``$3.50``, ``20€``, ``£1m``, ``$3 million``."""
    found = _MARKED.fullmatch(core) or _BEHIND.fullmatch(core)
    if not found:
        return None
    names, amount = _MONEY[found["mark"]], found["sum"]
    if found["scale"]:
        return Said(f"{amount} {_SCALES[found['scale']]} {names[1]}")
    after = place.next()
    if after and after.core in _SCALE_WORDS:
        return Said(f"{amount} {after.core} {names[1]}", 1)
    if after and after.core in ("m", "bn", "mn", "tn"):
        return Said(f"{amount} {_SCALES[after.core]} {names[1]}", 1)
    return Said(_coins(amount, names))


def _coins(amount: str, names: tuple[str, str, str, str]) -> str:
    one, many, cent, cents = names
    whole, _, part = amount.partition(".")
    if not cent or len(part) != 2:
        return f"{amount} {one if amount == '1' else many}"
    small = f"{int(part)} {cent if part == '01' else cents}"
    if not whole.strip("0,") and int(part):
        return small
    large = f"{whole} {one if whole == '1' else many}"
    return f"{large} and {small}" if int(part) else large


def measure(core: str, place: Place) -> Said | None:
    """A number and its unit, with or without a space: ``5 km``, ``3GHz``, ``20 EUR``, ``5k``."""
    joined = _MEASURE.fullmatch(core)
    if joined and joined[2] in _UNITS:
        # Percent is read well as it is.
        return None if joined[2] == "%" else Said(_count(joined[1], _UNITS[joined[2]]))
    scaled = _SCALED.fullmatch(core)
    if scaled:
        number, scale = (scaled[1], scaled[2]) if scaled[1] else (scaled[3], scaled[4])
        return Said(f"{number} {_SCALES[scale]}")
    if not _PLAIN.fullmatch(core):
        return None
    after = place.next()
    if after is None:
        return None
    if after.core in _CODES:
        return Said(_coins(core, _CODES[after.core]), 1)
    if after.core in _UNITS and after.core not in _JOINED_ONLY:
        tail = stop(place, after, 1) if after.core in _STOPPED else after.tail
        return Said(_count(core, _UNITS[after.core]), 1, tail)
    return None


def _count(number: str, unit: tuple[str, str]) -> str:
    return f"{number} {unit[0] if number == '1' else unit[1]}"


def span(left: str, right: str) -> str | None:
    """From one sum of money to another: ``$10`` and ``20``, ``$10`` and ``$20``."""
    first = _MARKED.fullmatch(left)
    if not first or first["scale"]:
        return None
    mark = first["mark"]
    second = _MARKED.fullmatch(right if right.startswith(mark) else mark + right)
    if not second:
        return None
    scale = f"{_SCALES[second['scale']]} " if second["scale"] else ""
    if not scale and "." in right:
        return None
    return f"{first['sum']} to {second['sum']} {scale}{_MONEY[mark][1]}"
