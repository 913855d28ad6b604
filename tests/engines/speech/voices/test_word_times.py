from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.engines.speech.voices.word_times import Match, align, word_times

COUNTS = st.lists(st.integers(1, 20), min_size=1, max_size=25)


@settings(deadline=None)
@given(st.lists(st.integers(0, 12), max_size=25), COUNTS, st.data())
def test_each_word_has_its_time_in_order_and_within_the_audio(
    sounds: list[int], group_sounds: list[int], data: st.DataObject
) -> None:
    size = 2 * len(group_sounds)
    edges = sorted(data.draw(st.lists(st.floats(0, 1e4), min_size=size, max_size=size)))
    groups = list(zip(edges[::2], edges[1::2], strict=True))
    words = [f"w{i}" for i in range(len(sounds))]
    made = word_times(words, sounds, groups, group_sounds)
    assert [word.text for word in made] == words
    assert all(word.start_ms <= word.end_ms for word in made)
    assert all(a.end_ms <= b.start_ms for a, b in pairwise(made))
    assert all(edges[0] <= word.start_ms and word.end_ms <= edges[-1] for word in made)


@settings(deadline=None)
@given(COUNTS, COUNTS)
def test_matches_cover_all_words_and_groups_once(words: list[int], groups: list[int]) -> None:
    found = align(words, groups)
    for spans, size in (
        ([m.words for m in found], len(words)),
        ([m.groups for m in found], len(groups)),
    ):
        assert [spans[0][0], *(stop for _, stop in spans)] == [*(start for start, _ in spans), size]
        assert all(start < stop for start, stop in spans)


@settings(deadline=None)
@given(COUNTS)
def test_equal_counts_match_one_to_one(counts: list[int]) -> None:
    assert align(counts, counts) == [Match((i, i + 1), (i, i + 1)) for i in range(len(counts))]


@pytest.mark.parametrize(
    ("words", "groups", "want"),
    [
        # "of the sky" as "ofthe sky"
        ([2, 2, 4], [4, 4], [((0, 2), (0, 1)), ((2, 3), (1, 2))]),
        # "has 42 apples" as "has forty two apples"
        ([3, 8, 6], [3, 5, 3, 6], [((0, 1), (0, 1)), ((1, 2), (1, 3)), ((2, 3), (3, 4))]),
        # Both at once, so that their numbers are equal: "of the 42 apples"
        ([2, 2, 8, 6], [4, 5, 3, 6], [((0, 2), (0, 1)), ((2, 3), (1, 3)), ((3, 4), (3, 4))]),
    ],
)
def test_merged_and_split_words_are_found(
    words: list[int], groups: list[int], want: list[tuple[tuple[int, int], tuple[int, int]]]
) -> None:
    assert align(words, groups) == [Match(*each) for each in want]


def test_words_of_one_group_share_its_time_by_their_sounds() -> None:
    of, the, sky = word_times(["of", "the", "sky"], [1, 3, 4], [(100, 180), (200, 300)], [4, 4])
    assert (of.start_ms, of.end_ms) == (100, 120)
    assert (the.start_ms, the.end_ms) == (120, 180)
    assert (sky.start_ms, sky.end_ms) == (200, 300)


def test_a_word_that_is_not_spoken_takes_no_time() -> None:
    made = word_times(["a", "—", "b"], [1, 0, 1], [(10, 20), (30, 40)], [1, 1])
    assert (made[1].start_ms, made[1].end_ms) == (20, 20)


def test_what_fits_nowhere_is_spread_over_the_whole() -> None:
    (word,) = word_times(["x"], [3], [(float(i), i + 1.0) for i in range(20)], [5] * 20)
    assert (word.start_ms, word.end_ms) == (0, 20)
