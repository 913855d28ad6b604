import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.engines.speech.hearing.levels import frame_levels
from antiphon.engines.speech.hearing.windows import (
    LONGEST_PIECE,
    RATE,
    SHORTEST_PIECE,
    pieces,
    sound_span,
    window_seconds,
)


def hiss(seconds: float) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(0, 0.1, round(seconds * RATE)).astype(np.float32)


@pytest.mark.parametrize(
    ("seconds", "window"), [(0, 5), (0.5, 5), (4, 5), (4.01, 6), (27.9, 29), (28, 29), (29.5, 30)]
)
def test_a_window_holds_the_audio_and_a_second_of_silence(seconds: float, window: int) -> None:
    assert window_seconds(round(seconds * RATE)) == window


@given(st.floats(0, 100))
def test_pieces_join_to_the_whole_and_fit_a_window(seconds: float) -> None:
    whole = hiss(seconds)
    cut = pieces(whole)
    assert np.array_equal(np.concatenate(cut), whole)
    assert all(len(piece) <= LONGEST_PIECE for piece in cut)
    assert all(len(piece) >= SHORTEST_PIECE for piece in cut[:-1])


def test_a_cut_goes_through_the_quietest_place() -> None:
    whole = hiss(40)
    whole[22 * RATE : round(22.4 * RATE)] *= 0.01
    whole[25 * RATE : round(25.1 * RATE)] *= 0.001
    first, second = pieces(whole)
    assert 22.1 * RATE <= len(first) <= 22.3 * RATE
    assert len(first) + len(second) == 40 * RATE


def test_the_span_of_sound_leaves_out_quiet_ends() -> None:
    whole = np.concatenate([hiss(1) * 0.001, hiss(2), hiss(1) * 0.001])
    assert sound_span(frame_levels(whole)) == (1.0, 3.0)
