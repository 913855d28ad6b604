"""Time stamps and word times: cut, merged, and moved to where sound is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.engines.chunks import Word
from antiphon.engines.speech.hearing.passages import (
    Passage,
    Span,
    TimedTokens,
    fit_passages,
    fit_to_sound,
    fit_words,
    merge_marks,
    split_spans,
)

TICK = 1000
"""The first time stamp of these tests; each is 20 ms later than the one before."""


def at(seconds: float) -> int:
    return TICK + round(seconds / 0.02)


def test_tokens_are_cut_at_time_stamps() -> None:
    tokens = [at(0), 1, 2, at(1.5), at(2), 3, at(3)]
    assert split_spans(tokens, TICK, latest=9, last=9) == [
        Span(start=0, end=1.5, at=(1, 2)),
        Span(start=2, end=3, at=(5,)),
    ]


def test_what_has_no_stamps_lasts_from_the_first_to_the_last_sound() -> None:
    assert split_spans([1, 2], TICK, latest=4, last=4) == [Span(start=0, end=4, at=(0, 1))]
    assert split_spans([at(1), 1], TICK, latest=4, last=4) == [Span(start=1, end=4, at=(1,))]
    assert split_spans([], TICK, latest=4, last=4) == []


def test_what_begins_after_the_last_sound_is_left_out_and_nothing_ends_later() -> None:
    tokens = [at(0), 1, at(8), at(8), 2, at(9)]
    assert split_spans(tokens, TICK, latest=5, last=5.1) == [Span(start=0, end=5.1, at=(1,))]


def test_stamps_that_go_backwards_give_no_negative_length() -> None:
    assert split_spans([at(3), 1, at(2)], TICK, latest=9, last=9) == [Span(start=3, end=3, at=(1,))]


def test_marks_join_the_word_they_belong_to() -> None:
    parts = [" Hello", ",", " “", "world", "”", "!", " ¿", "Qué", " -"]
    words = [TimedTokens(text, 1, n, n + 1) for n, text in enumerate(parts)]
    merged = merge_marks(words)
    assert [each.text for each in merged] == [" Hello,", " “world”!", " ¿Qué -"]
    assert [each.count for each in merged] == [2, 4, 3]
    assert [(each.start, each.end) for each in merged] == [(0, 1), (3, 4), (7, 8)]
    assert merge_marks([TimedTokens("...", 1, 0, 1)]) == []


def sound(*spans: tuple[float, float], seconds: float = 5.0) -> NDArray[np.float64]:
    """Levels of silence with sound in it."""
    levels = np.full(round(seconds / 0.02), -80.0)
    for start, end in spans:
        levels[round(start / 0.02) : round(end / 0.02)] = -20.0
    return levels


def test_times_move_to_where_sound_begins_and_ends() -> None:
    loud = sound((1, 2)) > -50
    assert fit_to_sound(0, 4, loud) == pytest.approx((1, 2))
    # A sound that is cut is taken whole, but none that is far away.
    assert fit_to_sound(1.2, 1.8, loud) == pytest.approx((1, 2))
    assert fit_to_sound(1.45, 1.55, loud) == pytest.approx((1.04, 1.96))
    assert fit_to_sound(1.2, 1.8, loud, earliest=1.1) == pytest.approx((1.1, 2))
    assert fit_to_sound(3, 4, loud) == (3, 4)


def test_passages_follow_each_other_and_hold_their_words() -> None:
    passages = [
        Passage(text=" One.", start=0, end=3.5, words=(Word("One.", 0, 1900),)),
        Passage(text=" Two.", start=3.4, end=5, words=(Word("Two.", 1950, 4700),)),
    ]
    first, second = fit_passages(passages, sound((0.5, 2), (3, 4)))
    assert (first.start, first.end) == pytest.approx((0.5, 2))
    assert (second.start, second.end) == pytest.approx((3, 4))
    assert first.words == (Word("One.", 500, 1900),)
    (word,) = second.words
    assert (word.start_ms, word.end_ms) == pytest.approx((3000, 4000))


def test_passages_without_words_go_by_their_stamps() -> None:
    (only,) = fit_passages([Passage(text="x", start=0, end=5)], sound((1, 2)))
    assert (only.start, only.end) == pytest.approx((1, 2))


def test_words_lie_in_order_inside_their_passage() -> None:
    words = (Word("a", 0, 150), Word("b", 120, 110), Word("c", 500, 900))
    assert fit_words(words, 100, 600) == (
        Word("a", 100, 150),
        Word("b", 150, 150),
        Word("c", 500, 600),
    )
