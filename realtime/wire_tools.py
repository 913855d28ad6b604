"""Functions that a client offers, and what has to be done with them: from and to the wire."""

from __future__ import annotations

from typing import Any

import msgspec

from ..sessions.errors import Refusal
from ..sessions.tools import Tool, ToolChoice, ToolMode
from .client_messages import ToolChoiceIn, ToolIn
from .dialect import Dialect
from .refusals import missing, not_one_of, not_served

MAX_TOOLS_CHARS = 256 * 1024
"""Names, descriptions and schemas of all functions together."""

_MODES = {mode.value: mode for mode in (ToolMode.AUTO, ToolMode.NONE, ToolMode.REQUIRED)}

_NO_MCP = "'mcp' is not served here. Allowed: 'function'."


def tools(offered: list[ToolIn], param: str) -> tuple[Tool, ...]:
    """Return the functions of a list of tools.

    Raises:
        Refusal: one is no function, or lacks a name, or they are too long.
    """
    made = tuple(_tool(each, f"{param}[{index}]") for index, each in enumerate(offered))
    if sum(len(t.name) + len(t.description) + len(t.parameters) for t in made) > MAX_TOOLS_CHARS:
        raise Refusal(
            "string_above_max_length",
            f"{param} may have at most {MAX_TOOLS_CHARS} characters in all.",
            param,
        )
    return made


def _tool(tool: ToolIn, param: str) -> Tool:
    if tool.type == "mcp":
        raise not_served(f"{param}.type", _NO_MCP)
    if tool.type not in (None, "function"):
        raise not_one_of(f"{param}.type", tool.type, ["function"])
    if tool.name is None:
        raise missing(f"{param}.name")
    return Tool(
        name=tool.name,
        description=tool.description or "",
        parameters=msgspec.json.encode(tool.parameters or {}).decode(),
    )


def tool_choice(choice: str | ToolChoiceIn, param: str, dialect: Dialect) -> ToolChoice:
    """Return what a client wants done with its tools.

    Raises:
        Refusal: it is nothing that can be done.
    """
    if isinstance(choice, str):
        if (mode := _MODES.get(choice)) is not None:
            return ToolChoice(mode=mode)
        if dialect is Dialect.BETA:
            return ToolChoice(mode=ToolMode.FUNCTION, name=choice)
        raise not_one_of(param, choice, _MODES)
    if choice.type == "mcp":
        raise not_served(f"{param}.type", _NO_MCP)
    if choice.type != "function":
        raise not_one_of(f"{param}.type", choice.type, ["function"])
    if choice.name is None:
        raise missing(f"{param}.name")
    return ToolChoice(mode=ToolMode.FUNCTION, name=choice.name)


def tool_json(tool: Tool) -> dict[str, Any]:
    """Return a function as a client is told of it."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": msgspec.json.decode(tool.parameters),
    }


def tool_choice_json(choice: ToolChoice) -> str | dict[str, Any]:
    """Return a choice as a client gives it."""
    if choice.mode is ToolMode.FUNCTION:
        return {"type": "function", "name": choice.name}
    mode: str = choice.mode.value
    return mode
