import numpy as np
import pytest

from antiphon.engines.chunks import Samples
from antiphon.engines.speech.voices.tempo import paced

RATE = 24_000


def tone(hertz: float, seconds: float = 1.0) -> Samples:
    times = np.arange(round(seconds * RATE)) / RATE
    return np.asarray(0.5 * np.sin(2 * np.pi * hertz * times), np.float32)


def loudest_hertz(samples: Samples) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * RATE / len(samples)


@pytest.mark.parametrize("factor", [0.5, 1.5, 2.0])
@pytest.mark.parametrize("hertz", [90.0, 220.0, 1000.0])
def test_a_tone_is_shorter_or_longer_and_as_high(factor: float, hertz: float) -> None:
    made = paced(tone(hertz), factor, RATE)
    assert len(made) == round(RATE / factor)
    assert loudest_hertz(made) == pytest.approx(hertz, abs=3)
    # Windows that don't fit each other would cancel here and there.
    middle = np.abs(made[RATE // 20 : -RATE // 20])
    assert middle.reshape(-1)[: len(middle) // 480 * 480].reshape(-1, 480).max(axis=1).min() > 0.4


def test_what_comes_first_stays_first() -> None:
    sound = np.concatenate([tone(200), np.zeros(RATE, np.float32), tone(400)])
    made = paced(sound, 2, RATE)
    third = len(made) // 3
    assert loudest_hertz(made[:third]) == pytest.approx(200, abs=5)
    assert np.abs(made[third + 1500 : 2 * third - 1500]).max() < 0.01
    assert loudest_hertz(made[2 * third :]) == pytest.approx(400, abs=5)


def test_at_its_own_pace_nothing_changes() -> None:
    assert np.array_equal(paced(tone(100), 1, RATE), tone(100))


@pytest.mark.parametrize("length", [0, 1, 500, 2400])
def test_short_ones_have_the_length_asked_for(length: int) -> None:
    assert len(paced(tone(100)[:length], 2, RATE)) == round(length / 2)
