"""What a recognizer made of a stretch of audio, and whether that can be right."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from ...chunks import TokenLogprob
from .passages import Passage

SQUEEZE_LIMIT = 2.4
"""Ratio to its zlib size above which a text repeats itself (Whisper's own limit)."""

DOUBTFUL_LOGPROB = -1.0
"""Mean log probability of a token below which the words were made up (Whisper's own)."""

NOISE_PROBABILITY = 0.8
"""Above it nothing was said. Measured: noises, hum and silence 0.85 or more, speech 10 dB
above white noise 0.48 or less."""

DOUBTFUL_NOISE_PROBABILITY = 0.6
"""The same where the words are doubtful too (Whisper's own)."""

CHARS_PER_SECOND = 28.0
"""Twice the pace of a fast speaker; and ten characters are always allowed."""

DOUBTFUL_LANGUAGE = 0.7
"""Below it the detected language may be wrong: seen for one short word in noise."""

LONGEST_PHRASE = 16
"""Words of a phrase that is looked for in repetitions."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """One decoding."""

    text: str
    mean_logprob: float
    """Of the tokens."""

    no_speech: float
    """Probability that nothing was said, 0..1."""

    finished: bool = True
    """Whether the decoder came to an end by itself, short of its token limit."""

    language_probability: float = 1.0
    """Of the language that was detected; 1 where it was given."""

    tokens: tuple[TokenLogprob, ...] = ()
    """Those that spell the text and space around it, where they were asked for."""

    language: str | None = None
    """ISO 639-1, as it was given or detected."""

    passages: tuple[Passage, ...] = ()
    """The text once more, cut at the model's time stamps."""


def is_silence(guess: Guess) -> bool:
    """Whether nothing was said: what words there are were heard into noise."""
    if guess.no_speech > NOISE_PROBABILITY or not _WORD.search(guess.text):
        return True
    doubtful = guess.mean_logprob < DOUBTFUL_LOGPROB
    return doubtful and guess.no_speech > DOUBTFUL_NOISE_PROBABILITY


def is_doubtful(guess: Guess, speech_seconds: float) -> bool:
    """Whether the decoder may have lost its way: it found nothing probable, or repeats itself.

    ``speech_seconds``: how long anyone can have spoken.
    """
    if is_runaway(guess, speech_seconds) or guess.mean_logprob < DOUBTFUL_LOGPROB:
        return True
    if guess.language_probability < DOUBTFUL_LANGUAGE:
        return True
    return _squeeze(guess.text) > SQUEEZE_LIMIT or _repeats(guess.text)


def is_runaway(guess: Guess, speech_seconds: float) -> bool:
    """Whether the decoder found no end, or more words than anyone can say in the time."""
    return not guess.finished or len(guess.text) > 10 + CHARS_PER_SECOND * speech_seconds


def collapse(text: str) -> str:
    """``text`` with a phrase that it ends by repeating three times or more said once."""
    words, keys = text.split(), _keys(text)
    for size in range(1, LONGEST_PHRASE + 1):
        # The last copy may be cut short by the token limit.
        kept = min(_length_without_loop(keys, size, cut) for cut in range(size))
        if kept < len(keys):
            return " ".join(words[:kept])
    return text


def _length_without_loop(keys: list[str], size: int, cut: int) -> int:
    """Words left when the loop of ``size`` words, ``cut`` of them once more, is said once."""
    whole = len(keys) - cut
    copies = _copies(keys[:whole], size)
    if copies < 3 or keys[whole:] != keys[whole - size : whole - size + cut]:
        return len(keys)
    return whole - (copies - 1) * size


def _squeeze(text: str) -> float:
    raw = text.encode()
    return len(raw) / len(zlib.compress(raw))


def _repeats(text: str) -> bool:
    """Whether the text ends with a phrase said twice, or a word said three times."""
    # A sign alone has no key: "$" at the end would hide "$0. $0. $0. $".
    keys = [key for key in _keys(text) if key]
    sizes = range(1, LONGEST_PHRASE + 1)
    return any(_copies(keys, size) >= (3 if size == 1 else 2) for size in sizes)


def _keys(text: str) -> list[str]:
    """The words as they are compared: without case and punctuation."""
    return ["".join(_WORD.findall(word)).lower() for word in text.split()]


def _copies(keys: list[str], size: int) -> int:
    """How often the last ``size`` words are said in a row at the end."""
    copies, end = 1, len(keys) - size
    while end >= size and keys[end - size : end] == keys[-size:]:
        copies, end = copies + 1, end - size
    return copies
