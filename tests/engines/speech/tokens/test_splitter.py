"""Tokens to steps of codes, however they come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.speech.tokens.layout import Layout, Slot, TokenBlock
from antiphon.engines.speech.tokens.splitter import Split, Splitter

BASE, SIZE = 100, 8

SNAC_SLOTS = (
    Slot(0, 0, 4),
    Slot(1, 0, 2),
    Slot(2, 0),
    Slot(2, 1),
    Slot(1, 2, 2),
    Slot(2, 2),
    Slot(2, 3),
)
SNAC = Layout(
    slots=SNAC_SLOTS,
    blocks=tuple(TokenBlock(BASE + SIZE * n, SIZE) for n in range(7)),
    steps=4,
    codebooks=3,
)
PAIRS = Layout(
    slots=(Slot(0), Slot(1)),
    blocks=(TokenBlock(BASE, SIZE), TokenBlock(BASE + SIZE, SIZE)),
    steps=1,
    codebooks=2,
)
SINGLE = Layout(slots=(Slot(0),), blocks=(TokenBlock(BASE, SIZE),), steps=1, codebooks=1)
LAYOUTS = {"snac": SNAC, "pairs": PAIRS, "single": SINGLE}
WORD, OTHER = 7, 99


def tokens_of(layout: Layout, *frames: Sequence[int]) -> list[int]:
    return [
        block.base + code
        for frame in frames
        for block, code in zip(layout.blocks, frame, strict=True)
    ]


def codes_of(splits: list[Split], codebooks: int) -> list[list[int]]:
    """A list a codebook."""
    joined = np.concatenate([np.zeros((codebooks, 0), np.int32), *(s.codes for s in splits)], 1)
    return [[int(code) for code in row] for row in joined]


def marks_of(splits: list[Split]) -> list[tuple[int, int]]:
    return [(token, split.step) for split in splits for token in split.markup]


def test_a_frame_of_snac_gives_each_step_when_its_last_code_is_there() -> None:
    splitter = Splitter(SNAC)
    counts: list[int] = []
    splits: list[Split] = []
    for token in tokens_of(SNAC, (1, 2, 3, 4, 5, 6, 7)):
        made = splitter.feed([token])
        counts.append(sum(split.codes.shape[1] for split in made))
        splits += made
    assert counts == [0, 0, 1, 1, 0, 1, 1]
    assert codes_of(splits, 3) == [[1, 1, 1, 1], [2, 2, 5, 5], [3, 4, 6, 7]]
    assert all(split.codes.dtype == np.int32 for split in splits)


def test_eighteen_tokens_of_snac_are_ten_steps() -> None:
    splitter = Splitter(SNAC)
    splitter.feed(tokens_of(SNAC, *[(1,) * 7] * 3)[:18])
    assert splitter.steps == 10
    assert splitter.dropped == 0


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("code", [0, SIZE - 1])
def test_the_first_and_the_last_code_are_codes_at_every_place(layout: Layout, code: int) -> None:
    for place in range(len(layout.blocks)):
        frame = [3] * len(layout.blocks)
        frame[place] = code
        splitter = Splitter(layout)
        splits = splitter.feed(tokens_of(layout, frame, [3] * len(frame)))
        slot = layout.slots[place]
        assert splitter.steps == 2 * layout.steps
        row = codes_of(splits, layout.codebooks)[slot.codebook]
        expected = [3] * (2 * layout.steps)
        expected[slot.first : slot.first + slot.steps] = [code] * slot.steps
        assert row == expected


@pytest.mark.parametrize("token", [BASE - 1, BASE + 7 * SIZE])
def test_the_ids_beside_the_blocks_are_markup(token: int) -> None:
    splitter = Splitter(SNAC)
    splits = splitter.feed([token, *tokens_of(SNAC, (1,) * 7)])
    assert marks_of(splits) == [(token, 0)]
    assert splitter.steps == 4


def test_markup_is_told_with_the_step_that_it_came_ahead_of() -> None:
    first, second, third = BASE + 1, BASE + SIZE + 2, BASE + 3
    splitter = Splitter(PAIRS)
    splits = splitter.feed([WORD, first, second, first, OTHER, second, WORD, OTHER, third])
    assert marks_of(splits) == [(WORD, 0), (OTHER, 1), (WORD, 2), (OTHER, 2)]
    assert [(s.step, s.codes.shape[1]) for s in splits] == [(0, 1), (1, 1), (2, 0)]
    assert codes_of(splits, 2) == [[1, 1], [2, 2]]


def test_a_lost_token_costs_its_frame_alone() -> None:
    """Read by a counter, all that follows it would be taken for other codebooks."""
    frames = [(n,) * 7 for n in range(1, 5)]
    tokens = tokens_of(SNAC, *frames)
    del tokens[7 + 2]
    splitter = Splitter(SNAC)
    splits = splitter.feed(tokens)
    assert codes_of(splits, 3)[2] == [1] * 4 + [3] * 4 + [4] * 4
    assert splitter.dropped == 6


def test_steps_of_a_broken_frame_that_are_given_stay() -> None:
    tokens = tokens_of(SNAC, (1,) * 7, (2,) * 7)
    del tokens[4]
    splitter = Splitter(SNAC)
    splits = splitter.feed(tokens)
    assert codes_of(splits, 3)[0] == [1, 1, 2, 2, 2, 2]
    assert splitter.dropped == 2


def test_a_token_said_twice_begins_again_where_it_can() -> None:
    splitter = Splitter(PAIRS)
    splits = splitter.feed([BASE + 1, BASE + 2, BASE + SIZE + 3, BASE + SIZE + 4])
    assert codes_of(splits, 2) == [[2], [3]]
    assert splitter.dropped == 2


@pytest.mark.parametrize(("said", "steps", "dropped"), [(3, 1, 0), (5, 2, 1), (6, 3, 0), (7, 4, 0)])
def test_the_end_keeps_the_steps_that_are_certain(said: int, steps: int, dropped: int) -> None:
    splitter = Splitter(SNAC)
    splits = splitter.feed(tokens_of(SNAC, (1,) * 7)[:said])
    splitter.end()
    assert sum(split.codes.shape[1] for split in splits) == splitter.steps == steps
    assert splitter.dropped == dropped


ANY_TOKENS = st.lists(st.integers(BASE - 2, BASE + 7 * SIZE + 1), max_size=60)


@given(st.sampled_from(list(LAYOUTS.values())), ANY_TOKENS, st.lists(st.integers(0, 9), min_size=1))
def test_how_the_tokens_are_cut_changes_nothing(
    layout: Layout, tokens: list[int], cuts: list[int]
) -> None:
    whole, cut = Splitter(layout), Splitter(layout)
    expected = whole.feed(tokens)
    got: list[Split] = []
    at, turn = 0, 0
    while at < len(tokens):
        size = cuts[turn % len(cuts)] or (turn % 2)
        got += cut.feed(tokens[at : at + size])
        at, turn = at + size, turn + 1
    for each in (whole, cut):
        each.end()
    assert codes_of(got, layout.codebooks) == codes_of(expected, layout.codebooks)
    assert marks_of(got) == marks_of(expected)
    assert (cut.steps, cut.dropped) == (whole.steps, whole.dropped)


@given(st.lists(st.lists(st.integers(0, SIZE - 1), min_size=7, max_size=7), max_size=6), st.data())
def test_whole_frames_come_back_with_any_markup_between(
    frames: list[list[int]], data: st.DataObject
) -> None:
    tokens = tokens_of(SNAC, *frames)
    for place in sorted(data.draw(st.lists(st.integers(0, len(tokens)), max_size=5)), reverse=True):
        tokens.insert(place, WORD)
    splitter = Splitter(SNAC)
    rows = codes_of(splitter.feed(tokens), 3)
    assert rows[0] == [frame[0] for frame in frames for _ in range(4)]
    assert rows[1] == [code for frame in frames for code in (frame[1],) * 2 + (frame[4],) * 2]
    assert rows[2] == [frame[n] for frame in frames for n in (2, 3, 5, 6)]
    assert splitter.dropped == 0
