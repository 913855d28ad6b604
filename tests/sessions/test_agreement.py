"""Words told once two hypotheses in a row agree on them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.sessions.agreement import Agreement, words


def hear(*hypotheses: str) -> list[str]:
    agreement = Agreement()
    return [agreement.hear(text) for text in hypotheses]


def keys(text: str) -> list[str]:
    return [word.key for word in words(text)]


def test_only_what_two_hypotheses_agree_on_is_told() -> None:
    told = hear("The cat sat", "The cat sits on", "The cat sits on the mat")
    assert told == ["", "The cat", " sits on"]


def test_case_and_punctuation_are_no_disagreement() -> None:
    told = hear("Hello. My", "hello, my name", "Hello, my name is Ann.")
    assert told == ["", "hello, my", " name"]


def test_punctuation_waits_for_the_word_behind_it() -> None:
    assert hear("Yes. It", "Yes. It is") == ["", "Yes. It"]
    assert hear("Yes.", "Yes.", "Yes, of", "Yes, of") == ["", "Yes", "", ", of"]


def test_what_was_told_is_not_told_again_nor_taken_back() -> None:
    told = hear(
        "I like", "I like two", "I like two dogs", "I liked to dogs a lot", "I liked to dogs a lot"
    )
    assert told[:3] == ["", "I like", " two"]
    assert "".join(told).startswith("I like two")


def test_where_a_hypothesis_loses_a_word_the_rest_is_found_by_the_last_words() -> None:
    first = "well I think that we should go"
    changed = "I think that we should go home now"
    assert hear(first, first, changed, changed) == ["", first, "", " home now"]


def test_what_does_not_go_on_from_what_was_told_adds_nothing() -> None:
    assert hear("one two three", "one two three", "something else", "something else") == [
        "",
        "one two three",
        "",
        "",
    ]


def test_scripts_without_spaces_are_compared_by_character() -> None:
    assert hear("今日は", "今日はいい", "今日はいい天気。") == ["", "今日は", "いい"]


def test_marks_within_a_word_do_not_divide_it() -> None:
    assert keys("it’s 1,000 e-mails") == ["its", "1000", "emails"]
    assert keys("¿Qué? – !") == ["qué"]
    assert keys("हिन्दी में") == ["हिन्दी", "में"]


@pytest.mark.parametrize(
    ("final", "rest"),
    [
        ("The cat sits on the mat.", " on the mat."),
        ("The cat, sits.", "."),
        ("The CAT sits", ""),
        ("A cat sits there", " there"),
        ("Nothing of the kind", ""),
        ("", ""),
    ],
)
def test_the_end_is_what_was_not_told_yet(final: str, rest: str) -> None:
    agreement = Agreement()
    agreement.hear("The cat sits")
    assert agreement.hear("The cat sits") == "The cat sits"
    assert agreement.finish(final) == rest


def test_where_nothing_was_told_the_end_is_all() -> None:
    agreement = Agreement()
    agreement.hear("One")
    assert agreement.silent
    assert agreement.finish(" Two words. ") == "Two words."
    assert Agreement().finish("...") == ""


SENTENCE = "Well, I don't know; perhaps we should ask 今日 the others first. Yes?"


@given(st.lists(st.tuples(st.integers(0, len(SENTENCE)), st.integers(0, 2)), max_size=12))
def test_looks_that_only_err_at_their_end_are_told_as_the_whole(
    looks: list[tuple[int, int]],
) -> None:
    agreement = Agreement()
    told = ""
    for number, (length, wrong) in enumerate(sorted(looks)):
        right = SENTENCE[: SENTENCE.rfind(" ", 0, length) + 1]
        # No two wrong ends in a row are alike, as in speech that goes on.
        told += agreement.hear(right + f"wrong{number} " * wrong)
        assert keys(SENTENCE)[: len(keys(told))] == keys(told)
    assert told + agreement.finish(SENTENCE) == SENTENCE


@given(st.lists(st.text("ab .,é今", max_size=12), max_size=8))
def test_any_hypotheses_can_be_compared(texts: list[str]) -> None:
    agreement = Agreement()
    told = ""
    for text in texts:
        told += agreement.hear(text)
        assert told == told.rstrip(" .,")
    agreement.finish("a b é")
