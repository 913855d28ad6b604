# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""A conversation as a model reads it: its chat template, functions, and no forged marks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ..deployment import ToolDialect
from ..pipeline import Message
from ..tools import Call, Tool
from .json_values import nests_deeper

DEPTH = 64
"""Arguments that nest deeper are shown as a string."""

_SHOWN_MARKS = ("<tools>", "</tools>", "<tool_response>", "</tool_response>")
"""What :meth:`Chat._in_words` and the templates of Hermes and Qwen put around things."""


class Chat:
    """Turns conversations into tokens, by the template of a tokenizer.

    A template that knows of functions is given them. For any other they are described in
    the system message, and calls and their outputs are written as the dialect has it.
    """

    def __init__(self, tokenizer: Any, dialect: ToolDialect) -> None:
        """``tokenizer``: of transformers, with a chat template."""
        self._tokenizer = tokenizer
        self._dialect = dialect
        self._marks = _marks_of(tokenizer, dialect)
        self._knows_tools = "tools" in str(tokenizer.get_chat_template(tools=[{}]) or "")

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._tokenizer.encode(self._plain(text), add_special_tokens=False))

    def render(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """The tokens of a conversation, up to where the assistant is to speak."""
        offered = [self._offer(tool) for tool in tools]
        turns = [self._turn(message) for message in messages]
        if not self._knows_tools:
            turns, offered = self._in_words(turns, offered), []
        text: str = self._tokenizer.apply_chat_template(
            turns, tools=offered or None, tokenize=False, add_generation_prompt=True
        )
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _plain(self, text: str) -> str:
        # What a person says must not open or close a turn. With a space instead of
        # nothing, the pieces around a mark can't join to another one.
        return self._marks.sub(" ", text)

    def _plain_value(self, value: Any) -> Any:
        """The same for every string in what JSON stands for."""
        if isinstance(value, str):
            return self._plain(value)
        if isinstance(value, list):
            return [self._plain_value(each) for each in value]
        if isinstance(value, dict):
            return {self._plain(key): self._plain_value(each) for key, each in value.items()}
        return value

    def _offer(self, tool: Tool) -> dict[str, Any]:
        described = {
            "name": self._plain(tool.name),
            "description": self._plain(tool.description),
            "parameters": self._plain_value(_value(tool.parameters)),
        }
        return {"type": "function", "function": described}

    def _turn(self, message: Message) -> dict[str, Any]:
        turn: dict[str, Any] = {"role": message.role, "content": self._plain(message.text)}
        if message.calls:
            turn["tool_calls"] = [self._call(call) for call in message.calls]
        if message.role == "tool":
            turn["tool_call_id"] = self._plain(message.call_id or "")
        return turn

    def _call(self, call: Call) -> dict[str, Any]:
        function = {
            "name": self._plain(call.name),
            "arguments": self._plain_value(_value(call.arguments)),
        }
        return {"type": "function", "id": self._plain(call.call_id), "function": function}

    def _in_words(
        self, turns: list[dict[str, Any]], offered: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """The turns with functions, calls and outputs written out, for a plain template."""
        out: list[dict[str, Any]] = []
        if offered:
            out.append({"role": "system", "content": self._instructions(offered)})
        for turn in turns:
            role, text = turn["role"], turn["content"]
            calls = [self._written(call["function"]) for call in turn.get("tool_calls", ())]
            if role == "tool":
                role, text = "user", f"<tool_response>\n{text}\n</tool_response>"
            written = "\n".join(filter(None, [text, *calls])) if calls else text
            joins = turn["role"] == "tool" or calls or (role == "system" and offered)
            if joins and out and out[-1]["role"] == role:
                # Templates may want user and assistant in turns, and one system message.
                before = out[-1]["content"]
                front = role == "system"
                both = [written, before] if front else [before, written]
                written = ("\n\n" if front else "\n").join(filter(None, both))
                out.pop()
            out.append({"role": role, "content": written})
        return out

    def _instructions(self, offered: list[dict[str, Any]]) -> str:
        dialect = self._dialect
        listed = "\n".join(_json(each) for each in offered)
        shape = (
            f'{{"{dialect.name_key}": <name of the function>, '
            f'"{dialect.arguments_key}": <its arguments as JSON>}}'
        )
        return (
            "You can call functions. They are described here, one a line:\n"
            f"<tools>\n{listed}\n</tools>\n"
            "To call one, write this and nothing after it:\n"
            f"{dialect.start}\n{shape}\n{dialect.end}"
        )

    def _written(self, function: dict[str, Any]) -> str:
        dialect = self._dialect
        keys = {
            dialect.name_key: function["name"],
            dialect.arguments_key: function["arguments"],
        }
        return f"{dialect.start}\n{_json(keys)}\n{dialect.end}"


def shown_call(call: Call) -> str:
    """What of a call is its own in a prompt, as it is written there: for counting."""
    return f"{call.call_id} {call.name} {_json(_value(call.arguments))}"


def _value(text: str) -> Any:
    """What JSON text stands for, or the text itself where it is none, or nests too deep."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return text if nests_deeper(value, DEPTH) else value


def _json(value: Any) -> str:
    # As the templates write it, so that counts agree.
    return json.dumps(value, ensure_ascii=False)


def _marks_of(tokenizer: Any, dialect: ToolDialect) -> re.Pattern[str]:
    """Matches every mark that means something to the model or to the reader of its text."""
    added = tokenizer.added_tokens_decoder.values()
    special = [token.content for token in added if token.special]
    marks = {*special, dialect.start, dialect.end, *_SHOWN_MARKS}
    # The longest first: one that another begins with must not leave the other's rest.
    ordered = sorted(marks, key=lambda mark: (-len(mark), mark))
    return re.compile("|".join(re.escape(mark) for mark in ordered if mark))
