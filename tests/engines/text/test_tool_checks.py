"""Which functions a client may offer, and what is said of those it may not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.engines.stage import StageFailure
from antiphon.engines.text.tool_checks import (
    DEPTH,
    PATTERN_CHARS,
    TOOL_BYTES,
    TOOLS,
    check_choice,
    check_tools,
)
from antiphon.engines.tools import Tool, ToolChoice

PLAIN = Tool(name="f")


def of(schema: object) -> Tool:
    return Tool(name="f", parameters=json.dumps(schema))


def text_with(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string", **keywords}}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": schema}
    return schema


def test_schemas_are_returned_in_order() -> None:
    tools = (PLAIN, Tool(name="g", parameters=json.dumps(text_with())))
    assert check_tools(tools) == [{}, text_with()]


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ((PLAIN,) * (TOOLS + 1), f"tools: expected at most {TOOLS}, got {TOOLS + 1}"),
        ((Tool(name="f", description="x" * TOOL_BYTES),), "tools: expected at most 65536 bytes"),
        ((Tool(name="f g"),), r"tools\[0\].name: expected 1 to 64"),
        ((PLAIN, Tool(name="")), r"tools\[1\].name"),
        ((Tool(name="x" * 65),), r"tools\[0\].name"),
        ((PLAIN, PLAIN), r"tools\[1\].name: 'f' is the name of two tools"),
        ((Tool(name="f", parameters="{"),), r"tools\[0\].parameters: expected JSON"),
        ((Tool(name="f", parameters="[" * 9000),), r"tools\[0\].parameters: expected JSON"),
        ((of([]),), r"tools\[0\].parameters: .*an object"),
        ((of({"type": "string"}),), r'tools\[0\].parameters: expected "type": "object"'),
        ((of(nested(DEPTH + 1)),), rf"tools\[0\].parameters: expected at most {DEPTH} levels"),
        ((of(text_with(pattern="x" * (PATTERN_CHARS + 1))),), r"tools\[0\].parameters: .*patterns"),
        ((of(text_with(pattern=".{0,100000}")),), r"tools\[0\].parameters: .*repeat"),
        ((of(text_with(pattern="(a{2000})*")),), r"tools\[0\].parameters: .*repeat"),
        ((of({"patternProperties": {"a{9,2000}": {}}}),), r"tools\[0\].parameters: .*repeat"),
    ],
)
def test_what_is_refused(tools: tuple[Tool, ...], message: str) -> None:
    with pytest.raises(StageFailure, match="invalid_value: " + message):
        check_tools(tools)


def test_the_deepest_schema_that_is_allowed() -> None:
    assert check_tools((of(nested(DEPTH)),)) == [nested(DEPTH)]


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ((), ToolChoice()),
        ((), ToolChoice(mode="none")),
        ((PLAIN,), ToolChoice(mode="required")),
        ((PLAIN,), ToolChoice(mode="function", name="f")),
    ],
)
def test_choices_that_can_be_met(tools: tuple[Tool, ...], choice: ToolChoice) -> None:
    check_choice(tools, choice)


def test_choices_that_cannot() -> None:
    with pytest.raises(StageFailure, match="tool_choice: there are no tools"):
        check_choice((), ToolChoice(mode="required"))
    with pytest.raises(StageFailure, match="tool_choice: no tool is called 'g'"):
        check_choice((PLAIN,), ToolChoice(mode="function", name="g"))
