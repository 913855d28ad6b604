"""Reading one piece of audio: with how much of a window, how often, and what is believed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .guess import Guess, collapse, is_doubtful, is_runaway, is_silence
from .levels import frame_levels
from .passages import Passage
from .windows import FULL_SECONDS, sound_span, window_seconds

SILENCE_DB = -60.0
"""Where nothing is louder, nobody spoke: the softest speech of a usable microphone peaks
20 dB above."""

PROMPTED_NOISE = 0.45
"""Probability that nothing was said above which a prompt may have been repeated into noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How a piece shall be read."""

    language: str | None = None
    prompt: str = ""
    logprobs: bool = False
    translate: bool = False
    words: bool = False
    temperature: float = 0.0


class Guesses(Protocol):
    """A model that decodes; see :meth:`.whisper.Whisper.guess`."""

    def guess(
        self,
        samples: NDArray[np.float32],
        *,
        seconds: int,
        last_sound: float,
        language: str | None = None,
        prompt: str = "",
        logprobs: bool = False,
        translate: bool = False,
        words: bool = False,
        temperature: float = 0.0,
    ) -> Guess:
        """Decode ``samples``, 16 kHz."""
        ...


def read_piece(
    model: Guesses, wanted: Wanted, samples: NDArray[np.float32], *, once: bool = False
) -> tuple[Guess | None, int]:
    """What is said in ``samples``, at most a window; ``None`` where nothing is.

    The number is how often it was read a second time, as the first reading was doubtful;
    ``once``: then take it for nothing instead.
    """
    levels = frame_levels(samples)
    if not levels.size or levels.max() < SILENCE_DB:
        return None, 0
    first, last = sound_span(levels)
    look = partial(
        model.guess,
        samples,
        last_sound=last,
        language=wanted.language,
        logprobs=wanted.logprobs,
        translate=wanted.translate,
        words=wanted.words,
        temperature=wanted.temperature,
    )
    found = look(seconds=window_seconds(len(samples)), prompt=wanted.prompt)
    tries = 0
    misled = bool(wanted.prompt) and found.no_speech > PROMPTED_NOISE
    if not is_silence(found) and (misled or is_doubtful(found, last - first)):
        if once:
            return None, 0
        # Whisper is surest of itself in the window it was trained on, and without a prompt.
        tries = 1
        found = look(seconds=FULL_SECONDS)
        if is_runaway(found, last - first):
            found = _said_once(found)
    return (None if is_silence(found) else found), tries


def _said_once(found: Guess) -> Guess:
    text = collapse(found.text)
    if text == found.text:
        return found
    words = [word for each in found.passages for word in each.words]
    passages = [
        Passage(
            text=" " + text,
            start=found.passages[0].start,
            end=found.passages[-1].end,
            words=tuple(words[: len(text.split())]),
        )
    ]
    return replace(found, text=text, passages=tuple(passages))
