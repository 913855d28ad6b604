"""Recordings are cut at pauses while they come in, and nothing that sounds is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.codecs.pcm import from_float
from antiphon.engines.chunks import Samples
from antiphon.engines.speech.hearing.stretches import (
    AIM_SECONDS,
    FIRST_SECONDS,
    MARGIN_FRAMES,
    Stretch,
    Stretches,
    find_pause,
)
from antiphon.engines.speech.hearing.windows import LONGEST_PIECE, RATE

RNG = np.random.default_rng(3)


def noise(seconds: float, db: float = -20.0) -> Samples:
    return RNG.normal(0, 10 ** (db / 20), round(seconds * RATE)).astype(np.float32).clip(-1, 1)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE), np.float32)


def cut(samples: Samples, step: int = RATE, rate: int = RATE) -> list[Stretch]:
    pcm, stretches = from_float(samples), Stretches(rate)
    found: list[Stretch] = []
    for start in range(0, len(pcm), 2 * step):
        found += stretches.feed(pcm[start : start + 2 * step])
    return found + stretches.finish()


def spans(found: list[Stretch]) -> list[tuple[float, float]]:
    return [(each.start / RATE, (each.start + len(each.samples)) / RATE) for each in found]


def test_a_recording_is_cut_in_its_pauses() -> None:
    parts = [noise(6), silence(0.6), noise(3), silence(0.6), noise(8), silence(0.6), noise(2)]
    found = spans(cut(np.concatenate(parts)))
    assert len(found) == 3
    assert found[0] == pytest.approx((0, 6.2), abs=0.05)
    # The pause at 9.6 s comes too soon.
    assert found[1] == pytest.approx((6.4, 18.4), abs=0.05)
    assert found[2][1] == pytest.approx(20.8, abs=0.05)


def test_the_first_text_comes_soon() -> None:
    stretches = Stretches(RATE)
    assert stretches.feed(from_float(noise(FIRST_SECONDS - 1))) == []
    assert stretches.feed(from_float(silence(1.5))) != []
    assert stretches.feed(from_float(np.concatenate([noise(5), silence(0.5)]))) == []
    assert stretches.feed(from_float(np.concatenate([noise(AIM_SECONDS), silence(0.5)]))) != []


def test_speech_without_a_pause_is_cut_where_it_is_quietest() -> None:
    samples = np.concatenate([noise(22), noise(0.3, -32), noise(20)])
    found = cut(samples)
    assert all(len(each.samples) <= LONGEST_PIECE for each in found)
    assert len(found[0].samples) / RATE == pytest.approx(22.15, abs=0.2)
    assert sum(len(each.samples) for each in found) == len(samples)


def test_pauses_are_found_in_noise_that_speech_stands_out_of() -> None:
    samples = np.concatenate([noise(6), noise(0.6, -45), noise(3)]) + noise(9.6, -45)
    assert spans(cut(samples))[0][1] == pytest.approx(6.2, abs=0.3)


def test_silence_costs_nothing_and_moves_what_follows() -> None:
    assert cut(silence(100)) == []
    assert cut(silence(0)) == []
    margin = MARGIN_FRAMES * 0.02
    (found,) = spans(cut(np.concatenate([silence(70), noise(2), silence(50)])))
    assert found == pytest.approx((70 - margin, 72 + margin), abs=0.03)


def test_little_is_held_however_much_comes() -> None:
    stretches = Stretches(8000)
    minute = from_float(noise(60)[: 60 * 8000])
    for _ in range(3):
        for each in stretches.feed(minute):
            assert len(each.samples) <= LONGEST_PIECE
        assert len(stretches._held) < LONGEST_PIECE  # pyright: ignore[reportPrivateUsage]


def test_other_rates_keep_their_times() -> None:
    samples = np.concatenate([noise(6), silence(0.6), noise(3)])
    tripled = np.repeat(samples, 3)
    for one, other in zip(spans(cut(samples)), spans(cut(tripled, rate=48_000)), strict=True):
        assert one == pytest.approx(other, abs=0.05)
    with pytest.raises(ValueError, match="positive"):
        Stretches(0)


def test_a_pause_that_begins_too_soon_does_not_count() -> None:
    levels = np.full(200, -20.0)
    levels[20:60] = levels[120:150] = -80.0
    assert find_pause(levels, 0) == 30
    assert find_pause(levels, 70) == 130
    assert find_pause(levels, 140) == 0
    # What lasts on both sides of the earliest frame counts from there.
    assert find_pause(levels, 35) == 45


@settings(max_examples=30)
@given(st.lists(st.integers(1, 40_000), min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_however_it_comes_no_sound_is_lost(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    loud = np.repeat(rng.random(80) < 0.7, RATE // 2)
    samples = (rng.normal(0, 0.1, len(loud)) * loud).astype(np.float32).clip(-1, 1)
    pcm, stretches, found, at = from_float(samples), Stretches(RATE), list[Stretch](), 0
    for size in sizes:
        found += stretches.feed(pcm[at : at + size])
        at += size
    found += stretches.feed(pcm[at:]) + stretches.finish()
    heard = np.zeros(len(loud), bool)
    for each in found:
        assert each.samples.size
        assert not heard[each.start : each.start + len(each.samples)].any()
        heard[each.start : each.start + len(each.samples)] = True
    # Half a second is a whole number of frames.
    assert heard[loud].all()
