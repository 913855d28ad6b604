"""Functions that a model may call: what is offered, what is chosen, what was called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ToolMode: TypeAlias = Literal["auto", "none", "required", "function"]
"""``required``: at least one call; ``function``: exactly one call, of the function named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function on offer."""

    name: str
    description: str = ""
    parameters: str = "{}"
    """JSON Schema of the arguments, as JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """What the model has to do with its tools."""

    mode: ToolMode = "auto"
    name: str | None = None
    """The function, where the mode is ``function``."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that an assistant made earlier in the conversation."""

    call_id: str
    name: str
    arguments: str
    """JSON text as the model wrote it; need not be valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """What happens when a conversation does not fit into the model's context."""

    mode: Literal["auto", "disabled", "retention_ratio"] = "auto"
    """``auto``: the oldest messages are left out. ``disabled``: the reply fails with the
    code ``context_length_exceeded``. ``retention_ratio``: the oldest are left out until
    ``retention_ratio`` of the room is filled."""

    retention_ratio: float = 1.0
    post_instructions: int | None = None
    """Tokens that messages may have beside the instructions; ``None`` for what fits."""


def callable_tools(tools: tuple[Tool, ...], choice: ToolChoice) -> tuple[Tool, ...]:
    """The functions that may be called."""
    if choice.mode == "none":
        return ()
    if choice.mode == "function":
        return tuple(tool for tool in tools if tool.name == choice.name)
    return tools
