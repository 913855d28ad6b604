"""Guessed times of words."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.chunks import Word
from antiphon.engines.speech.tokens.timing import KEPT, Paces, WordGuess, weight

TEXT = "Well, it rains. We stay here (today)."


@given(
    st.lists(st.floats(0, 9000), max_size=8),
    st.floats(0, 9000),
    st.floats(1, 200),
)
def test_each_word_is_told_once_in_order_and_within_the_utterance(
    looks: list[float], end_ms: float, char_ms: float
) -> None:
    guess = WordGuess(TEXT, char_ms)
    told: list[Word] = []
    for ms in sorted(look for look in looks if look < end_ms):
        now = guess.until(ms)
        assert all(word.start_ms < ms for word in now)
        told += now
    rest = guess.end(end_ms)
    assert [word.text for word in [*told, *rest]] == TEXT.split()
    assert all(0 <= word.start_ms <= word.end_ms <= end_ms + 1e-6 for word in rest)
    for word, following in pairwise(rest):
        assert word.end_ms <= following.start_ms + 1e-6
    assert guess.end(end_ms) == []


def test_an_utterance_as_long_as_expected_has_its_words_where_they_were_expected() -> None:
    words = WordGuess(TEXT, 10).end(10 * weight(TEXT))
    assert words == WordGuess(TEXT, 10).until(1e9)
    # A longer one has all of them later, pauses included.
    slower = WordGuess(TEXT, 10).end(20 * weight(TEXT))
    assert [word.start_ms for word in slower] == pytest.approx([2 * w.start_ms for w in words])


def test_pauses_lie_behind_punctuation_though_it_be_in_brackets() -> None:
    well, it, rains, we, *_ = WordGuess(TEXT, 10).until(1e9)
    assert 0 < it.start_ms - well.end_ms < we.start_ms - rains.end_ms
    assert weight("(today).") == weight("today).") + 1


def test_the_pace_of_a_voice_is_learned_and_others_are_not() -> None:
    paces = Paces(10)
    assert paces.of("ada") == 100
    paces.learn("ada", 20, 20 * 60)
    assert (paces.of("ada"), paces.of("bob")) == (60, 100)
    paces.learn("ada", 20, 20 * 100)
    assert paces.of("ada") == 70
    # Nothing is learned of a model that ran wild, or said nothing.
    for chars, ms in ((20, 20 * 500), (20, 20 * 5), (20, 0), (0, 100)):
        paces.learn("ada", chars, ms)
    assert paces.of("ada") == 70
    for number in range(KEPT):
        paces.learn(f"{number}", 10, 500)
    assert paces.of("ada") == 100
