"""Whose turn it is: work of many listeners, in the order in which they run dry."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")

NEAR_SECONDS = 0.5
"""Work due so much later than the most urgent may join its batch. What is due later gains
nothing by it, and makes the batch longer for those who wait behind it."""

URGENT_SECONDS = 0.25
"""What is due within this is never held back: longer than any one item should take."""

SOON_SECONDS = 0.5
"""An item that was due within this may have a successor that is urgent: a first chunk, which
is not urgent by itself, has."""

HOLD_SECONDS = 0.005
"""How long such a successor is waited for, where nothing urgent waits."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Generic[ItemT]):
    """An item that waits or waited."""

    item: ItemT
    arrived: float
    due: float | None
    """When it should be taken; ``None`` for as soon as possible, which is never missed."""

    group: Hashable
    """Items of one group can be done together; ``None`` is by itself."""

    limit: int
    """The most that are done together."""

    rank: tuple[bool, float, int]
    """Ascending in the order of turns."""


class DeadlineQueue(Generic[ItemT]):
    """Earliest deadline first, ties by arrival; patient items after all others.

    An item without a deadline is due when it arrives. Instants are monotonic seconds.
    Not bounded by itself: those who put items in wait for them.
    """

    def __init__(self, near_seconds: float = NEAR_SECONDS) -> None:
        """``near_seconds``: what may join a batch; see :data:`NEAR_SECONDS`."""
        self.taken = 0
        """Items that had their turn."""

        self.dropped = 0
        """Withdrawn ahead of it."""

        self.batches = 0
        """Turns of more than one item."""

        self.batched = 0
        """Items in these."""

        self.misses = 0
        """Items taken after their deadline."""

        self.late_ms = 0.0
        """How long after it, in all."""

        self._near = near_seconds
        self._waiting: list[Entry[ItemT]] = []
        self._count = 0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def put(
        self,
        item: ItemT,
        now: float,
        *,
        due: float | None = None,
        group: Hashable = None,
        limit: int = 1,
        patient: bool = False,
    ) -> Entry[ItemT]:
        """Add an item; what is returned can be withdrawn.

        Raises:
            ValueError: ``limit`` is not positive, or ``due`` is not a number.
        """
        if limit < 1 or due != due:
            raise ValueError(f"expected limit >= 1 and a due that is a number, got {limit}, {due}")
        self._count += 1
        rank = (patient, now if due is None else due, self._count)
        entry = Entry(item, now, due, group, limit, rank)
        insort(self._waiting, entry, key=_rank)
        return entry

    def withdraw(self, entry: Entry[ItemT]) -> bool:
        """Drop an item ahead of its turn; false where it had it, or was withdrawn."""
        at = bisect_left(self._waiting, entry.rank, key=_rank)
        if at == len(self._waiting) or self._waiting[at] is not entry:
            return False
        del self._waiting[at]
        self.dropped += 1
        return True

    def take(self, now: float) -> list[Entry[ItemT]]:
        """Remove and return what has its turn: nothing, an item, or several of its group.

        A batch is the most urgent item and, of its group, the next most urgent whose
        deadlines are near: of its own, or of ``now`` where that has passed.
        """
        if not self._waiting:
            return []
        entries = self._take_with_group(now)
        self.taken += len(entries)
        if len(entries) > 1:
            self.batches += 1
            self.batched += len(entries)
        for entry in entries:
            if entry.due is not None and now > entry.due:
                self.misses += 1
                self.late_ms += (now - entry.due) * 1000
        return entries

    def should_hold(self, ended_due: float | None, ended_at: float, now: float) -> bool:
        """Whether what waits should let the successor of an item pass that has just ended.

        A listener who was served because little is left may ask again in a moment. If what is
        not urgent were begun meanwhile, they would wait for all of it. ``ended_due``: the
        deadline of the item that has ended, ``ended_at``: when it did. What was put in since
        is most likely the successor.
        """
        if not self._waiting or ended_due is None or ended_due - now >= SOON_SECONDS:
            return False
        if any(entry.arrived > ended_at for entry in self._waiting):
            return False
        patient, due, _ = self._waiting[0].rank
        return patient or due - now >= URGENT_SECONDS

    def clear(self) -> list[Entry[ItemT]]:
        """Drop everything that waits, and return it in order."""
        entries, self._waiting = self._waiting, []
        self.dropped += len(entries)
        return entries

    def _take_with_group(self, now: float) -> list[Entry[ItemT]]:
        first = self._waiting.pop(0)
        if first.group is None or first.limit == 1:
            return [first]
        patient, due, _ = first.rank
        near = max(due, now) + self._near
        fitting = (
            each
            for each in self._waiting
            if each.group == first.group and each.rank[0] == patient and each.rank[1] <= near
        )
        # They wait in order: the first are the most urgent.
        others = list(islice(fitting, first.limit - 1))
        for entry in others:
            del self._waiting[bisect_left(self._waiting, entry.rank, key=_rank)]
        return [first, *others]


def _rank(entry: Entry[ItemT]) -> tuple[bool, float, int]:
    return entry.rank
