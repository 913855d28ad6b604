"""Streams through a small decoder: what is pushed when, by whom, and what is left behind."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoders import (
    FLOAT64,
    assert_streams,
    chunks_of,
    difference,
    loud,
    random_codes,
    streamed,
)
from torch import Tensor, nn

from antiphon.engines.chunks import Samples
from antiphon.engines.speech.decoders.decoder import Codes
from antiphon.engines.speech.streaming.chain import Chain, Pointwise, Residual
from antiphon.engines.speech.streaming.convolution import same_conv, same_transposed
from antiphon.engines.speech.streaming.layer import Extent, State
from antiphon.engines.speech.streaming.noise import AddressedNoise, WholeNoise
from antiphon.engines.speech.streaming.runner import (
    EagerStep,
    Step,
    StreamRunner,
    StreamState,
    as_samples,
    exact_card,
)


class Watched:
    """A step that notes what it was asked, and sees to it that nothing had to be masked where
    it was said so."""

    def __init__(self, eager: EagerStep) -> None:
        self.eager = eager
        self.asked: list[tuple[int, int, bool]] = []
        self.broken = False

    def new_state(self) -> State:
        return self.eager.new_state()

    def run(self, codes: Tensor, states: Sequence[State], extent: Extent) -> Tensor:
        if self.broken:
            raise RuntimeError("out of memory")
        self.asked.append((codes.shape[0], codes.shape[2], extent.edges))
        copies = [[tensor.clone() for tensor in state] for state in states]
        made = self.eager.run(codes, states, extent)
        if not extent.edges:
            masked = self.eager.run(codes, copies, replace(extent, edges=True))
            assert torch.equal(made, masked)
        return made


class Toy:
    """Two codebooks, three samples a step and one sample short, looking ahead by 23 samples."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        up = nn.ConvTranspose1d(4, 4, 6, 3, 2)
        inner, last = nn.Conv1d(4, 4, 7, padding=3), nn.Conv1d(4, 1, 5, padding=2)
        scale = nn.Conv1d(4, 4, 1, bias=False)
        self.first = nn.Conv1d(4, 4, 9, padding=4)
        for module in (self.first, up, scale, inner, last):
            loud(module, seed=module.kernel_size[0]).double()
        self.after = nn.Sequential(up, WholeNoise(scale, layer=1))
        self.inner, self.last = inner, last
        self.table = torch.randn(2, 8, 4, dtype=torch.float64)
        body = Chain(
            [
                same_conv(self.first),
                same_transposed(up),
                AddressedNoise(scale, layer=1),
                Residual(Chain([Pointwise(torch.tanh), same_conv(inner)])),
                same_conv(last),
            ]
        )
        card = exact_card("snac", sample_rate=24_000, sizes=(8, 8), body=body)
        self.runner = StreamRunner(card, front=self.front, body=body, whole=self.whole)
        eager: Step = vars(self.runner)["_step"]
        assert isinstance(eager, EagerStep)
        self.watched = Watched(eager)
        vars(self.runner)["_step"] = self.watched

    def front(self, codes: Tensor) -> Tensor:
        return (self.table[0][codes[:, 0]] + self.table[1][codes[:, 1]]).transpose(1, 2)

    def whole(self, codes: Codes) -> Samples:
        values = self.after(self.first(self.front(torch.from_numpy(codes.astype(np.int64))[None])))
        return as_samples(self.last(values + self.inner(torch.tanh(values)))[0, 0])


@pytest.fixture
def toy() -> Toy:
    return Toy()


TOY = Toy()


def test_the_card_is_found_from_the_layers(toy: Toy) -> None:
    card = toy.runner.card
    assert (card.hop, card.short, card.lookahead) == (3, 1, 4 * 3 + 2 + 3 + 2)


@settings(max_examples=15)
@given(st.integers(1, 24), st.lists(st.integers(1, 12), min_size=1, max_size=3))
def test_every_chunking_of_every_length_is_the_whole(steps: int, sizes: list[int]) -> None:
    assert_streams(TOY.runner, random_codes(TOY.runner, steps, seed=steps), sizes)


def test_values_are_masked_at_the_edges_alone(toy: Toy) -> None:
    streamed(toy.runner, random_codes(toy.runner, 30), [6])
    assert toy.watched.asked == [
        (1, 6, True),
        (1, 6, True),
        *[(1, 6, False)] * 3,
        (1, 6, True),
    ]


def test_streams_in_turn_and_in_one_batch_are_what_they_are_alone(toy: Toy) -> None:
    """They begin and end at different times, and share pushes while both are there."""
    runner = toy.runner
    lengths = {0: 24, 1: 9, 2: 15, 3: 3}
    codes = {name: random_codes(runner, steps, seed=name) for name, steps in lengths.items()}
    begin = {0: 0, 1: 2, 2: 3, 3: 3}
    states = {name: runner.open(seed=name) for name in lengths}
    given: dict[int, list[Samples]] = {name: [] for name in lengths}
    chunks = {name: chunks_of(codes[name], [3]) for name in lengths}
    for turn in range(10):
        live = [n for n in lengths if begin[n] <= turn < begin[n] + len(chunks[n])]
        made = runner.push(
            [states[name] for name in live],
            [chunks[name][turn - begin[name]] for name in live],
            [turn - begin[name] == len(chunks[name]) - 1 for name in live],
        )
        for name, samples in zip(live, made, strict=True):
            given[name].append(samples)
    assert max(batch for batch, _, _ in toy.watched.asked) == 3 + 1
    for name in lengths:
        alone = np.concatenate(streamed(runner, codes[name], [3], seed=name))
        assert difference(np.concatenate(given[name]), alone) < FLOAT64


def test_several_threads_push_streams_of_their_own(toy: Toy) -> None:
    runner = toy.runner
    codes = [random_codes(runner, 20, seed=number) for number in range(4)]

    def stream(each: Codes) -> Samples:
        return np.concatenate(streamed(runner, each, [2]))

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(stream, codes))
    for each, samples in zip(codes, made, strict=True):
        assert difference(samples, runner.decode(each)) < FLOAT64


def test_an_end_without_steps_brings_the_rest(toy: Toy) -> None:
    codes = random_codes(toy.runner, 11)
    state = toy.runner.open()
    first = toy.runner.push([state], [codes], [False])[0]
    rest = toy.runner.push([state], [codes[:, :0]], [True])[0]
    assert difference(np.concatenate((first, rest)), toy.runner.decode(codes)) < FLOAT64
    empty = toy.runner.push([toy.runner.open()], [codes[:, :0]], [True])[0]
    assert empty.shape == (0,)


def refused(toy: Toy, state: StreamState) -> list[tuple[list[object], list[Codes], list[bool]]]:
    good = random_codes(toy.runner, 4)
    high, low = good.copy(), good.copy()
    high[1, 2], low[0, 0] = 8, -1
    ended = toy.runner.open()
    toy.runner.push([ended], [good], [True])
    other = toy.runner.open()
    return [
        ([state], [good[:1]], [False]),
        ([state], [good[0]], [False]),
        ([state], [high], [False]),
        ([state], [low], [True]),
        ([state], [good[:, :0]], [False]),
        ([state, other], [good, good[:, :3]], [False, False]),
        ([state, other], [good], [False, False]),
        ([state, state], [good, good], [False, False]),
        ([state, ended], [good, good], [False, False]),
        ([state, object()], [good, good], [False, False]),
    ]


def test_what_is_refused_changes_nothing(toy: Toy) -> None:
    codes = random_codes(toy.runner, 9)
    state = toy.runner.open()
    first = toy.runner.push([state], [codes[:, :5]], [False])[0]
    for states, wrong, last in refused(toy, state):
        with pytest.raises(ValueError, match="expected"):
            toy.runner.push(states, wrong, last)  # type: ignore[arg-type]
    assert state.steps == 5
    rest = toy.runner.push([state], [codes[:, 5:]], [True])[0]
    assert difference(np.concatenate((first, rest)), toy.runner.decode(codes)) < FLOAT64


def test_a_code_out_of_its_codebook_is_named(toy: Toy) -> None:
    codes = random_codes(toy.runner, 4)
    codes[1, 2] = 8
    with pytest.raises(ValueError, match="expected codes of 0 to 7 in codebook 1, got 8"):
        toy.runner.push([toy.runner.open()], [codes], [True])
    with pytest.raises(ValueError, match="codebook 1"):
        toy.runner.decode(codes)


def test_a_stream_that_is_dropped_or_ended_leaves_nothing(toy: Toy) -> None:
    codes = random_codes(toy.runner, 5)
    dropped, ended = toy.runner.open(), toy.runner.open()
    kept = [weakref.ref(tensor) for state in (dropped, ended) for tensor in state.tensors]
    toy.runner.push([dropped, ended], [codes, codes], [False, True])
    del dropped
    gc.collect()
    assert kept
    assert all(reference() is None for reference in kept)


def test_a_push_that_fails_ends_its_streams(toy: Toy) -> None:
    codes = random_codes(toy.runner, 5)
    state, other = toy.runner.open(), toy.runner.open()
    toy.watched.broken = True
    with pytest.raises(RuntimeError, match="out of memory"):
        toy.runner.push([state], [codes], [False])
    toy.watched.broken = False
    with pytest.raises(ValueError, match="has ended"):
        toy.runner.push([state], [codes], [False])
    assert toy.runner.push([other], [codes], [True])[0].shape == toy.runner.decode(codes).shape


def test_noise_is_that_of_the_seed(toy: Toy) -> None:
    codes = random_codes(toy.runner, 12)
    same, again, other = (
        np.concatenate(streamed(toy.runner, codes, sizes, seed=seed))
        for sizes, seed in (([4], 7), ([4], 7), ([4], -8))
    )
    assert same.tobytes() == again.tobytes()
    assert difference(same, other) > 0.01
