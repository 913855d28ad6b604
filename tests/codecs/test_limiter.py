"""The limiter: nothing above the ceiling, not even between samples, and nothing else changed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.ebur128 import measured

from antiphon.codecs.limiter import HELD_SAMPLES, Limiter
from antiphon.codecs.pcm import from_float

RATE = 24_000
CEILING = -1.3

Samples = NDArray[np.float32]


def limited(samples: Samples, cuts: list[int] | None = None) -> Samples:
    limiter = Limiter(CEILING)
    at = [0, *sorted(cut % (samples.size + 1) for cut in cuts or []), samples.size]
    pieces = [limiter.feed(samples[start:end]) for start, end in pairwise(at)]
    return np.concatenate([*pieces, limiter.flush()])


def noise(samples: int, level: float, seed: int = 3) -> Samples:
    return (np.random.default_rng(seed).normal(0, level, samples)).astype(np.float32)


def hiss(level: float) -> Samples:
    """A second of noise up to 10 kHz: above, no interpolation of a few samples is exact."""
    spectrum = np.fft.rfft(noise(RATE, level))
    spectrum[10_000:] = 0
    return np.asarray(np.fft.irfft(spectrum), dtype=np.float32)


def wave(hertz: float, level: float, seconds: float = 1.0, phase: float = 0.0) -> Samples:
    """A sine that swells and fades: a step has peaks of its own."""
    at = np.arange(int(seconds * RATE)) / RATE
    shape = np.minimum(1, 50 * np.minimum(at, seconds - at))
    sound: Samples = (level * shape * np.sin(2 * np.pi * hertz * at + phase)).astype(np.float32)
    return sound


@given(st.integers(0, 3000), st.floats(0.05, 1.5), st.lists(st.integers(0, 3000), max_size=12))
@settings(max_examples=150)
def test_splitting_anywhere_changes_nothing(size: int, level: float, cuts: list[int]) -> None:
    samples = noise(size, level)
    whole, split = limited(samples), limited(samples, cuts)
    assert whole.size == size
    assert np.array_equal(whole, split)


def test_what_is_below_the_ceiling_is_handed_on_as_it_is() -> None:
    samples = wave(440, 0.85)
    assert np.array_equal(limited(samples), samples)


def clicks() -> Samples:
    samples = np.zeros(RATE, np.float32)
    samples[:: RATE // 13] = 3.0
    return samples


@pytest.mark.parametrize(
    "samples",
    [
        hiss(0.5),
        hiss(5.0),
        wave(200, 3.0),
        # Between its samples, which are all 0.71, it reaches 1.
        wave(RATE / 4, 1.0, phase=np.pi / 4),
        wave(7900, 1.5),
        np.tanh(wave(150, 8.0)),
        clicks(),
        np.ones(3000, np.float32),
    ],
    ids=["noise", "loud noise", "low", "between", "high", "edges", "clicks", "from the start"],
)
def test_nothing_is_above_the_ceiling(samples: Samples) -> None:
    out = limited(samples)
    assert out.size == samples.size
    _, peak = measured(from_float(out))
    assert peak <= -1.0


def test_a_peak_between_samples_is_seen() -> None:
    quiet, loud = (limited(wave(RATE / 4, level, phase=np.pi / 4)) for level in (0.86, 1.0))
    assert float(np.abs(quiet).max()) == pytest.approx(0.86 * 0.7071, abs=1e-3)
    assert float(np.abs(loud[1000:-1000]).max()) < 0.99 * 0.7071


def test_behind_a_peak_the_gain_comes_back() -> None:
    samples = wave(440, 0.5)
    samples[6000] = 2.0
    out = limited(samples)
    assert np.array_equal(out[:5700], samples[:5700])
    assert 0.3 < out[6000] / samples[6000] < 0.45
    near = slice(6100, 6130)
    assert np.all(np.abs(out[near]) < np.abs(samples[near]))
    # Ten times as long as it takes for two thirds of it.
    assert np.array_equal(out[6000 + RATE // 5 :], samples[6000 + RATE // 5 :])


def test_the_gain_has_no_steps() -> None:
    samples = np.full(RATE, 0.5, np.float32)
    samples[12_000] = 2.0
    out = limited(samples)
    gains = np.delete(out / samples, 12_000)
    assert float(np.abs(np.diff(gains)).max()) < 0.02


def test_how_much_is_held_back() -> None:
    limiter = Limiter(CEILING)
    given = taken = 0
    for size in (1, 100, 24, 7, 1000, 23, 1, 480):
        taken += size
        given += limiter.feed(noise(size, 0.5)).size
        assert taken - HELD_SAMPLES <= given <= taken
    assert limiter.flush().size == taken - given
    assert limiter.flush().size == 0
