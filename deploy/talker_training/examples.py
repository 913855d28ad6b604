# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""What the student reads: sounds as it asks for them, and codes that are not always right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...engines.speech.families.joe_units import ANY, pairs_of
from .student import MARKS

BEGIN_ID, ASK_ID, STOP_ID = range(MARKS)

RAREST = 3
"""How often a pair must be there to have a token of its own."""

NEIGHBOURS = 8
"""Codes that sound nearly like one."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """One that the teacher has said, as codes."""

    units: Sequence[str]
    frames: Sequence[int]
    """Of latents, for each unit."""

    codes: NDArray[np.int32]
    """``(2, steps)``."""


@dataclass(frozen=True, slots=True)
class Example:
    """An utterance as the student sees it; all ``(n,)`` int64, -1 where there is nothing."""

    ids: NDArray[np.int64]
    first: NDArray[np.int64]
    """What is to be said next: a code of the first book, or their number for *ask*."""

    second: NDArray[np.int64]
    """The code of the second book that is to be said next."""


def pairs_in(utterances: Sequence[Utterance]) -> list[tuple[str, str]]:
    """The pairs that get a token: common ones, and each unit before any sound."""
    counts = Counter(pair for each in utterances for pair in pairs_of(each.units))
    common = {pair for pair, count in counts.items() if count >= RAREST}
    return sorted(common | {(unit, ANY) for unit, _ in counts})


class Spelling:
    """Ids of pairs and codes."""

    def __init__(self, pairs: Sequence[tuple[str, str]], codes: int) -> None:
        self.codes = codes
        self._ids = {pair: MARKS + 2 * codes + number for number, pair in enumerate(pairs)}

    def script(self, units: Sequence[str]) -> list[int]:
        """The ids of an utterance's units, rare ones left out."""
        found = [self._ids.get(pair, self._ids.get((pair[0], ANY))) for pair in pairs_of(units)]
        return [each for each in found if each is not None]

    def example(self, said: Utterance, frames: int) -> Example:
        """``frames``: of latents in a step."""
        codes, script = self.codes, self._all(said.units)
        begins = (np.concatenate([[0], np.cumsum(said.frames)])[:-1] + 1) // frames
        ids, first, second = [BEGIN_ID], [-1], [-1]
        step, steps = 0, said.codes.shape[1]
        for number, unit in enumerate(script):
            last = number + 1 == len(script)
            stop = steps if last else min(int(begins[number + 1]), steps)
            if number:
                ids.append(ASK_ID)
                first.append(-1)
                second.append(-1)
            ids.append(unit)
            for one, other in said.codes[:, step:stop].T.tolist():
                first += [one, -1]
                second += [-1, other]
                ids += [MARKS + one, MARKS + codes + other]
            first.append(codes)
            second.append(-1)
            step = max(step, stop)
        return Example(*(np.array(each, np.int64) for each in (ids, first, second)))

    def _all(self, units: Sequence[str]) -> list[int]:
        script = self.script(units)
        if len(script) != len(units):
            raise ValueError("expected units that have tokens")
        return script


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples filled up to one length; all ``(batch, n)``."""

    ids: Tensor
    first: Tensor
    second: Tensor


class Corruption:
    """Replaces codes that were read by others: a talker must not believe what it said too well.

    In each utterance another share, of steps as a whole. One half of them by any code, the
    other by one that sounds nearly the same, as a talker's own slips do.
    """

    def __init__(self, books: Sequence[Tensor], low: float = 0.1, high: float = 0.7) -> None:
        """``books``: ``(codes, size)`` each."""
        self._range = low, high
        self.codes = len(books[0])
        self.near = [_near(book) for book in books]

    def __call__(self, batch: Batch, chance: np.random.Generator) -> Batch:
        """The batch with other ids, and without the second codes that can't be known then."""
        ids, second = batch.ids.numpy().copy(), batch.second.numpy().copy()
        low, high = self._range
        shares = chance.uniform(low, high, (len(ids), 1))
        hit = (second >= 0) & (chance.random(ids.shape) < shares)
        # Where a second code is to be said, the first one has just been read.
        rows, at = np.nonzero(hit)
        second[rows, at] = -1
        for book in range(2):
            held = ids[rows, at + book] - MARKS - book * self.codes
            alike = self.near[book][held, chance.integers(0, NEIGHBOURS, len(held))]
            other = chance.integers(0, self.codes, len(held))
            new = np.where(chance.random(len(held)) < 0.5, alike, other)
            ids[rows, at + book] = MARKS + book * self.codes + new
        return Batch(torch.from_numpy(ids), batch.first, torch.from_numpy(second))


def _near(book: Tensor) -> NDArray[np.int64]:
    """The nearest codes of each: ``(codes, NEIGHBOURS)``."""
    apart = torch.cdist(book, book)
    apart.fill_diagonal_(float("inf"))
    found: NDArray[np.int64] = apart.topk(NEIGHBOURS, largest=False).indices.numpy()
    return found


def batched(examples: Sequence[Example]) -> Batch:
    """Fill examples up to the longest."""
    longest = max(len(each.ids) for each in examples)

    def filled(rows: Sequence[NDArray[np.int64]], value: int) -> Tensor:
        out = np.full((len(rows), longest), value, np.int64)
        for number, row in enumerate(rows):
            out[number, : len(row)] = row
        return torch.from_numpy(out)

    return Batch(
        filled([each.ids for each in examples], STOP_ID),
        filled([each.first for each in examples], -1),
        filled([each.second for each in examples], -1),
    )
