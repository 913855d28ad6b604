"""Functions that a model may call, and when it has to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ToolMode(Enum):
    """Whether a model calls functions."""

    AUTO = "auto"
    """It decides."""

    NONE = "none"
    """It may not."""

    REQUIRED = "required"
    """It has to call at least one, of its choice."""

    FUNCTION = "function"
    """It has to call the one that is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """What a model has to do with its tools."""

    mode: ToolMode = ToolMode.AUTO
    name: str | None = None
    """The function, where the mode is :attr:`ToolMode.FUNCTION`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that a client offers."""

    name: str
    description: str = ""
    parameters: str = "{}"
    """JSON Schema of the arguments, as JSON text: immutable, and never looked into here."""
