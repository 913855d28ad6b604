"""When each word of a text sounds, from the durations of its phonemes.

The phonemes of a text come in groups that mostly are its words. But a number is several
groups and "of the" is one, so words and groups are matched by how many sounds they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ...chunks import Word

MOST_WORDS = 4
"""Words that one group may hold."""

MOST_GROUPS = 10
"""Groups that one word may be read as: a long number or an address."""

UNEVEN = 0.5
"""What a word or group beyond one to one costs, in sounds that don't fit."""

BAND = 12
"""How far the words may run ahead of the groups, or behind: bounds the work."""

_MOVES = (
    *((words, 1) for words in range(1, MOST_WORDS + 1)),
    *((1, groups) for groups in range(2, MOST_GROUPS + 1)),
    (2, 2),
    (2, 3),
    (3, 2),
)


@dataclass(frozen=True, slots=True)
class Match:
    """Consecutive words that are spoken as these consecutive groups."""

    words: tuple[int, int]
    groups: tuple[int, int]
    """Start and stop of each."""


def word_times(
    words: Sequence[str],
    sounds: Sequence[int],
    groups: Sequence[tuple[float, float]],
    group_sounds: Sequence[int],
) -> tuple[Word, ...]:
    """One :class:`Word` for each of ``words``, in order, none overlapping the next.

    ``sounds``: how many each word has by itself, 0 for one that is not spoken; such a
    word takes no time, after the one before it. ``groups``: start and end of each group
    in ms, ascending, at least one; ``group_sounds``: how many sounds each has.
    """
    spoken = [i for i, count in enumerate(sounds) if count]
    spans: dict[int, tuple[float, float]] = {}
    for match in align([sounds[i] for i in spoken], group_sounds):
        members = spoken[slice(*match.words)]
        start, end = groups[match.groups[0]][0], groups[match.groups[1] - 1][1]
        spans |= zip(members, _share([sounds[i] for i in members], start, end), strict=True)
    made: list[Word] = []
    now = groups[0][0]
    for i, word in enumerate(words):
        start, end = spans.get(i, (now, now))
        made.append(Word(word, start, end))
        now = end
    return tuple(made)


def _share(sounds: Sequence[int], start: float, end: float) -> list[tuple[float, float]]:
    """Divide the time among words by their sounds."""
    total = sum(sounds)
    inner = [start + (end - start) * done / total for done in accumulate(sounds)][:-1]
    return list(pairwise([start, *inner, end]))


def align(words: Sequence[int], groups: Sequence[int]) -> list[Match]:
    """Match words with groups, given as numbers of sounds, so that they fit best.

    Every word and every group is in exactly one match, in order; there is none if there
    are no words. Where nothing fits, all is one match.
    """
    if not words or not groups:
        return []
    moves = _best_moves(words, groups)
    found: list[Match] = []
    i, j = len(words), len(groups)
    while (i, j) in moves:
        m, k = moves[i, j]
        found.append(Match((i - m, i), (j - k, j)))
        i, j = i - m, j - k
    return found[::-1] if i == j == 0 else [Match((0, len(words)), (0, len(groups)))]


def _best_moves(
    words: Sequence[int], groups: Sequence[int]
) -> dict[tuple[int, int], tuple[int, int]]:
    """The last step of the best way to each (words done, groups done) that is reachable."""
    word_sums, group_sums = [0, *accumulate(words)], [0, *accumulate(groups)]
    costs: dict[tuple[int, int], float] = {(0, 0): 0.0}
    moves: dict[tuple[int, int], tuple[int, int]] = {}
    slope = len(groups) / len(words)
    for i in range(1, len(words) + 1):
        middle = round(i * slope)
        for j in range(max(1, middle - BAND), min(len(groups), middle + BAND) + 1):
            best = float("inf")
            for m, k in _MOVES:
                before = costs.get((i - m, j - k))
                if before is None:
                    continue
                misfit = word_sums[i] - word_sums[i - m] - group_sums[j] + group_sums[j - k]
                cost = before + abs(misfit) + UNEVEN * (m + k - 2)
                if cost < best:
                    best, moves[i, j] = cost, (m, k)
            if best < float("inf"):
                costs[i, j] = best
    return moves
