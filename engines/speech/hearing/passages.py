"""What was decoded of a stretch of audio, cut at the time stamps in it, and the times of words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...chunks import TokenLogprob, Word
from .levels import FRAME_SAMPLES
from .windows import RATE, SOUND_DB

TICK_SECONDS = 0.02
"""Step of Whisper's time stamps."""

FRAME_SECONDS = FRAME_SAMPLES / RATE

REACH_SECONDS = 0.4
"""So far a time is moved over sound that it cuts into: the model's stamps are that rough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Tokens between two time stamps, by their places among all of them."""

    start: float
    end: float
    """Seconds from the first sample."""

    at: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A sentence or a part of one, with its times."""

    text: str
    """With the space ahead of it, where the language has spaces."""

    start: float
    end: float
    """Seconds from the first sample."""

    tokens: tuple[int, ...] = ()
    words: tuple[Word, ...] = ()
    """Times in ms from the first sample, where they were asked for."""

    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class TimedTokens:
    """A word as the decoder's attention found it."""

    text: str
    count: int
    """How many tokens it has."""

    start: float
    end: float


def split_spans(
    tokens: Sequence[int], first_tick: int, *, latest: float, last: float
) -> list[Span]:
    """The tokens between time stamps, which are those from ``first_tick`` on.

    Left out is what begins at ``latest`` seconds or later. What has no end stamp ends with
    the last sound, at ``last``.
    """
    spans: list[Span] = []
    begun, inside = 0.0, list[int]()

    def close(end: float) -> None:
        if inside and begun < latest:
            spans.append(Span(start=begun, end=min(max(begun, end), last), at=tuple(inside)))

    for index, token in enumerate(tokens):
        if token < first_tick:
            inside.append(index)
            continue
        tick = (token - first_tick) * TICK_SECONDS
        close(tick)
        begun, inside = tick, []
    close(last)
    return spans


def merge_marks(words: Iterable[TimedTokens]) -> list[TimedTokens]:
    """Words with the punctuation that stands by itself joined to them: to the word before,
    or, where a space parts it from that, to the word after.
    """
    merged: list[TimedTokens] = []
    ahead: list[TimedTokens] = []
    for word in words:
        if any(each.isalnum() for each in word.text):
            merged.append(_joined([*ahead, word], word))
            ahead = []
        elif merged and not word.text.startswith(" "):
            merged[-1] = _joined([merged[-1], word], merged[-1])
        else:
            ahead.append(word)
    if ahead and merged:
        merged[-1] = _joined([merged[-1], *ahead], merged[-1])
    return merged


def _joined(parts: Sequence[TimedTokens], word: TimedTokens) -> TimedTokens:
    """All parts as one, sounding when ``word`` does."""
    text, count = "".join(each.text for each in parts), sum(each.count for each in parts)
    return TimedTokens(text, count, word.start, word.end)


def fit_passages(passages: Iterable[Passage], levels: NDArray[np.float64]) -> tuple[Passage, ...]:
    """Passages with their times moved to where sound begins and ends.

    ``levels``: in dB, one a frame, at least one. The times of words count for more than the
    model's stamps, which can be a second off. Afterwards no passage begins before the one
    ahead of it ends, and words lie in order inside their passage.
    """
    loud = levels >= levels.max() - SOUND_DB
    fitted: list[Passage] = []
    earliest = 0.0
    for each in passages:
        start, end = each.start, each.end
        if each.words:
            start, end = each.words[0].start_ms / 1000, each.words[-1].end_ms / 1000
        start = max(start, earliest)
        start, end = fit_to_sound(start, max(end, start), loud, earliest)
        words = fit_words(each.words, start * 1000, end * 1000)
        fitted.append(replace(each, start=start, end=end, words=words))
        earliest = end
    return tuple(fitted)


def fit_to_sound(
    start: float, end: float, loud: NDArray[np.bool_], earliest: float = 0.0
) -> tuple[float, float]:
    """``start`` and ``end``, seconds, with silence left out and a sound they cut taken whole,
    as far as it reaches :data:`REACH_SECONDS`; none before ``earliest``.
    """
    reach = round(REACH_SECONDS / FRAME_SECONDS)
    first, after = int(start / FRAME_SECONDS), math.ceil(end / FRAME_SECONDS)
    inside = np.flatnonzero(loud[first:after])
    if not inside.size:
        return start, end
    first, after = first + int(inside[0]), first + int(inside[-1]) + 1
    lowest = max(math.ceil(earliest / FRAME_SECONDS), first - reach)
    while first > lowest and loud[first - 1]:
        first -= 1
    highest = min(len(loud), after + reach)
    while after < highest and loud[after]:
        after += 1
    return max(first * FRAME_SECONDS, earliest), after * FRAME_SECONDS


def fit_words(words: Iterable[Word], start_ms: float, end_ms: float) -> tuple[Word, ...]:
    """Words moved to lie in order between two times, ms."""
    fitted: list[Word] = []
    for word in words:
        begin = min(max(word.start_ms, start_ms), end_ms)
        finish = min(max(word.end_ms, begin), end_ms)
        fitted.append(Word(word.text, begin, finish))
        start_ms = finish
    return tuple(fitted)
