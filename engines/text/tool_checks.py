# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false
"""Whether the functions that a client offers can be used: bounds and shape, no model needed."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..chunks import StageError
from ..stage import StageFailure
from ..tools import Tool, ToolChoice, callable_tools
from .json_values import nests_deeper

TOOLS = 128
"""Functions of one request."""

TOOL_BYTES = 64 * 1024
"""Names, descriptions and schemas of one request; far more than small contexts hold."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

DEPTH = 32
"""How deep a schema may nest."""

PATTERN_CHARS = 1024
"""Of all regular expressions in one schema: each of them can take a millisecond a
character to be made into a grammar."""

REPEATS = 1000
"""Of one expression; ``.{0,100000}`` alone takes six seconds."""

_REPEAT = re.compile(r"\{\s*(\d*)\s*,?\s*(\d*)\s*\}")


def check_choice(tools: tuple[Tool, ...], choice: ToolChoice) -> None:
    """Refuse a choice that nothing on offer can meet.

    Raises:
        StageFailure: with the code ``invalid_value``; the message names ``tool_choice``.
    """
    if choice.mode in ("required", "function") and not callable_tools(tools, choice):
        wanted = f"no tool is called {choice.name!r}" if choice.name else "there are no tools"
        raise refused("tool_choice", wanted)


def check_tools(tools: tuple[Tool, ...]) -> list[dict[str, Any]]:
    """The schemas of the tools' arguments, in their order, each of an object.

    Raises:
        StageFailure: with the code ``invalid_value``; the message names the field.
    """
    if len(tools) > TOOLS:
        raise refused("tools", f"expected at most {TOOLS}, got {len(tools)}")
    size = sum(_size(tool) for tool in tools)
    if size > TOOL_BYTES:
        raise refused("tools", f"expected at most {TOOL_BYTES} bytes in all, got {size}")
    names: set[str] = set()
    for n, tool in enumerate(tools):
        if not NAME.fullmatch(tool.name):
            raise refused(f"tools[{n}].name", "expected 1 to 64 of A-Z, a-z, 0-9, _ and -")
        if tool.name in names:
            raise refused(f"tools[{n}].name", f"{tool.name!r} is the name of two tools")
        names.add(tool.name)
    return [_schema(f"tools[{n}].parameters", tool) for n, tool in enumerate(tools)]


def refused(field: str, problem: str) -> StageFailure:
    """What a reply fails with because of the client's own input."""
    return StageFailure(StageError("invalid_value", f"{field}: {problem}"))


def _size(tool: Tool) -> int:
    texts = (tool.name, tool.description, tool.parameters)
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def _schema(field: str, tool: Tool) -> dict[str, Any]:
    try:
        schema: Any = msgspec.json.decode(tool.parameters)
    except (msgspec.DecodeError, RecursionError):
        raise refused(field, "expected JSON") from None
    if not isinstance(schema, dict):
        raise refused(field, "expected a JSON Schema, which is an object")
    if nests_deeper(schema, DEPTH):
        raise refused(field, f"expected at most {DEPTH} levels")
    found: dict[str, Any] = schema
    if found.get("type", "object") != "object":
        raise refused(field, 'expected "type": "object"')
    _check_patterns(field, found)
    return found


def _check_patterns(field: str, schema: dict[str, Any]) -> None:
    patterns = list(_patterns(schema))
    if sum(map(len, patterns)) > PATTERN_CHARS:
        raise refused(field, f"expected at most {PATTERN_CHARS} characters of patterns in all")
    for pattern in patterns:
        bounds = [int(n) for found in _REPEAT.findall(pattern) for n in found if n]
        if any(bound > REPEATS for bound in bounds):
            raise refused(field, f"expected a pattern to repeat at most {REPEATS} times")


def _patterns(value: Any) -> list[str]:
    """Every regular expression in a schema, and what only looks like one."""
    if isinstance(value, list):
        return [each for inner in value for each in _patterns(inner)]
    if not isinstance(value, dict):
        return []
    found = [value["pattern"]] if isinstance(value.get("pattern"), str) else []
    named = value.get("patternProperties")
    found += list(named) if isinstance(named, dict) else []
    return found + [each for inner in value.values() for each in _patterns(inner)]
