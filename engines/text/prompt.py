"""Fitting a conversation into a model's context: pure, given a count of tokens.

The system messages and the last question always stay. Of the turns before it the
oldest are left out, in steps rather than one by one: with every answer the prompt would
otherwise begin with another turn, and a prefix cache could never reuse any of it.

A call and the outputs that answer it are one turn: they stay together or go together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..chunks import StageError
from ..pipeline import Message
from ..stage import StageFailure
from ..tools import Truncation
from .chat import shown_call

STEPS = 4
"""Turns are left out a quarter of the room at a time: a prompt keeps three quarters of
what would fit, and its beginning stays the same until another quarter has been said."""

CHARS_PER_TOKEN = 16
"""More characters than a token has on average in any running text. What is longer than
this many times the budget is cut before it is counted, so that counting stays cheap."""

CALL_TOKENS = 24
"""Allowance for the marks around a call, and the keys in it."""

Count: TypeAlias = Callable[[str], int]
"""Tokens of a message with this text, the marks of its role included; a text never
counts less than a part of it."""

_Turn: TypeAlias = tuple[int, ...]
"""The places of messages that stay or go together."""


class ContextExceeded(Exception):
    """A conversation is longer than its budget, and may not be shortened."""

    def __init__(self, needed: int, allowed: int) -> None:
        super().__init__(f"{needed} tokens, and {allowed} are allowed")
        self.needed = needed
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Fit:
    """What is shown to the model."""

    messages: tuple[Message, ...]
    dropped: int
    """How many messages were left out for want of room, system messages not counted."""


def fit_messages(
    messages: Sequence[Message], budget: int, count: Count, truncation: Truncation | None = None
) -> Fit:
    """The messages to show to the model, in order, of at most ``budget`` tokens in all.

    The last user message is cut from its front where it alone is too long, system
    messages and outputs of functions from their end; one that has no room for any text is
    left out. An output whose call is not among the messages is never shown.

    Raises:
        ContextExceeded: all of it does not fit, and ``truncation`` does not allow less.
    """
    rules = truncation or Truncation()
    turns = _turns(messages)
    shown = sorted({i for turn in turns for i in turn} | set(_systems(messages)))
    whole = rules.mode != "disabled"
    texts = [_bounded(each, budget, count) if whole else each for each in messages]
    costs = [_cost(message, budget, count) for message in texts]
    said = sum(costs[i] for turn in turns for i in turn)
    needed = sum(costs[i] for i in shown)
    limit = budget if rules.post_instructions is None else rules.post_instructions
    if needed <= budget and said <= limit:
        return Fit(tuple(texts[i] for i in shown), 0)
    if not whole:
        over = needed > budget
        raise ContextExceeded(needed if over else said, budget if over else limit)
    asked = _last_question(messages)
    question = sum(costs[i] for i in asked)
    kept = _cut_systems(texts, _systems(texts), max(budget // 2, budget - question), count)
    room = min(limit, budget - sum(count(message.text) for message in kept.values()))
    kept |= _keep_turns(texts, costs, turns, asked, room, count, rules)
    left = sum(messages[i].role != "system" for i in set(shown) - set(kept))
    return Fit(tuple(kept[i] for i in sorted(kept)), left)


def fit_or_refuse(
    messages: Sequence[Message], budget: int, count: Count, truncation: Truncation
) -> Fit:
    """As :func:`fit_messages`, for a stage.

    Raises:
        StageFailure: with the code ``context_length_exceeded`` and the numbers.
    """
    try:
        return fit_messages(messages, budget, count, truncation)
    except ContextExceeded as error:
        message = f"the conversation has about {error.needed} tokens beside its tools"
        raise too_long(f"{message}, and at most {error.allowed} are allowed") from None


def too_long(message: str) -> StageFailure:
    """What a reply fails with whose prompt does not fit into the context."""
    return StageFailure(StageError("context_length_exceeded", message))


def _turns(messages: Sequence[Message]) -> list[_Turn]:
    """What is said, oldest first: each message by itself, but a call with its outputs."""
    turns: list[list[int]] = []
    callers: dict[str, int] = {}
    for i, message in enumerate(messages):
        if message.role == "tool":
            if message.call_id in callers:
                turns[callers[message.call_id]].append(i)
        elif message.role != "system":
            callers |= {call.call_id: len(turns) for call in message.calls}
            turns.append([i])
    return [tuple(turn) for turn in turns]


def _systems(messages: Sequence[Message]) -> list[int]:
    return [i for i, message in enumerate(messages) if message.role == "system"]


def _last_question(messages: Sequence[Message]) -> list[int]:
    """The index of the last user message, in a list; empty where there is none."""
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    return users[-1:]


def _bounded(message: Message, budget: int, count: Count) -> Message:
    limit = max(1, budget) * CHARS_PER_TOKEN
    if len(message.text) > limit:
        tail = message.role not in ("system", "tool")
        text = message.text[-limit:] if tail else message.text[:limit]
        message = replace(message, text=text)
    if message.role == "tool" and count(message.text) > budget // 2:
        # An output that is too long is of more use in part than not at all.
        text = _longest(message.text, budget // 2, count, _head) or ""
        message = replace(message, text=text)
    return message


def _cost(message: Message, budget: int, count: Count) -> int:
    """Tokens of a message with its calls; arguments out of all bounds are not counted."""
    if sum(len(call.arguments) for call in message.calls) > max(1, budget) * CHARS_PER_TOKEN:
        return budget + 1
    calls = sum(count(shown_call(call)) + CALL_TOKENS for call in message.calls)
    return count(message.text) + calls


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
    messages: Sequence[Message],
    costs: Sequence[int],
    turns: Sequence[_Turn],
    asked: list[int],
    room: int,
    count: Count,
    rules: Truncation,
) -> dict[int, Message]:
    """The newest turns of at most ``room`` tokens, with the last question among them."""
    question = sum(costs[i] for i in asked)
    if question > room:
        return _cut_question(messages, asked, room, count)
    excess = sum(costs[i] for turn in turns for i in turn) - room
    if excess <= 0:
        drop = 0
    elif rules.mode == "retention_ratio":
        drop = excess + room - max(question, int(room * rules.retention_ratio))
    else:
        step = max(1, (room - question) // STEPS)
        drop = -(-excess // step) * step
    newest = _newest(turns, costs, asked, drop)
    return {i: messages[i] for turn in newest for i in turn}


def _newest(
    turns: Sequence[_Turn], costs: Sequence[int], asked: list[int], drop: int
) -> list[_Turn]:
    """The turns that are left when at least ``drop`` tokens of the oldest are gone."""
    kept = list(turns)
    for turn in turns:
        if drop <= 0:
            break
        if not set(turn) & set(asked):
            kept.remove(turn)
            drop -= sum(costs[i] for i in turn)
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
        self._known: dict[Hashable, int] = {}

    def __call__(self, text: str) -> int:
        """The count of ``text``, made once."""
        return self.remember((hash(text), len(text)), lambda: self._count(text))

    def remember(self, key: Hashable, make: Callable[[], int]) -> int:
        """The number of this key, made once."""
        if key not in self._known:
            if len(self._known) >= self.SIZE:
                self._known.pop(next(iter(self._known)))
            self._known[key] = make()
        return self._known[key]
