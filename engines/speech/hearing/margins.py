"""Silence around speech that begins or ends without any: Whisper leaves out such words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...chunks import Word
from .levels import frame_levels
from .passages import Passage
from .windows import RATE

MARGIN_SECONDS = 0.3
"""Of silence put where there is none. With less, words still get lost; with more no others
are found."""

EDGE_FRAMES = 10
"""Frames of 20 ms of which one that is not quiet means that there is no silence."""

QUIET_DB = 30.0
"""So far below the loudest frame is quiet."""


def with_margins(samples: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """``samples`` with silence around them where there is none; seconds put ahead of them."""
    levels = frame_levels(samples)
    if not len(levels):
        return samples, 0.0
    quiet = levels.max() - QUIET_DB
    ahead, behind = (
        round(MARGIN_SECONDS * RATE) if edge.max() > quiet else 0
        for edge in (levels[:EDGE_FRAMES], levels[-EDGE_FRAMES:])
    )
    return np.pad(samples, (ahead, behind)), ahead / RATE


def without_margins(passage: Passage, ahead: float, seconds: float) -> Passage:
    """``passage`` as if ``ahead`` seconds had not been put ahead of ``seconds`` of audio."""

    def at(time: float) -> float:
        return min(max(time - ahead, 0.0), seconds)

    words = (
        Word(word.text, 1000 * at(word.start_ms / 1000), 1000 * at(word.end_ms / 1000))
        for word in passage.words
    )
    return replace(passage, start=at(passage.start), end=at(passage.end), words=tuple(words))
