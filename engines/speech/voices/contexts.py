"""Whether a graph reaches no further than is declared, measured when it is loaded.

Stretches are decoded with a context that is then cut off. Were it too short, every
chunk would be joined to the next with a click that nothing else would notice.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...chunks import StageError
from ...stage import StageFailure

BODY = 8
"""Frames compared."""

TOLERANCE = 1e-3
"""Of what is made, its deviation being 1; a frame of context too few makes at least ten
times as much, summing up the same numbers in another order a hundredth of it."""


def context_error(
    run: Callable[[NDArray[np.float32]], NDArray[np.float32]], channels: int, context: int
) -> float:
    """How much a stretch decoded with its context differs from the same out of a longer one.

    ``run``: a whole multiple of samples a frame, along the last axis, from ``(channels, n)``.
    The difference is the largest, against the deviation of all that is made.
    """
    around = context + BODY
    frames = np.random.default_rng(0).standard_normal(
        (channels, 2 * around + BODY), dtype=np.float32
    )
    whole, part = run(frames), run(frames[:, around - context : around + BODY + context])
    hop = whole.shape[-1] // frames.shape[1]
    wanted = whole[..., around * hop : (around + BODY) * hop]
    made = part[..., context * hop : (context + BODY) * hop]
    return float(np.abs(made - wanted).max() / whole.std())


def require_context(
    name: str,
    run: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    channels: int,
    context: int,
) -> None:
    """Refuse a graph for which the declared context is not enough.

    Raises:
        StageFailure: the message names the key of the voice and the error measured.
    """
    error = context_error(run, channels, context)
    if not error <= TOLERANCE:
        what = f"expected an error of at most {TOLERANCE:g} with {name} {context}, got {error:.2g}"
        raise StageFailure(StageError("model_unusable", what))


def require_same(
    name: str,
    run: Callable[[NDArray[np.float32], int, int], NDArray[np.float32]],
    channels: int,
    context: int,
) -> None:
    """Refuse a graph that makes a stretch otherwise where it is told what is context.

    ``run``: samples of ``(1, channels, n)`` but for so many frames at each end.

    Raises:
        StageFailure: the message names the key of the voice and the error measured.
    """
    error = cut_error(run, channels, context)
    if not error <= TOLERANCE:
        what = f"expected an error of at most {TOLERANCE:g} with {name}, got {error:.2g}"
        raise StageFailure(StageError("model_unusable", what))


def cut_error(
    run: Callable[[NDArray[np.float32], int, int], NDArray[np.float32]],
    channels: int,
    context: int,
) -> float:
    """How much it differs, against the deviation of what is made."""
    count = 2 * context + BODY
    frames = np.random.default_rng(0).standard_normal((1, channels, count), dtype=np.float32)
    whole, part = run(frames, 0, 0), run(frames, context, context)
    hop = whole.shape[-1] // count
    wanted = whole[..., context * hop : (context + BODY) * hop]
    return float(np.abs(part - wanted).max() / whole.std())
