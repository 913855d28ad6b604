"""Where a JSON value ends that arrives character by character: pure.

Not a validator: it follows strings and brackets closely enough to find the end, and
tells as soon as what it sees can't be JSON any more.
"""

from __future__ import annotations

from enum import Enum
from typing import cast

_CLOSERS = {"{": "}", "[": "]"}
_SPACE = " \t\r\n"
_BARE = frozenset("0123456789+-.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""Of numbers, ``true``, ``false`` and ``null``."""


class Step(Enum):
    """What a character did."""

    GOES_ON = "goes on"
    ENDS = "ends"
    """It is the value's last."""

    ENDED_BEFORE = "ended before"
    """It is not of the value any more, which only a bare word or number leaves open."""

    BREAKS = "breaks"
    """It can't stand here in any value."""


class ValueScanner:
    """Follows one value, from its first character on."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._in_string = False
        self._escaped = False
        self._bare = False

    def feed(self, char: str) -> Step:
        """Take the next character; not to be called after the value's end."""
        if self._in_string:
            return self._string_char(char)
        if not self._open and self._bare:
            return Step.GOES_ON if char in _BARE else Step.ENDED_BEFORE
        if char == '"':
            self._in_string = True
        elif char in _CLOSERS:
            self._open.append(_CLOSERS[char])
        elif self._open and char == self._open[-1]:
            self._open.pop()
            return Step.GOES_ON if self._open else Step.ENDS
        elif self._open and char in ",:" + _SPACE:
            return Step.GOES_ON
        elif char in _BARE:
            self._bare = not self._open
        else:
            return Step.BREAKS
        return Step.GOES_ON

    def _string_char(self, char: str) -> Step:
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._in_string = False
            return Step.GOES_ON if self._open else Step.ENDS
        return Step.GOES_ON


def nests_deeper(value: object, limit: int) -> bool:
    """Whether lists and objects are in each other more than ``limit`` deep."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in _members(cast("dict[str, object] | list[object]", each))
        ]
        if not level:
            return False
    return True


def _members(value: dict[str, object] | list[object]) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else value
