"""Chains of graphs computed a stretch at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.speech.voices.steps import Chain, Frames, Step

CONTEXTS = (2, 0, 3)


def smear(context: int, computed: list[int]) -> Step:
    """A step whose frames are sums over their neighbours, with zeros beyond the ends."""

    def run(frames: Frames) -> Frames:
        computed.append(frames.shape[1])
        around = np.pad(frames, ((0, 0), (context, context)))
        width = frames.shape[1]
        shifted = [around[:, at : at + width] * (at + 1) for at in range(2 * context + 1)]
        return np.asarray(np.sum(shifted, axis=0), np.float32)

    return Step(run, context)


def whole(given: Frames) -> Frames:
    for context in CONTEXTS:
        given = smear(context, []).run(given)
    return given


@given(st.integers(0, 40), st.lists(st.integers(0, 45), max_size=12))
def test_stretches_are_those_of_the_whole(count: int, stops: list[int]) -> None:
    frames = np.random.default_rng(count).integers(-9, 9, (3, count)).astype(np.float32)
    chain = Chain([smear(context, []) for context in CONTEXTS], frames)
    for stop in [*stops, count]:
        made = chain.upto(stop)[:, :stop]
        np.testing.assert_array_equal(made, whole(frames)[:, :stop])


@pytest.mark.parametrize("size", [4, 7, 20])
def test_no_step_computes_more_than_its_own_context_beside_what_is_new(size: int) -> None:
    frames = np.ones((1, 60), np.float32)
    computed: list[list[int]] = [[] for _ in CONTEXTS]
    steps = [smear(context, of) for context, of in zip(CONTEXTS, computed, strict=True)]
    chain = Chain(steps, frames)
    for stop in range(size, 60 + size, size):
        chain.upto(stop)
    for context, of in zip(CONTEXTS, computed, strict=True):
        assert sum(of) <= 60 + 2 * context * len(of)
        assert all(count <= size + sum(CONTEXTS) + 2 * context for count in of)


def test_what_was_made_is_not_made_again() -> None:
    computed: list[int] = []
    chain = Chain([smear(1, computed)], np.ones((1, 10), np.float32))
    first = chain.upto(5)
    assert chain.upto(3) is first
    assert len(computed) == 1
