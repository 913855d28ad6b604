# pyright: reportPrivateUsage=false
"""Captured graphs: which are taken, and that what is copied in and out is what runs without.

A GPU is not needed: what is captured here is only the work, and done again when it is played.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tests.support.decoders import chunks_of, difference, random_codes, streamed, tiny_snac
from torch import Tensor

from antiphon.engines.speech.decoders import snac
from antiphon.engines.speech.streaming.graphs import (
    Capture,
    FlatState,
    GraphStep,
    Packing,
    Work,
    bucket_of,
    buckets,
    captured_or,
    graphed,
    pieces,
)
from antiphon.engines.speech.streaming.runner import EagerStep, StreamRunner


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (1, (1,)),
        (2, (1, 2)),
        (5, (1, 2, 4, 5)),
        (64, (1, 2, 4, 8, 16, 32, 64)),
    ],
)
def test_batches_are_powers_of_two_and_the_most(batch: int, expected: tuple[int, ...]) -> None:
    assert buckets(batch) == expected


def test_the_smallest_batch_that_fits_is_taken() -> None:
    sizes = buckets(6)
    assert [bucket_of(streams, sizes) for streams in range(1, 8)] == [1, 2, 4, 4, 6, 6, None]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (4, (4,)),
        (11, (8, 2, 1)),
        (16, (8, 8)),
        (32, (8, 8, 8, 8)),
        # Five graphs are one too many.
        (33, ()),
        (0, ()),
    ],
)
def test_a_push_is_made_of_few_sizes(steps: int, expected: tuple[int, ...]) -> None:
    assert pieces(steps, (1, 2, 8, 4)) == expected


def test_what_sizes_do_not_make_is_not_made() -> None:
    assert pieces(7, (4, 2)) == ()


def test_a_packed_state_lies_in_rows_and_is_independent() -> None:
    state = [torch.randn(1, 3, 5), torch.arange(4).view(1, 4), torch.randn(1, 2, 0)]
    packing = Packing(state)
    packed = packing.packed(state)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(packed, state, strict=True))
    assert sorted(map(str, packed.rows)) == ["torch.float32", "torch.int64"]
    packed[0][0, 2, 4] = 7.0
    assert packed.rows[torch.float32].flatten()[14] == 7.0
    assert state[0][0, 2, 4] != 7.0
    # Tensors of one dtype do not lie on one another.
    packed[0].fill_(1.0)
    assert packed.rows[torch.float32].sum() == 15.0
    assert torch.equal(packed[1], state[1])


class Captures:
    """Captures work, and counts how often it is played."""

    def __init__(self) -> None:
        self.played = 0

    def __call__(self) -> Capture:
        return self.capture

    def capture(self, work: Work) -> Work:
        # As a real one: the result always lies in the same place.
        out = work().clone()

        def play() -> Tensor:
            self.played += 1
            return out.copy_(work())

        return play


@dataclass
class Pair:
    """One decoder with graphs, and one without."""

    plain: StreamRunner
    decoder: StreamRunner
    step: GraphStep
    captures: Captures


@pytest.fixture(scope="module")
def pair() -> Pair:
    plain, decoder = snac.decoder_of(tiny_snac()), snac.decoder_of(tiny_snac())
    eager, captures = decoder._step, Captures()
    assert isinstance(eager, EagerStep)
    sizes = (1, 4, decoder._flush)
    step = captured_or(eager, books=3, sizes=sizes, batch=3, capture=captures)
    assert isinstance(step, GraphStep)
    decoder._step = step
    return Pair(plain, decoder, step, captures)


def test_every_size_batch_and_edge_has_a_graph(pair: Pair) -> None:
    assert pair.decoder._flush not in (1, 4)
    assert pair.step.graphs == 3 * 3 * 2


def test_a_stream_sounds_as_without_graphs(pair: Pair) -> None:
    """Of one size, of sizes made of several, and of more than graphs are used for."""
    codes = random_codes(pair.plain, 66, frame=4)
    before = pair.captures.played
    ours = np.concatenate(streamed(pair.decoder, codes, (4, 3, 1, 50)))
    assert difference(ours, pair.plain.decode(codes)) < 1e-12
    # 1, 1 + 1 + 1, 1, none, 4 + 4, and the flush.
    assert pair.captures.played - before == 1 + 3 + 1 + 0 + 2 + 1


@pytest.mark.parametrize("streams", [2, 4])
def test_streams_at_different_places_share_a_graph(pair: Pair, streams: int) -> None:
    """Four are more than there are graphs for, and get theirs without, on the same states."""
    plain, decoder = pair.plain, pair.decoder
    all_codes = [random_codes(plain, 12 + 2 * at, frame=4, seed=at) for at in range(streams)]
    states = [decoder.open(0) for _ in all_codes]
    parts = [
        decoder.push([state], [codes[:, : 2 * at]], [False]) if at else [np.zeros(0, np.float32)]
        for at, (state, codes) in enumerate(zip(states, all_codes, strict=True))
    ]
    chunks = [chunks_of(codes[:, 2 * at :], (4,)) for at, codes in enumerate(all_codes)]
    for turn in range(3):
        given = decoder.push(states, [each[turn] for each in chunks], [turn == 2] * streams)
        for part, samples in zip(parts, given, strict=True):
            part.append(samples)
    for part, codes in zip(parts, all_codes, strict=True):
        assert difference(np.concatenate(part), plain.decode(codes)) < 1e-12


def test_a_state_from_elsewhere_is_served_without_graphs(pair: Pair) -> None:
    plain, decoder, before = pair.plain, pair.decoder, pair.captures.played
    state = plain.open()
    assert not isinstance(state.tensors, FlatState)
    codes = random_codes(plain, 12, frame=4)
    ours = decoder.push([state], [codes], [True])[0]
    assert difference(ours, plain.decode(codes)) < 1e-12
    assert pair.captures.played == before


def failing(error: Exception) -> Callable[[], Capture]:
    def make() -> Capture:
        def capture(work: Work) -> Work:
            raise error

        return capture

    return make


@pytest.mark.parametrize("words", ["no capture while syncing\nat line 3", ""])
def test_where_capture_fails_decoding_goes_on(words: str, caplog: pytest.LogCaptureFixture) -> None:
    decoder = snac.decoder_of(tiny_snac())
    eager = decoder._step
    assert isinstance(eager, EagerStep)
    error = RuntimeError(words)
    step = captured_or(eager, books=3, sizes=(1, 2), batch=2, capture=failing(error))
    assert step is eager
    assert len(caplog.records) == 1
    assert caplog.messages[0].endswith(
        f"without: {words.splitlines()[0] if words else 'RuntimeError'}"
    )


def test_on_a_cpu_nothing_is_captured() -> None:
    eager = snac.decoder_of(tiny_snac())._step
    assert isinstance(eager, EagerStep)
    refused = failing(AssertionError("captured"))
    assert graphed(eager, books=3, sizes=(1,), batch=2, capture=refused) is eager
