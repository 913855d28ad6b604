"""What is said of a word's sound."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from antiphon.engines.chunks import Samples, Word
from antiphon.engines.speech.families.family import Reference, family
from antiphon.engines.speech.families.measures import Measures, measure
from antiphon.engines.speech.families.outetts import Line

RATE = 24_000


def tone(hertz: float, level: float = 0.5, seconds: float = 0.4) -> Samples:
    times = np.arange(round(seconds * RATE)) / RATE
    return (level * np.sin(2 * np.pi * hertz * times)).astype(np.float32)


@pytest.mark.parametrize("hertz", [220, 350, 500])
def test_a_voice_of_one_pitch(hertz: int) -> None:
    found = measure(tone(hertz), RATE)
    assert found.energy == 35  # 0.5 / sqrt(2)
    assert found.pitch == pytest.approx(100 * (hertz - 75) / 525, abs=3)
    assert found.spectral_centroid == pytest.approx(100 * hertz / 12_000, abs=3)


def test_what_is_unvoiced_counts_as_the_lowest_pitch() -> None:
    noise = np.random.default_rng(1).uniform(-1, 1, RATE // 2).astype(np.float32)
    found = measure(noise, RATE)
    assert found.pitch < 10
    assert found.spectral_centroid == pytest.approx(50, abs=3)
    assert measure(np.zeros(RATE, np.float32), RATE) == Measures(0, 0, 0)
    assert measure(np.zeros(0, np.float32), RATE) == Measures(0, 0, 0)


def test_a_recording_is_divided_among_its_words() -> None:
    describe = family("outetts").describe
    assert describe is not None
    # Half a second of 220 Hz, then half a second of 480 Hz; 75 steps.
    sound = np.concatenate([tone(220, 0.5, 0.5), tone(480, 0.25, 0.5)])
    words = (Word(" low", 0, 480), Word("high ", 520, 700))
    codes = np.zeros((2, 75), np.int32)
    found = describe(Reference(text="low high", codes=codes, words=words), sound, RATE)
    low, high = cast("list[Line]", found.features["words"])
    assert (low["word"], low["first"], low["steps"]) == ("low", 0, 36)
    # To 20 steps behind its end, at 700 ms: 52.5 steps.
    assert (high["word"], high["first"], high["steps"]) == ("high", 36, 36)
    assert low["energy"] > high["energy"] > 0
    assert high["pitch"] > 50 > low["pitch"]


@pytest.mark.parametrize("words", [(), (Word("a", 100, 50),)])
def test_words_without_times_are_refused(words: tuple[Word, ...]) -> None:
    describe = family("outetts").describe
    assert describe is not None
    bare = Reference(text="a", codes=np.zeros((2, 75), np.int32), words=words)
    with pytest.raises(ValueError, match="word"):
        describe(bare, np.zeros(RATE, np.float32), RATE)
