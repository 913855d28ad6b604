"""Rate conversion: the same bytes however they are split, on time, and faithful."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.codecs.pcm import PcmError, from_float, to_float
from antiphon.codecs.resample import FloatStreamResampler, StreamResampler, resample

PAIRS = [
    (8000, 16000),
    (8000, 24000),
    (16000, 24000),
    (22050, 24000),
    (24000, 8000),
    (24000, 16000),
    (44100, 16000),
    (48000, 16000),
]


def noise(samples: int, seed: int = 7) -> bytes:
    values = np.random.default_rng(seed).integers(-20000, 20000, samples)
    return values.astype("<i2").tobytes()


def tone(hertz: float, rate: int, seconds: float = 1.0) -> NDArray[np.float32]:
    at = np.arange(int(rate * seconds)) / rate
    return (0.5 * np.sin(2 * np.pi * hertz * at)).astype(np.float32)


Whole = TypeVar("Whole", bytes, NDArray[np.float32])


def pieces(whole: Whole, cuts: list[int]) -> list[Whole]:
    at = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    return [whole[start:end] for start, end in pairwise(at)]


cuts = st.lists(st.integers(0, 5000), max_size=12)
pairs = st.sampled_from([*PAIRS, (16000, 16000)])


@given(pairs, st.integers(0, 2000), cuts)
@settings(max_examples=150)
def test_splitting_bytes_anywhere_changes_nothing(
    rates: tuple[int, int], samples: int, cuts: list[int]
) -> None:
    pcm = noise(samples)
    stream = StreamResampler(*rates)
    out = b"".join(stream.feed(piece) for piece in pieces(pcm, cuts)) + stream.flush()
    assert out == resample(pcm, *rates)


@given(pairs, st.integers(0, 2000), cuts)
@settings(max_examples=150)
def test_splitting_floats_anywhere_changes_nothing(
    rates: tuple[int, int], samples: int, cuts: list[int]
) -> None:
    whole = to_float(noise(samples))
    one, many = FloatStreamResampler(*rates), FloatStreamResampler(*rates)
    expected = np.concatenate([one.feed(whole), one.flush()])
    got = np.concatenate([*(many.feed(piece) for piece in pieces(whole, cuts)), many.flush()])
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, expected)


@given(pairs, st.integers(0, 3000))
def test_length_is_that_of_the_ratio(rates: tuple[int, int], samples: int) -> None:
    out = resample(noise(samples), *rates)
    assert abs(len(out) // 2 - round(samples * rates[1] / rates[0])) <= 1


@pytest.mark.parametrize("rates", PAIRS)
def test_a_minute_of_20_ms_chunks_keeps_pace(rates: tuple[int, int]) -> None:
    chunk = noise(rates[0] // 50)
    stream, samples_out, lags = StreamResampler(*rates), 0, list[float]()
    for number in range(1, 3001):
        samples_out += len(stream.feed(chunk)) // 2
        lags.append(number * 20 - samples_out * 1000 / rates[1])
    assert max(lags[-50:]) - min(lags[5:55]) < 1.0
    samples_out += len(stream.flush()) // 2
    assert abs(samples_out - 60 * rates[1]) <= 1


# Input held back before the first output, as the table of the module says, in ms.
@pytest.mark.parametrize(
    ("rates", "limit_ms"),
    [
        ((24000, 16000), 10.2),
        ((22050, 24000), 11.0),
        ((48000, 16000), 12.7),
        ((16000, 24000), 15.2),
        ((24000, 8000), 25.3),
        ((8000, 16000), 30.3),
    ],
)
def test_first_output_comes_early(rates: tuple[int, int], limit_ms: float) -> None:
    stream = FloatStreamResampler(*rates)
    one = np.ones(1, np.float32)
    limit = int(limit_ms * rates[0] / 1000)
    assert any(stream.feed(one).size for _ in range(limit))


@pytest.mark.parametrize("rates", PAIRS)
@pytest.mark.parametrize("share", [0.05, 0.5, 0.85])
def test_tones_in_the_band_come_out_as_they_were(rates: tuple[int, int], share: float) -> None:
    hertz = round(share * min(rates) / 2)
    out = to_float(resample(from_float(tone(hertz, rates[0])), *rates))
    middle = slice(rates[1] // 4, rates[1] * 3 // 4)
    phase = 2 * np.pi * hertz * np.arange(len(out))[middle] / rates[1]
    basis = np.stack([np.sin(phase), np.cos(phase)], axis=1)
    parts = np.linalg.lstsq(basis, out[middle], rcond=None)[0]
    assert abs(np.hypot(*parts) - 0.5) < 5e-4
    # No echo, alias or distortion above the rounding noise of 16 bits.
    assert np.std(out[middle] - basis @ parts) < 3e-5


@pytest.mark.parametrize("rates", [(24000, 16000), (48000, 16000), (24000, 8000)])
def test_tones_above_the_band_are_gone(rates: tuple[int, int]) -> None:
    out = to_float(resample(from_float(tone(1.1 * rates[1] / 2, rates[0])), *rates))
    assert np.std(out[rates[1] // 4 : rates[1] * 3 // 4]) < 3e-5


@pytest.mark.parametrize("rates", [*PAIRS, (16000, 16000)])
def test_a_flushed_stream_starts_afresh(rates: tuple[int, int]) -> None:
    stream = StreamResampler(*rates)
    first, second = noise(999, seed=1), noise(1501, seed=2)
    for pcm in (first, b"", second):
        assert stream.feed(pcm) + stream.flush() == resample(pcm, *rates)


def test_half_a_sample_is_held_then_dropped() -> None:
    stream = StreamResampler(16000, 16000)
    assert stream.feed(b"\x01") == b""
    assert stream.feed(b"\x02\x03") == b"\x01\x02"
    assert stream.flush() == b""
    assert stream.feed(b"\x04\x05") == b"\x04\x05"


def test_impossible_input_is_refused() -> None:
    with pytest.raises(PcmError, match="got 3"):
        resample(bytes(3), 8000, 16000)
    for rates in ((0, 8000), (8000, -1)):
        with pytest.raises(ValueError, match="positive sample rates"):
            StreamResampler(*rates)
    stream = FloatStreamResampler(8000, 16000)
    with pytest.raises(PcmError, match="float64"):
        stream.feed(np.zeros(4))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(PcmError, match=r"\(2, 2\)"):
        stream.feed(np.zeros((2, 2), np.float32))
