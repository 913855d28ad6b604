from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.engines.scheduling.windows import Window, Windows

PARTS = st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=12)


def blur(frames: NDArray[np.float64], reach: int) -> NDArray[np.float64]:
    """A stand-in for a decoder: each frame depends on ``reach`` neighbours on each side."""
    kernel = np.arange(1.0, 2 * reach + 2)
    made = np.convolve(np.pad(frames, reach), kernel, "valid") if len(frames) else frames
    return made.astype(np.float64)


def clauses(parts: list[tuple[int, bool]]) -> list[int]:
    """Where clauses end, in frames."""
    ends = [sum(n for n, _ in parts[: i + 1]) for i, (_, last) in enumerate(parts) if last]
    return [*ends, sum(n for n, _ in parts)]


def whole(parts: list[tuple[int, bool]], frames: NDArray[np.float64], reach: int) -> list[float]:
    return [float(x) for a, b in pairwise([0, *clauses(parts)]) for x in blur(frames[a:b], reach)]


@settings(deadline=None)
@given(st.data(), st.integers(0, 6), PARTS)
def test_chunks_are_as_if_every_clause_were_decoded_whole(
    data: st.DataObject, reach: int, parts: list[tuple[int, bool]]
) -> None:
    frames = np.random.default_rng(0).normal(size=sum(n for n, _ in parts))
    windows, held, fed = Windows(reach), frames[:0], 0
    got: list[float] = []
    ends: list[int] = []
    for count, last in [*parts, (0, True)]:
        held = np.concatenate([held, frames[fed : fed + count]])
        fed += count
        windows.add(count, last=last)
        # It may also be that nothing is decoded until more has come.
        while windows.have and (windows.complete or data.draw(st.booleans())):
            window = windows.take(data.draw(st.integers(1, windows.have)))
            decoded = blur(held[: window.stop], reach)
            kept = decoded[window.left : len(decoded) - window.right]
            held = held[window.keep :]
            got += map(float, kept)
            assert len(kept) == window.frames
            if window.last:
                ends.append(len(got))
    assert got == pytest.approx(whole(parts, frames, reach))
    assert (len(held), windows.held) == (0, 0)
    # A frame without neighbours can be decoded before it is known to be the last.
    if reach:
        assert ends == sorted(set(clauses(parts)) - {0})


def test_a_window_waits_for_its_right_context_while_the_clause_goes_on() -> None:
    windows = Windows(10)
    windows.add(10, last=False)
    assert (windows.have, windows.complete, windows.held) == (0, False, 10)
    windows.add(4, last=False)
    assert windows.have == 4
    assert windows.take(4) == Window(stop=14, left=0, right=10, keep=0, last=False)
    assert windows.have == 0
    windows.add(0, last=True)
    assert windows.take(10) == Window(stop=14, left=4, right=0, keep=14, last=True)


def test_the_end_of_a_clause_is_not_reached_past() -> None:
    windows = Windows(10)
    windows.add(6, last=True)
    windows.add(20, last=True)
    assert (windows.have, windows.complete) == (6, True)
    first, second, third = windows.take(4), windows.take(2), windows.take(8)
    assert (first.stop, first.left, first.right, first.last) == (6, 0, 2, False)
    assert (second.stop, second.left, second.right, second.last) == (6, 4, 0, True)
    # The next clause: no context to the left.
    assert (third.stop, third.left, third.right, third.last) == (18, 0, 10, False)


def test_an_end_told_twice_ends_nothing_more() -> None:
    windows = Windows(2)
    windows.add(5, last=True)
    windows.take(3)
    windows.add(0, last=True)
    assert windows.take(2) == Window(stop=4, left=2, right=0, keep=4, last=True)
    assert (windows.have, windows.complete) == (0, False)


@pytest.mark.parametrize("size", [0, 5])
def test_more_than_there_is_cannot_be_taken(size: int) -> None:
    windows = Windows(2)
    windows.add(6, last=False)
    with pytest.raises(ValueError, match="expected 1 to 4 frames"):
        windows.take(size)
