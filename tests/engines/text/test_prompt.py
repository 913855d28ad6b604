"""Fitting conversations into a context."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.pipeline import Message
from antiphon.engines.text.prompt import CALL_TOKENS, STEPS, ContextExceeded, CountCache
from antiphon.engines.text.prompt import fit_messages as fit
from antiphon.engines.tools import Call, Truncation

MARKS = 4


def fit_messages(
    messages: Sequence[Message], budget: int, count: Callable[[str], int]
) -> tuple[Message, ...]:
    return fit(messages, budget, count).messages


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


# Calls and their outputs.

QUESTION = Message("user", "How is the weather?")


def call(call_id: str, arguments: str = "{}") -> Message:
    return Message("assistant", "", calls=(Call(call_id, "f", arguments),))


def output(call_id: str, text: str = "rain") -> Message:
    return Message("tool", text, call_id=call_id)


def answered(kept: Sequence[Message]) -> bool:
    """Whether every output comes after its call."""
    called: set[str | None] = set()
    for message in kept:
        called |= {each.call_id for each in message.calls}
        if message.role == "tool" and message.call_id not in called:
            return False
    return True


@st.composite
def dialogues(draw: st.DrawFn) -> list[Message]:
    """Any order of questions, answers, calls and outputs, some of them of no call."""
    ids = st.sampled_from("abcd")
    texts = st.text(alphabet="xyz ", max_size=20)
    return draw(
        st.lists(
            st.one_of(
                st.builds(Message, st.sampled_from(["system", "user", "assistant"]), texts),
                st.builds(call, ids, texts),
                st.builds(output, ids, texts),
            ),
            max_size=16,
        )
    )


rules = st.builds(
    Truncation,
    mode=st.sampled_from(["auto", "retention_ratio"]),
    retention_ratio=st.floats(0, 1),
    post_instructions=st.none() | st.integers(0, 200),
)


@given(dialogues(), st.integers(0, 400), rules)
def test_an_output_is_never_shown_without_its_call(
    messages: list[Message], budget: int, truncation: Truncation
) -> None:
    made = fit(messages, budget, count, truncation)
    assert answered(made.messages)
    said = [message for message in made.messages if message.role != "system"]
    assert not said or said[0].role != "tool"
    given_ = [message for message in messages if message.role != "system"]
    assert len(said) + made.dropped <= len(given_)
    assert total(made.messages) <= budget


@given(dialogues(), st.integers(0, 400), rules)
def test_a_call_that_is_shown_has_its_outputs(
    messages: list[Message], budget: int, truncation: Truncation
) -> None:
    def calls_and_outputs(shown: Sequence[Message]) -> list[tuple[str, int]]:
        counted: list[tuple[str, int]] = []
        for message in shown:
            counted += [(each.call_id, 0) for each in message.calls]
            if message.role == "tool":
                at = max(n for n, (name, _) in enumerate(counted) if name == message.call_id)
                counted[at] = (counted[at][0], counted[at][1] + 1)
        return counted

    whole = calls_and_outputs(fit(messages, 10**6, count).messages)
    kept = calls_and_outputs(fit(messages, budget, count, truncation).messages)
    at = 0
    for each in kept:
        assert each in whole[at:]
        at = whole.index(each, at) + 1


def test_a_call_and_its_outputs_leave_together() -> None:
    old = [call("a"), output("a", "x" * 40), output("a", "y" * 40)]
    made = fit([*old, Message("assistant", "ok"), QUESTION], 60, count)
    assert made.messages == (Message("assistant", "ok"), QUESTION)
    assert made.dropped == 3


def test_an_output_that_is_awaited_stays_with_the_question() -> None:
    talk = [Message("user", "x" * 50), QUESTION, call("a"), output("a")]
    made = fit(talk, 100, count)
    assert made.messages == tuple(talk[1:])
    assert made.dropped == 1


def test_an_output_that_is_too_long_is_cut_at_its_end() -> None:
    made = fit([QUESTION, call("a"), output("a", "rain " * 1000)], 200, count)
    assert [message.role for message in made.messages] == ["user", "assistant", "tool"]
    assert made.messages[2].text.startswith("rain rain")
    assert total(made.messages) <= 200
    assert made.dropped == 0


def test_calls_cost_what_their_arguments_do() -> None:
    talk = [call("a", '{"text": "' + "x" * 100 + '"}'), QUESTION]
    assert fit(talk, 100, count).messages == (QUESTION,)
    assert len(fit(talk, 170 + CALL_TOKENS, count).messages) == 2


def test_endless_arguments_are_not_counted() -> None:
    longest = 0

    def watch(text: str) -> int:
        nonlocal longest
        longest = max(longest, len(text))
        return count(text)

    assert fit([call("a", "x" * 10**6), QUESTION], 100, watch).messages == (QUESTION,)
    assert longest < 1600


# What a client may ask for when a conversation is too long.


def test_nothing_is_left_out_where_that_is_not_allowed() -> None:
    messages = chat(11)
    needed = total(messages)
    made = fit(messages, needed, count, Truncation(mode="disabled"))
    assert (made.messages, made.dropped) == (tuple(messages), 0)
    with pytest.raises(ContextExceeded) as caught:
        fit(messages, needed - 1, count, Truncation(mode="disabled"))
    assert (caught.value.needed, caught.value.allowed) == (needed, needed - 1)


@pytest.mark.parametrize("ratio", [1.0, 0.8, 0.5, 0.1])
def test_a_ratio_says_how_much_of_the_room_is_kept(ratio: float) -> None:
    messages = chat(101)
    budget = 130
    room = budget - count(messages[0].text)
    truncation = Truncation(mode="retention_ratio", retention_ratio=ratio)
    made = fit(messages, budget, count, truncation)
    kept = total(made.messages[1:])
    assert max(6, ratio * room - 6) <= kept <= max(6, ratio * room)
    assert made.dropped == len(messages) - len(made.messages)
    assert made.messages[0] == messages[0]
    assert made.messages[-1] == messages[-1]


def test_what_fits_is_not_touched_by_a_ratio() -> None:
    truncation = Truncation(mode="retention_ratio", retention_ratio=0.5)
    assert fit(chat(21), total(chat(21)), count, truncation).dropped == 0


def test_messages_can_be_given_less_room_than_there_is() -> None:
    messages = chat(21)
    truncation = Truncation(mode="retention_ratio", retention_ratio=0.5, post_instructions=60)
    made = fit(messages, 10_000, count, truncation)
    assert made.messages[0] == messages[0]
    assert total(made.messages[1:]) == 30
    assert fit(messages, 10_000, count, Truncation(post_instructions=126)).dropped == 0
    with pytest.raises(ContextExceeded):
        fit(messages, 10_000, count, Truncation(mode="disabled", post_instructions=125))


def test_what_is_left_out_is_counted() -> None:
    made = fit(chat(101), 130, count)
    assert made.dropped == 102 - len(made.messages)
