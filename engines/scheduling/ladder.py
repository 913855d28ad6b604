"""How long the chunks of a growing stream are: short at first, for an early start."""

from __future__ import annotations


def next_size(index: int, ladder: tuple[int, ...]) -> int:
    """Frames of chunk ``index`` (from 0) of a response; the last step repeats.

    Raises:
        ValueError: the index is negative, or the ladder has no steps.
    """
    if index < 0 or not ladder:
        raise ValueError(f"expected index >= 0 and at least one step, got {index} and {ladder}")
    return ladder[min(index, len(ladder) - 1)]
