# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingImports=false
"""What a model may write where it calls functions: as the library that enforces it reads it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from antiphon.engines.deployment import ToolDialect
from antiphon.engines.text.tool_grammar import constrain, enforced
from antiphon.engines.tools import ToolChoice, ToolMode

HERMES = ToolDialect()
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 7}},
    "required": ["city"],
}
SCHEMAS: dict[str, dict[str, Any]] = {"get_weather": CITY, "get_time": {}}


def form(mode: ToolMode, **schemas: dict[str, Any]) -> dict[str, Any]:
    tag = json.loads(constrain(schemas or SCHEMAS, ToolChoice(mode=mode), HERMES))
    assert tag["type"] == "structural_tag"
    made: dict[str, Any] = tag["format"]
    return made


def test_one_function_is_one_call_and_nothing_else() -> None:
    made = form("function", get_weather=CITY)
    assert made["type"] == "tag"
    assert made["begin"] == '<tool_call>\n{"name": "get_weather", "arguments": '
    assert made["end"] == "}\n</tool_call>"
    assert made["content"]["json_schema"] == CITY


def test_required_is_at_least_one_call_of_any() -> None:
    made = form("required")
    assert made["type"] == "tags_with_separator"
    assert made["at_least_one"]
    assert len(made["tags"]) == 2


def test_auto_is_free_up_to_the_mark() -> None:
    made = form("auto")
    assert made["type"] == "triggered_tags"
    assert made["triggers"] == ["<tool_call>"]
    assert len(made["tags"]) == 2


def test_the_marks_are_the_dialects() -> None:
    dialect = ToolDialect(start="[C]", end="[/C]", name_key="fn", arguments_key="args")
    text = constrain({"f": {}}, ToolChoice(mode="function", name="f"), dialect)
    assert json.loads(text)["format"]["begin"] == '[C]\n{"fn": "f", "args": '


@pytest.mark.parametrize(
    ("given_", "made"),
    [
        ({}, {"type": "object", "properties": {}, "additionalProperties": False}),
        ({"properties": {}}, {"type": "object", "properties": {}}),
        (CITY, CITY),
        (
            {"properties": {"a": {"maxLength": 10**6, "minLength": 2}}},
            {"type": "object", "properties": {"a": {"minLength": 2}}},
        ),
        # A property may be called what a keyword is, and a value may look like a schema.
        (
            {"properties": {"maxLength": {"enum": [{"maxLength": 10**6}]}}},
            {"type": "object", "properties": {"maxLength": {"enum": [{"maxLength": 10**6}]}}},
        ),
    ],
)
def test_what_is_enforced_of_a_schema(given_: dict[str, Any], made: dict[str, Any]) -> None:
    assert enforced(given_) == made


END = 127
"""The token of the end."""


@cache
def compiler() -> Any:
    """Of a model that has a token a character, and one for the end."""
    import xgrammar

    vocabulary = [chr(n) for n in range(1, END + 1)] + ["<end>"]
    tokens = xgrammar.TokenizerInfo(vocabulary, stop_token_ids=[END])
    return xgrammar.GrammarCompiler(tokens, max_threads=1)


def accepts(mode: ToolMode, text: str, **schemas: dict[str, Any]) -> bool:
    """Whether a model may write this and stop."""
    import xgrammar

    constraint = constrain(schemas or SCHEMAS, ToolChoice(mode=mode), HERMES)
    matcher: Any = xgrammar.GrammarMatcher(compiler().compile_structural_tag(constraint))
    return bool(matcher.accept_string(text) and matcher.accept_token(END))


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


WEATHER = call("get_weather", '{"city": "Oslo", "days": 3}')
TIME = call("get_time", "{}")


@pytest.mark.parametrize("text", [WEATHER, TIME, f"{TIME}\n{WEATHER}\n{TIME}"])
def test_calls_that_are_allowed_where_one_is_required(text: str) -> None:
    assert accepts("required", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello.",
        f"Hello. {TIME}",
        f"{TIME} Done.",
        TIME.removesuffix("</tool_call>"),
        call("rm", "{}"),
        call("get_time", '{"a": 1}'),
        call("get_time", "1"),
        call("get_weather", "{}"),
        call("get_weather", '{"city": 5}'),
        call("get_weather", '{"city": "Oslo", "days": 8}'),
        call("get_weather", '{"city": "Oslo", "other": 8}'),
        call("get_weather", '{"city":     "Oslo"}'),
    ],
)
def test_what_is_not_allowed_where_a_call_is_required(text: str) -> None:
    assert not accepts("required", text)


def test_one_function_is_called_once() -> None:
    assert accepts("function", TIME, get_time={})
    assert not accepts("function", f"{TIME}\n{TIME}", get_time={})
    assert not accepts("function", WEATHER, get_time={})


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("Hello. How are <you>?", True),
        ("", True),
        (f"Let me see. {TIME} And {WEATHER}\nDone.", True),
        (f"Let me see. {call('rm', '{}')}", False),
        ("<tool_call>nothing", False),
    ],
)
def test_text_is_free_where_calls_are_not_required(text: str, allowed: bool) -> None:
    assert accepts("auto", text) == allowed
