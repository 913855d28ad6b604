# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false
"""What a model may write where it calls functions, as vLLM's structural tags: pure.

A structural tag says what has to stand between two marks. vLLM masks every token that
would break it, so that calls always have a name on offer and arguments of its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..deployment import ToolDialect
from ..tools import ToolChoice

LENGTHS = 1024
"""Bounds of lengths above this are not enforced: few answers are longer, and a grammar
counts them out one by one."""

BLANKS = 1
"""White space between two parts of the arguments; without a bound a small model may
write nothing else."""

_LENGTH_KEYS = frozenset(
    "minLength maxLength minItems maxItems minProperties maxProperties".split()
)
_VALUE_KEYS = frozenset("enum const default examples".split())
"""What is under these is no schema."""


def constrain(
    schemas: Mapping[str, dict[str, Any]], choice: ToolChoice, dialect: ToolDialect
) -> str:
    """The structural tag of an answer that may call these functions, as JSON.

    ``schemas``: of the arguments, by the names of the functions that may be called.
    """
    tags = [_tag(name, schema, dialect) for name, schema in schemas.items()]
    if choice.mode == "function":
        form: dict[str, Any] = tags[0]
    elif choice.mode == "required":
        form = {
            "type": "tags_with_separator",
            "tags": tags,
            "separator": "\n",
            "at_least_one": True,
        }
    else:
        form = {"type": "triggered_tags", "triggers": [dialect.start], "tags": tags}
    return msgspec.json.encode({"type": "structural_tag", "format": form}).decode()


def enforced(schema: dict[str, Any]) -> dict[str, Any]:
    """The part of a schema that a grammar is made of."""
    if not schema:
        # A function that says nothing of arguments has none.
        return {"type": "object", "properties": {}, "additionalProperties": False}
    return {"type": "object", **_loosened(schema)}


def _tag(name: str, schema: dict[str, Any], dialect: ToolDialect) -> dict[str, Any]:
    head = f'{{"{dialect.name_key}": "{name}", "{dialect.arguments_key}": '
    return {
        "type": "tag",
        "begin": f"{dialect.start}\n{head}",
        "content": {
            "type": "json_schema",
            "json_schema": enforced(schema),
            "max_whitespace_cnt": BLANKS,
        },
        "end": f"}}\n{dialect.end}",
    }


def _loosened(value: Any) -> Any:
    if isinstance(value, list):
        return [_loosened(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: each if key in _VALUE_KEYS else _loosened(each)
        for key, each in value.items()
        if not (key in _LENGTH_KEYS and isinstance(each, (int, float)) and each > LENGTHS)
    }
