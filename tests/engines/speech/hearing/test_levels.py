import numpy as np
import pytest

from antiphon.engines.speech.hearing.levels import (
    FLOOR_FRAMES,
    FRAME_SAMPLES,
    HELD_FRAMES,
    LEARNING_FRAMES,
    LOWEST_DB,
    Hush,
    frame_levels,
)


def test_levels_are_of_whole_frames_below_full_scale() -> None:
    square = np.ones(FRAME_SAMPLES, np.float32)
    samples = np.concatenate([square, square * 0.1, square * 0, square[:-1]])
    assert frame_levels(samples) == pytest.approx([0, -20, LOWEST_DB], abs=1e-3)


def after(*levels: float) -> Hush:
    hush = Hush()
    for level in levels:
        hush.is_quiet(level)
    return hush


SPEECH = [-20.0] * (LEARNING_FRAMES + 1)


def test_a_frame_far_below_the_speech_is_quiet() -> None:
    assert after(*SPEECH).is_quiet(-53)
    assert not after(*SPEECH).is_quiet(-51)


def test_a_frame_at_the_noise_floor_is_quiet_while_speech_stands_out() -> None:
    noise = [-45.0] * 30
    assert after(*noise, *SPEECH).is_quiet(-44)
    assert not after(*noise, *SPEECH).is_quiet(-42)
    assert not after(*[-30.0] * 30, *SPEECH).is_quiet(-29)


def test_a_short_gap_in_speech_is_no_noise_floor() -> None:
    gap = [-45.0] * (HELD_FRAMES - 2)
    assert not after(*SPEECH, *gap).is_quiet(-42)
    assert not any(after(*SPEECH, *gap[:length]).is_quiet(-45) for length in range(len(gap)))


def test_loudness_does_not_matter() -> None:
    for gain in (0, -25):
        assert after(*[level + gain for level in SPEECH]).is_quiet(-53 + gain)
        assert not after(*[level + gain for level in SPEECH]).is_quiet(-51 + gain)


def test_speech_is_forgotten_after_a_second() -> None:
    noise = [-45.0] * 30
    assert not after(*noise, *SPEECH, *[-45.0] * 50).is_quiet(-45)


def test_the_floor_is_forgotten_when_noise_has_risen_for_good() -> None:
    loud = [-30.0] * FLOOR_FRAMES
    assert not after(*[-60.0] * 30, *loud[:-40], -10).is_quiet(-29)
    assert after(*[-60.0] * 30, *loud, -10).is_quiet(-29)


def test_steady_noise_at_the_start_is_quiet_and_a_rise_is_not() -> None:
    hush = Hush()
    assert all(hush.is_quiet(-40 + wobble) for wobble in (0, 1, -1, 2, 0))
    assert not hush.is_quiet(-30)
    assert not after(*[-40.0] * LEARNING_FRAMES).is_quiet(-40)
