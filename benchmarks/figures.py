"""Figures of what was measured."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that ``share`` of them, from 0 to 1, do not exceed.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("expected at least one value")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
