"""Fitting conversations into a context."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.pipeline import Message
from antiphon.engines.text.prompt import STEPS, CountCache, fit_messages

MARKS = 4


def count(text: str) -> int:
    return MARKS + len(text)


def total(messages: Sequence[Message]) -> int:
    return sum(count(message.text) for message in messages)


def chat(turns: int, size: int = 6) -> list[Message]:
    """A system message and turns of ``size`` tokens each, the last one the user's."""
    roles = ["assistant", "user"]
    said = [
        Message(roles[(turns - i) % 2], f"{i:03}"[: size - MARKS].rjust(size - MARKS, "."))
        for i in range(turns)
    ]
    return [Message("system", "Be brief."), *said]


messages_lists = st.lists(
    st.builds(
        Message,
        st.sampled_from(["system", "user", "assistant"]),
        st.text(alphabet="abc ", max_size=30),
    ),
    max_size=20,
)


def subsequence_indexes(kept: Sequence[Message], given_: Sequence[Message]) -> list[int] | None:
    """Where each kept message, whole or cut, is found in what was given, in order."""
    indexes: list[int] = []
    at = 0
    for message in kept:
        while at < len(given_) and not (
            given_[at].role == message.role
            and (given_[at].text.startswith(message.text) or given_[at].text.endswith(message.text))
        ):
            at += 1
        if at == len(given_):
            return None
        indexes.append(at)
        at += 1
    return indexes


@given(messages_lists, st.integers(0, 300))
def test_never_more_than_the_budget(messages: list[Message], budget: int) -> None:
    assert total(fit_messages(messages, budget, count)) <= budget


@given(messages_lists, st.integers(0, 300))
def test_order_and_text_are_those_given(messages: list[Message], budget: int) -> None:
    kept = fit_messages(messages, budget, count)
    assert subsequence_indexes(kept, messages) is not None


@given(messages_lists)
def test_all_are_kept_where_they_fit(messages: list[Message]) -> None:
    assert fit_messages(messages, total(messages), count) == tuple(messages)


@given(messages_lists, st.integers(100, 300))
def test_the_last_question_is_there_with_its_end(messages: list[Message], budget: int) -> None:
    asked = [message.text for message in messages if message.role == "user"]
    if not asked:
        return
    kept = [m.text for m in fit_messages(messages, budget, count) if m.role == "user"]
    assert kept[-1] == asked[-1], "half the budget is enough for any of these"


def test_a_question_that_is_too_long_keeps_its_end() -> None:
    question = Message("user", "x" * 500 + "what is it?")
    system = Message("system", "Be brief.")
    kept = fit_messages([system, Message("assistant", "Hello."), question], 40, count)
    assert kept[0] == system
    assert [m.role for m in kept] == ["system", "user"]
    assert kept[1].text.endswith("what is it?")
    assert total(kept) == 40


def test_a_system_message_that_is_too_long_keeps_its_beginning() -> None:
    kept = fit_messages([Message("system", "Obey. " + "x" * 500), *chat(3)[1:]], 60, count)
    assert kept[0].text.startswith("Obey.")
    assert kept[-1] == chat(3)[-1]


def test_at_least_three_quarters_of_the_room_are_used() -> None:
    messages = chat(100)
    budget = 130
    kept = fit_messages(messages, budget, count)
    room = budget - count(messages[0].text)
    assert sum(count(m.text) for m in kept[1:]) >= room - room // STEPS - 6


def test_the_beginning_stays_while_a_conversation_goes_on() -> None:
    beginnings = [fit_messages(chat(100)[: 41 + 2 * n], 160, count)[1] for n in range(20)]
    changes = sum(one != other for one, other in zip(beginnings, beginnings[1:], strict=False))
    assert 1 <= changes <= 20 * 12 // (150 // STEPS) + 1


def test_what_cannot_fit_is_not_counted_in_full() -> None:
    longest = 0

    def watch(text: str) -> int:
        nonlocal longest
        longest = max(longest, len(text))
        return count(text)

    fit_messages([Message("assistant", "y" * 10**6), Message("user", "x" * 10**6)], 100, watch)
    assert longest <= 100 * 16


@pytest.mark.parametrize("messages", [[], [Message("system", "Be brief.")]])
def test_without_a_question(messages: list[Message]) -> None:
    assert fit_messages(messages, 100, count) == tuple(messages)
    assert total(fit_messages(messages, 8, count)) <= 8


def test_each_text_is_counted_once() -> None:
    seen: list[str] = []

    def watch(text: str) -> int:
        seen.append(text)
        return count(text)

    cached = CountCache(watch)
    assert [cached("hello"), cached("hello"), cached("world")] == [9, 9, 9]
    assert seen == ["hello", "world"]


def test_the_cache_is_bounded() -> None:
    seen: list[str] = []

    def watch(text: str) -> int:
        seen.append(text)
        return count(text)

    cached = CountCache(watch)
    for n in range(CountCache.SIZE + 1):
        cached(str(n))
    cached("0")
    assert seen.count("0") == 2
    cached(str(CountCache.SIZE))
    assert seen.count(str(CountCache.SIZE)) == 1
