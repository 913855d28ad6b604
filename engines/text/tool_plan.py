"""What a request's functions mean for its prompt, and for what the model may write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..deployment import ToolDialect
from ..pipeline import Message
from ..tools import Tool, ToolChoice, callable_tools
from .prompt import CountCache
from .tool_checks import check_choice, check_tools, refused
from .tool_grammar import constrain
from .tool_parser import ToolParser
from .vllm_engine import TextEngine

_ANYTHING = (Message("user", "Hi"),)


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """How the functions of one request are shown, and how its calls are made."""

    shown: tuple[Tool, ...] = ()
    """All that are on offer, also where one is chosen: so that a prompt stays the same."""

    tokens: int = 0
    """What showing them takes of the context."""

    constraint: str | None = None
    new_parser: Callable[[], ToolParser] | None = None
    """``None`` where the model's text is only text."""


class ToolPlanner:
    """Checks each set of functions once, and remembers how long it is."""

    def __init__(self, engine: TextEngine, dialect: ToolDialect) -> None:
        self._engine = engine
        self._dialect = dialect
        self._known = CountCache(len)

    def plan(self, tools: tuple[Tool, ...], choice: ToolChoice) -> ToolPlan:
        """The plan of a request; takes milliseconds a tool when they are new.

        Raises:
            StageFailure: with the code ``invalid_value``; the message names the field.
        """
        if choice.mode == "none":
            return ToolPlan()
        check_choice(tools, choice)
        if not tools:
            return ToolPlan()
        schemas = dict(zip((tool.name for tool in tools), check_tools(tools), strict=True))
        names = [tool.name for tool in callable_tools(tools, choice)]
        constraint = constrain({name: schemas[name] for name in names}, choice, self._dialect)
        tokens = self._known.remember(hash(tools), lambda: self._measure(tools, schemas))
        dialect, offered, only_calls = self._dialect, frozenset(names), choice.mode != "auto"
        return ToolPlan(
            tools, tokens, constraint, lambda: ToolParser(dialect, offered, only_calls=only_calls)
        )

    def _measure(self, tools: tuple[Tool, ...], schemas: dict[str, dict[str, Any]]) -> int:
        """The tokens that all of them take, once each is known to be enforceable."""
        for n, (name, schema) in enumerate(schemas.items()):
            alone = constrain({name: schema}, ToolChoice(mode="function", name=name), self._dialect)
            if (problem := self._engine.problem_of(alone)) is not None:
                raise refused(f"tools[{n}].parameters", f"can't be enforced: {problem}")
        render = self._engine.render
        return len(render(_ANYTHING, tools)) - len(render(_ANYTHING))
