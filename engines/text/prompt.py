"""Fitting a conversation into a model's context: pure, given a count of tokens.

The system messages and the last question always stay. Of the turns before it the
oldest are left out, in steps rather than one by one: with every answer the prompt would
otherwise begin with another turn, and a prefix cache could never reuse any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..pipeline import Message

STEPS = 4
"""Turns are left out a quarter of the room at a time: a prompt keeps three quarters of
what would fit, and its beginning stays the same until another quarter has been said."""

CHARS_PER_TOKEN = 16
"""More characters than a token has on average in any running text. What is longer than
this many times the budget is cut before it is counted, so that counting stays cheap."""

Count: TypeAlias = Callable[[str], int]
"""Tokens of a message with this text, the marks of its role included; a text never
counts less than a part of it."""


def fit_messages(messages: Sequence[Message], budget: int, count: Count) -> tuple[Message, ...]:
    """The messages to show to the model, in order, of at most ``budget`` tokens in all.

    The last user message is cut from its front where it alone is too long, system
    messages from their end; one that has no room for any text is left out.
    """
    texts = [_bounded(message, budget) for message in messages]
    costs = [count(message.text) for message in texts]
    if sum(costs) <= budget:
        return tuple(texts)
    asked = _last_question(texts)
    question = sum(costs[i] for i in asked)
    systems = [i for i, message in enumerate(texts) if message.role == "system"]
    kept = _cut_systems(texts, systems, max(budget // 2, budget - question), count)
    room = budget - sum(count(message.text) for message in kept.values())
    kept |= _keep_turns(texts, costs, asked, room, count)
    return tuple(kept[i] for i in sorted(kept))


def _bounded(message: Message, budget: int) -> Message:
    limit = max(1, budget) * CHARS_PER_TOKEN
    if len(message.text) <= limit:
        return message
    front = message.role == "system"
    return replace(message, text=message.text[:limit] if front else message.text[-limit:])


def _last_question(messages: Sequence[Message]) -> list[int]:
    """The index of the last user message, in a list; empty where there is none."""
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    return users[-1:]


def _cut_systems(
    messages: Sequence[Message], systems: Sequence[int], room: int, count: Count
) -> dict[int, Message]:
    """The system messages that fit into ``room``, the first ones first."""
    kept: dict[int, Message] = {}
    for i in systems:
        text = messages[i].text
        if (head := _longest(text, room, count, _head)) is not None:
            kept[i] = replace(messages[i], text=head)
            room -= count(head)
    return kept


def _keep_turns(
    messages: Sequence[Message], costs: Sequence[int], asked: list[int], room: int, count: Count
) -> dict[int, Message]:
    """The newest turns of at most ``room`` tokens, with the last question among them."""
    turns = [i for i, message in enumerate(messages) if message.role != "system"]
    question = sum(costs[i] for i in asked)
    if question > room:
        return _cut_question(messages, asked, room, count)
    excess = sum(costs[i] for i in turns) - room
    step = max(1, (room - question) // STEPS)
    drop = -(-max(0, excess) // step) * step
    return {i: messages[i] for i in _newest(turns, costs, asked, drop)}


def _newest(turns: list[int], costs: Sequence[int], asked: list[int], drop: int) -> list[int]:
    """The turns that are left when at least ``drop`` tokens of the oldest are gone."""
    kept = list(turns)
    for i in turns:
        if drop <= 0:
            break
        if i not in asked:
            kept.remove(i)
            drop -= costs[i]
    return kept


def _cut_question(
    messages: Sequence[Message], asked: list[int], room: int, count: Count
) -> dict[int, Message]:
    kept: dict[int, Message] = {}
    for i in asked:
        if (tail := _longest(messages[i].text, room, count, _tail)) is not None:
            kept[i] = replace(messages[i], text=tail)
    return kept


def _head(text: str, size: int) -> str:
    return text[:size]


def _tail(text: str, size: int) -> str:
    return text[len(text) - size :]


def _longest(text: str, room: int, count: Count, part: Callable[[str, int], str]) -> str | None:
    """The longest part of ``text`` that fits; ``None`` where nothing of it does."""
    low, high = -1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = count(part(text, middle)) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    return part(text, low) if low > 0 or (low == 0 and not text) else None


class CountCache:
    """Remembers counts, as a conversation is counted again with every turn.

    By hash and length, not by text: the cache must not be what keeps a conversation in
    memory after its session.
    """

    SIZE = 4096
    """Messages; twice what a session may hold, at about 100 bytes each."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._known: dict[tuple[int, int], int] = {}

    def __call__(self, text: str) -> int:
        """The count of ``text``, made once."""
        key = (hash(text), len(text))
        if key not in self._known:
            if len(self._known) >= self.SIZE:
                self._known.pop(next(iter(self._known)))
            self._known[key] = self._count(text)
        return self._known[key]
