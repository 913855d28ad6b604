"""Silence between clauses: each is made by itself and brings silence of its own.

The voice begins a clause with 10 to 70 ms of silence and ends it with 120 to 290 ms,
whatever follows. Kept, that leaves an audible hole where a clause was cut early, so the
ends are brought to the length that the punctuation asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..clauses import Pause, is_speakable, pause_after

LEAD_FRAMES = 2
"""Kept ahead of the first sound: an "s" or a "t" sets in early."""

_TAIL_MS = {Pause.NONE: 0.0, Pause.COMMA: 80.0, Pause.UNSURE: 235.0, Pause.SENTENCE: 235.0}
"""After the end of the last sound. The voice falls silent about 40 ms sooner, and 25 ms
of the next clause are silent: that makes pauses of about 80, 125 and 300 ms."""


def pause_at_end(text: str) -> Pause:
    """The pause after a clause, by its last word, marks behind it, and line breaks."""
    pause = Pause.SENTENCE if "\n" in text[len(text.rstrip()) :] else Pause.NONE
    for word in reversed(text.split()):
        pause = max(pause, pause_after(word))
        if is_speakable(word):
            break
    return pause


def tail_ms(text: str) -> float:
    """Silence to leave after the last sound of a clause."""
    return _TAIL_MS[pause_at_end(text)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seam:
    """Where the sound of a clause begins and ends, and what is wanted around it; frames."""

    first_sound: int
    last_sound: int
    """Its end."""

    tail: int
    """Frames wanted from there on."""

    @property
    def cut(self) -> int:
        """Frames that are cut off ahead."""
        return max(0, self.first_sound - LEAD_FRAMES)

    def picks(self, frames: int) -> NDArray[np.int64]:
        """Which of a clause's so many frames are its sound with ends brought to length.

        Ascending; those of silence may be left out, or there more than once.
        """
        sound, silence = np.arange(self.cut, self.last_sound), np.arange(self.last_sound, frames)
        return np.concatenate([sound, _fit(silence, self.tail)])


def _fit(silence: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Shorten or lengthen in the middle: the ends fade from and to what is around them."""
    have = len(silence)
    if have == 0:
        return silence
    head = min(length - length // 2, have)
    tail = min(length // 2, have - head)
    middle = np.repeat(silence[head - 1 : head], length - head - tail)
    return np.concatenate([silence[:head], middle, silence[have - tail :]])
