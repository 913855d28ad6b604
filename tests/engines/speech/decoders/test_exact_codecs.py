"""What every exact decoder has to do, of those whose models are in tests.support.codec_models."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.codec_models import NAMES, tiny_decoder
from tests.support.decoders import (
    FLOAT32,
    FLOAT64,
    assert_streams,
    difference,
    random_codes,
    streamed,
)

from antiphon.engines.speech.decoders.check import check_decoder
from antiphon.engines.speech.decoders.decoder import Codes
from antiphon.engines.speech.streaming.runner import StreamRunner

LONG = 40
"""Steps: more than any decoder's memory holds, of Mimi's ring as well."""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(params=NAMES)
def decoder(request: pytest.FixtureRequest) -> StreamRunner:
    return tiny_decoder(request.param)


def sizes_for(decoder: StreamRunner, sizes: Sequence[int]) -> list[int]:
    """``sizes``, but the first as large as the decoder needs it."""
    return [max(sizes[0], decoder.card.first_steps), *sizes[1:]]


@pytest.mark.parametrize("sizes", [[1], [7, 3, 5], [LONG]], ids=["ones", "odd", "all"])
def test_chunks_give_what_the_whole_gives(decoder: StreamRunner, sizes: list[int]) -> None:
    assert_streams(decoder, random_codes(decoder, LONG), sizes_for(decoder, sizes))


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_is_as_exact_as_it_gets(name: str) -> None:
    decoder = tiny_decoder(name, torch.float32)
    assert_streams(decoder, random_codes(decoder, LONG), sizes_for(decoder, [3, 5]), within=FLOAT32)


def test_any_length_ends_as_the_whole_does(decoder: StreamRunner) -> None:
    codes = random_codes(decoder, 24)

    @settings(max_examples=12, deadline=None)
    @given(st.integers(1, 24), st.lists(st.integers(1, 9), min_size=1, max_size=4))
    def check(steps: int, sizes: list[int]) -> None:
        pushed = streamed(decoder, codes[:, :steps], sizes_for(decoder, sizes))
        assert difference(np.concatenate(pushed), decoder.decode(codes[:, :steps])) < FLOAT64

    check()


def test_an_end_without_steps_gives_the_rest(decoder: StreamRunner) -> None:
    codes = random_codes(decoder, 9)
    stream = decoder.open()
    begun = decoder.push([stream], [codes], [False])[0]
    ended = decoder.push([stream], [codes[:, :0]], [True])[0]
    assert difference(np.concatenate((begun, ended)), decoder.decode(codes)) < FLOAT64


def test_nothing_at_all_gives_nothing(decoder: StreamRunner) -> None:
    nothing = random_codes(decoder, 0)
    assert decoder.push([decoder.open()], [nothing], [True])[0].size == 0
    assert decoder.decode(nothing).size == 0


def test_the_first_and_the_last_code_can_be_said(decoder: StreamRunner) -> None:
    lowest = np.zeros((len(decoder.card.sizes), 12), np.int32)
    highest = lowest + np.array(decoder.card.sizes, np.int32)[:, None] - 1
    sounds: list[Codes] = [lowest, highest, random_codes(decoder, 12)]
    heard = [np.concatenate(streamed(decoder, codes, [12])) for codes in sounds]
    for codes, sound in zip(sounds, heard, strict=True):
        assert difference(sound, decoder.decode(codes)) < FLOAT64
    assert difference(heard[0], heard[1]) > 1e-3


def test_streams_of_any_position_share_a_batch(decoder: StreamRunner) -> None:
    """One begins when others are on their way, and one ends before them."""
    first = decoder.card.first_steps
    rows = [random_codes(decoder, steps, seed=steps) for steps in (3 * first + 4, first, first + 2)]
    long, short, late = (decoder.open() for _ in range(3))
    heard: dict[int, list[np.ndarray]] = {0: [], 1: [], 2: []}

    def push(streams: dict[int, tuple[int, int]], last: Sequence[bool]) -> None:
        states = [(long, short, late)[row] for row in streams]
        codes = [rows[row][:, begin:end] for row, (begin, end) in streams.items()]
        for row, samples in zip(streams, decoder.push(states, codes, last), strict=True):
            heard[row].append(samples)

    push({0: (0, first)}, [False])
    push({0: (first, 2 * first), 1: (0, first)}, [False, True])
    push({2: (0, first), 0: (2 * first, 3 * first)}, [False, False])
    push({0: (3 * first, 3 * first + 2), 2: (first, first + 2)}, [False, True])
    push({0: (3 * first + 2, 3 * first + 4)}, [True])
    for row, codes in enumerate(rows):
        assert difference(np.concatenate(heard[row]), decoder.decode(codes)) < FLOAT64


def test_the_same_codes_give_the_same_bytes(decoder: StreamRunner) -> None:
    codes = random_codes(decoder, 12)
    sizes = sizes_for(decoder, [2, 3])
    one, other = (np.concatenate(streamed(decoder, codes, sizes)) for _ in range(2))
    assert one.tobytes() == other.tobytes()


def test_a_stream_that_is_let_go_of_leaves_nothing(decoder: StreamRunner) -> None:
    stream = decoder.open()
    decoder.push([stream], [random_codes(decoder, 8)], [False])
    kept = [weakref.ref(tensor) for tensor in stream.tensors]
    del stream
    assert kept
    assert not any(reference() is not None for reference in kept)


def test_a_stream_that_has_ended_takes_nothing_more(decoder: StreamRunner) -> None:
    stream = decoder.open()
    codes = random_codes(decoder, 8)
    decoder.push([stream], [codes], [True])
    assert not stream.tensors
    with pytest.raises(ValueError, match="ended"):
        decoder.push([stream], [codes], [True])


@pytest.mark.parametrize("name", NAMES)
def test_the_check_at_load_is_passed(name: str) -> None:
    check_decoder(tiny_decoder(name, torch.float32))


def test_other_ways_to_decode_would_be_noticed(decoder: StreamRunner) -> None:
    """Windows without what was before, and codes in another order, give another sound."""
    codes = random_codes(decoder, 16)
    whole = decoder.decode(codes)
    parts = [decoder.decode(codes[:, at : at + 8]) for at in (0, 8)]
    windows = np.concatenate(parts)[: whole.size]
    assert float(np.abs(whole[: windows.size] - windows).max()) > 1e-3
    assert difference(decoder.decode(codes[:, ::-1].copy()), whole) > 1e-3
    if len(codes) > 1:
        assert difference(decoder.decode(codes[::-1].copy()), whole) > 1e-3
