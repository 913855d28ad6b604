from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.engines.scheduling.windows import Windows

LADDERS = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)
PARTS = st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=12)


def blur(frames: NDArray[np.float64], reach: int) -> NDArray[np.float64]:
    """A stand-in for a decoder: each frame depends on ``reach`` neighbours on each side."""
    kernel = np.arange(1.0, 2 * reach + 2)
    made = np.convolve(np.pad(frames, reach), kernel, "valid") if len(frames) else frames
    return made.astype(np.float64)


def whole(parts: list[tuple[int, bool]], frames: NDArray[np.float64], reach: int) -> list[float]:
    ends = [sum(n for n, _ in parts[: i + 1]) for i, (_, last) in enumerate(parts) if last]
    bounds = [0, *ends, len(frames)]
    return [float(x) for a, b in pairwise(bounds) for x in blur(frames[a:b], reach)]


@settings(deadline=None)
@given(LADDERS, st.integers(0, 6), PARTS)
def test_chunks_are_as_if_every_clause_were_decoded_whole(
    ladder: tuple[int, ...], reach: int, parts: list[tuple[int, bool]]
) -> None:
    frames = np.random.default_rng(0).normal(size=sum(n for n, _ in parts))
    windows, held, fed = Windows(ladder, reach), frames[:0], 0
    got: list[float] = []
    sizes: list[int] = []
    for count, last in [*parts, (0, True)]:
        held = np.concatenate([held, frames[fed : fed + count]])
        fed += count
        windows.add(count, last=last)
        while window := windows.next():
            decoded = blur(held[: window.stop], reach)
            kept = decoded[window.left : len(decoded) - window.right]
            held = held[window.keep :]
            got += map(float, kept)
            sizes.append(len(kept))
    assert got == pytest.approx(whole(parts, frames, reach))
    assert all(size <= ladder[min(i, len(ladder) - 1)] for i, size in enumerate(sizes))
    assert len(held) == 0


def test_a_window_waits_for_its_right_context_while_the_clause_goes_on() -> None:
    windows = Windows((4,), 10)
    windows.add(13, last=False)
    assert windows.next() is None
    windows.add(1, last=False)
    window = windows.next()
    assert window is not None
    assert (window.stop, window.left, window.right, window.keep) == (14, 0, 10, 0)
    assert windows.next() is None


def test_the_end_of_a_clause_is_not_waited_for_and_not_reached_past() -> None:
    windows = Windows((4, 8), 10)
    windows.add(6, last=True)
    windows.add(20, last=True)
    first, second, third = windows.next(), windows.next(), windows.next()
    assert first is not None
    assert (first.stop, first.left, first.right) == (6, 0, 2)
    assert second is not None
    assert (second.stop, second.left, second.right) == (6, 4, 0)
    # The next clause: no context to the left, and the ladder goes on at its last step.
    assert third is not None
    assert (third.stop, third.left, third.right) == (18, 0, 10)
