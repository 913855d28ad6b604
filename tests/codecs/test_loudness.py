"""Loudness: measured as FFmpeg measures it, and kept while the sound is made."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.babble import RATE, babble
from tests.support.ebur128 import measured

from antiphon.codecs.loudness import (
    DELAY_SAMPLES,
    PEAK_DBTP,
    SILENCE_LUFS,
    UNKNOWN_LEVEL,
    Leveller,
    VoiceLevel,
    integrated,
    measure_voice,
)
from antiphon.codecs.pcm import to_float
from antiphon.codecs.weighting import HOP, Weighting

SAMPLE = babble(8, seed=99)
LEVEL = measure_voice(SAMPLE)


def levelled(
    pcm: bytes, target: float, level: VoiceLevel = LEVEL, cuts: list[int] | None = None
) -> bytes:
    leveller = Leveller(target, level)
    at = [0, *sorted(cut % (len(pcm) + 1) for cut in cuts or []), len(pcm)]
    return b"".join(leveller.feed(pcm[a:b]) for a, b in pairwise(at)) + leveller.flush()


def sine(hertz: float, dbfs: float, seconds: float) -> bytes:
    at = np.arange(int(seconds * RATE)) / RATE
    samples = 10 ** (dbfs / 20) * np.sin(2 * np.pi * hertz * at)
    return np.rint(samples * 32767).astype("<i2").tobytes()


# Measured.


def test_the_scale_is_that_of_the_standard() -> None:
    """In one channel, a sine of 997 Hz at full scale has -3.01 LUFS."""
    assert integrated(sine(997, -20, 5)) == pytest.approx(-23.01, abs=0.05)


@pytest.mark.parametrize(
    "pcm",
    [
        *(sine(hertz, -20, 3) for hertz in (25, 60, 200, 1000, 2500, 6000, 11000)),
        SAMPLE,
        babble(0.6),
        # The softer part is a pause beside the other.
        babble(4) + babble(4, gain_db=-25) + bytes(2 * RATE),
    ],
)
def test_it_is_measured_as_ffmpeg_does(pcm: bytes) -> None:
    assert integrated(pcm) == pytest.approx(measured(pcm)[0], abs=0.05)


@pytest.mark.parametrize("pcm", [b"", bytes(2 * RATE), babble(0.39), babble(3, gain_db=-60)])
def test_what_has_no_loudness(pcm: bytes) -> None:
    assert integrated(pcm) == SILENCE_LUFS


@given(st.integers(0, 3000), st.lists(st.integers(0, 3000), max_size=10))
@settings(max_examples=100)
def test_splitting_changes_no_measure(size: int, cuts: list[int]) -> None:
    samples = to_float(SAMPLE)[:size]
    at = [0, *sorted(cut % (size + 1) for cut in cuts), size]
    weighting = Weighting()
    split = [each for a, b in pairwise(at) for each in weighting.feed(samples[a:b])]
    assert split == Weighting().feed(samples)
    assert len(split) == size // HOP


# Kept.


@given(st.integers(0, 40_000), st.lists(st.integers(0, 40_000), max_size=12))
@settings(max_examples=60)
def test_splitting_anywhere_changes_nothing(size: int, cuts: list[int]) -> None:
    pcm = SAMPLE[:size]
    whole = levelled(pcm, -14)
    assert levelled(pcm, -14, cuts=cuts) == whole
    assert len(whole) == size - size % 2


@pytest.mark.parametrize("target", [-36, -23, -16, -12])
@pytest.mark.parametrize("seconds", [3, 12])
def test_a_text_comes_out_as_loud_as_asked(target: float, seconds: float) -> None:
    loudness, peak = measured(levelled(babble(seconds, seed=5), target))
    assert loudness == pytest.approx(target, abs=1)
    assert peak <= PEAK_DBTP


@pytest.mark.parametrize("gain_db", [3.0, 5.0, 7.0])
def test_a_word_that_sticks_out_is_brought_nearer(gain_db: float) -> None:
    word = babble(0.6, seed=4)
    word = babble(0.6, seed=4, gain_db=LEVEL.loudness - integrated(word) + gain_db)
    assert integrated(word) == pytest.approx(LEVEL.loudness + gain_db, abs=0.2)
    loudness, _ = measured(levelled(word, -23))
    assert -1 < loudness + 23 < gain_db - 0.5


def test_the_level_is_the_same_throughout() -> None:
    parts = [babble(9, gain_db=gain_db, seed=7) for gain_db in (0, 3, -3)]
    out = levelled(b"".join(parts), -20)
    size = len(parts[0])
    # The same sound each time. Where it changes, it takes a moment.
    after = [measured(out[end - 6 * 2 * RATE : end])[0] for end in (size, 2 * size, 3 * size)]
    assert after == pytest.approx([-20] * 3, abs=1)
    assert max(after) - min(after) < 1.5


@pytest.mark.parametrize("gain_db", [-14, 8])
def test_a_voice_that_nobody_knows_gets_there(gain_db: float) -> None:
    out = levelled(babble(12, gain_db=gain_db), -20, UNKNOWN_LEVEL)
    assert measured(out[len(out) // 2 :])[0] == pytest.approx(-20, abs=1.2)


def test_a_pause_changes_no_gain() -> None:
    speech = babble(4, seed=8)
    out = levelled(speech + bytes(10 * 2 * RATE) + speech, -20)
    first, second = out[len(speech) // 2 : len(speech)], out[-len(speech) // 2 :]
    assert measured(second)[0] == pytest.approx(measured(first)[0], abs=0.7)
    assert set(out[len(speech) + 4 * HOP : -len(speech) - 4 * HOP]) == {0}


def test_sound_stays_where_it_was() -> None:
    pcm = bytes(2 * 5000) + b"\x00\x20" + bytes(2 * 5000)
    out = np.frombuffer(levelled(pcm, -24, VoiceLevel(-24.0)), "<i2")
    assert int(np.abs(out).argmax()) == 5000


def test_the_gain_has_no_steps() -> None:
    """It follows a jump of 20 dB in both directions."""
    tone = np.frombuffer(sine(1000, -40, 1.0), "<i2").astype(np.float64)
    sound = np.concatenate([tone, tone * 10, tone])
    out = np.frombuffer(levelled(np.rint(sound).astype("<i2").tobytes(), -30), "<i2")
    hops = np.abs(sound).reshape(-1, HOP).sum(axis=1), np.abs(out).reshape(-1, HOP).sum(axis=1)
    gains = 20 * np.log10(hops[1] / hops[0])
    steps = np.diff(gains)
    assert float(steps.min()) > -1.0
    assert float(steps.max()) < 0.4
    assert float(gains.max() - gains.min()) > 3


def test_how_much_is_held_back() -> None:
    leveller = Leveller(-16, LEVEL)
    taken = given = 0
    for size in (1, 3, 480, 4801, 24_000, 2):
        taken += size
        given += len(leveller.feed(SAMPLE[taken - size : taken]))
        assert taken - 2 * DELAY_SAMPLES - 1 <= given <= taken
    assert given + len(leveller.flush()) == taken - taken % 2


# Of a voice.


def test_the_level_of_a_voice() -> None:
    assert LEVEL.loudness == pytest.approx(measured(SAMPLE)[0], abs=0.05)
    assert LEVEL.aim(-30) == pytest.approx(-30)
    # Where peaks are limited, more must be aimed at than is reached.
    assert LEVEL.aim(-12) > -12
    aims = [LEVEL.aim(target) for target in range(-36, -11)]
    assert aims == sorted(aims)


def test_a_voice_that_says_nothing_is_unknown() -> None:
    assert measure_voice(bytes(5 * 2 * RATE)) == UNKNOWN_LEVEL
