"""What becomes of messages that can't be understood or followed: errors that name a member."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from ..sessions.errors import ErrorInfo, Refusal


class Refused(Exception):
    """A message that says nothing we can do; ``error`` tells the client why."""

    def __init__(self, error: ErrorInfo) -> None:
        super().__init__(error.message)
        self.error = error


def missing(param: str) -> Refusal:
    """Return the refusal of a message that lacks ``param``."""
    return Refusal("missing_required_parameter", f"Missing required parameter: '{param}'.", param)


def not_one_of(param: str, value: str, allowed: Iterable[str]) -> Refusal:
    """Return the refusal of ``value``, which is not among the ``allowed``."""
    names = ", ".join(f"'{name}'" for name in allowed)
    return Refusal(
        "invalid_value", f"Invalid value for '{param}': '{value[:64]}'. Allowed: {names}.", param
    )


def not_served(param: str, what: str) -> Refusal:
    """Return the refusal of something that the protocol has and this server lacks."""
    return Refusal("unsupported_value", f"{param}: {what}", param)


def wrong_type(error: msgspec.ValidationError, event_id: str | None, root: str = "") -> ErrorInfo:
    """Return what to tell of a member that is missing or has the wrong type.

    ``root`` is the path of the part that was read, where that was not the whole message.
    """
    what, param = located(error)
    param = ".".join(filter(None, [root, param]))
    if absent := re.fullmatch(r"Object missing required field `(.+)`", what):
        param = ".".join(filter(None, [param, absent[1]]))
        return missing(param).info(event_id)
    message = f"Invalid value for '{param}': {what[0].lower()}{what[1:]}."
    return ErrorInfo("invalid_value", message, param or None, event_id)


def located(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return what is wrong, and where as a dotted path."""
    what, _, where = str(error).partition(" - at `$")
    return what, where.rstrip("`").lstrip(".")
