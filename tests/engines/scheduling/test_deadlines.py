"""The order of turns, what goes together, and what is counted."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.scheduling.deadlines import (
    NEAR_SECONDS,
    SOON_SECONDS,
    URGENT_SECONDS,
    DeadlineQueue,
    Entry,
)

times = st.floats(0, 100, allow_nan=False)


def drain(queue: DeadlineQueue[str], now: float = 0.0) -> list[list[str]]:
    """Take until nothing waits."""
    turns: list[list[str]] = []
    while entries := queue.take(now):
        turns.append([entry.item for entry in entries])
    return turns


def test_the_earliest_deadline_is_first_and_equals_keep_their_order() -> None:
    queue = DeadlineQueue[str]()
    for name, due in (("c", 3.0), ("a1", 1.0), ("b", 2.0), ("a2", 1.0)):
        queue.put(name, 0.0, due=due)
    assert drain(queue) == [["a1"], ["a2"], ["b"], ["c"]]


def test_without_a_deadline_an_item_is_due_as_it_comes_and_never_late() -> None:
    queue = DeadlineQueue[str]()
    queue.put("second", 5.0)
    queue.put("third", 9.0, due=6.0)
    queue.put("first", 4.0)
    assert drain(queue, now=10.0) == [["first"], ["second"], ["third"]]
    assert (queue.misses, queue.late_ms) == (1, 4000.0)


def test_patient_items_come_last_however_urgent() -> None:
    queue = DeadlineQueue[str]()
    queue.put("patient", 0.0, due=-9.0, patient=True)
    queue.put("other", 1.0, due=50.0)
    assert drain(queue) == [["other"], ["patient"]]


def test_what_is_withdrawn_has_no_turn() -> None:
    queue = DeadlineQueue[str]()
    gone, kept = queue.put("gone", 0.0, due=1.0), queue.put("kept", 0.0, due=1.0)
    assert queue.withdraw(gone)
    assert not queue.withdraw(gone)
    assert drain(queue) == [["kept"]]
    assert not queue.withdraw(kept), "it had its turn"
    assert (queue.taken, queue.dropped, len(queue)) == (1, 1, 0)


def test_all_that_waits_can_be_dropped() -> None:
    queue = DeadlineQueue[str]()
    for name in "ba":
        queue.put(name, 0.0, due=float(ord(name)))
    assert [entry.item for entry in queue.clear()] == ["a", "b"]
    assert (drain(queue), queue.dropped) == ([], 2)


def test_a_batch_is_of_one_group_and_within_its_limit() -> None:
    queue = DeadlineQueue[str]()
    for number, group in enumerate("xyxxxz"):
        queue.put(f"{group}{number}", 0.0, due=0.01 * number, group=group, limit=3)
    assert drain(queue) == [["x0", "x2", "x3"], ["y1"], ["x4"], ["z5"]]
    assert (queue.batches, queue.batched, queue.taken) == (1, 3, 6)


def test_items_without_a_group_are_alone() -> None:
    queue = DeadlineQueue[str]()
    for name in "ab":
        queue.put(name, 0.0, due=0.0, limit=4)
    assert drain(queue) == [["a"], ["b"]]


def test_a_deadline_far_away_joins_no_batch() -> None:
    queue = DeadlineQueue[str]()
    queue.put("now", 0.0, due=1.0, group="g", limit=4)
    queue.put("near", 0.0, due=1.0 + NEAR_SECONDS, group="g", limit=4)
    queue.put("far", 0.0, due=1.01 + NEAR_SECONDS, group="g", limit=4)
    assert [entry.item for entry in queue.take(0.0)] == ["now", "near"]


def test_where_the_first_is_late_near_is_reckoned_from_now() -> None:
    queue = DeadlineQueue[str]()
    queue.put("late", 0.0, due=1.0, group="g", limit=4)
    queue.put("due now", 0.0, due=5.0, group="g", limit=4)
    assert [entry.item for entry in queue.take(5.0)] == ["late", "due now"]


def test_a_patient_item_joins_no_other() -> None:
    queue = DeadlineQueue[str]()
    queue.put("a", 0.0, due=0.0, group="g", limit=4)
    queue.put("patient", 0.0, due=0.0, group="g", limit=4, patient=True)
    assert drain(queue) == [["a"], ["patient"]]


WAITED_FROM, ENDED_AT = 0.0, 9.9


def holding(due: float | None, *, patient: bool = False) -> DeadlineQueue[str]:
    queue = DeadlineQueue[str]()
    queue.put("waits", WAITED_FROM, due=due, patient=patient)
    return queue


@pytest.mark.parametrize("ended_due", [9.0, 10.0, 10.0 + SOON_SECONDS - 0.01])
def test_what_is_not_urgent_lets_the_successor_of_an_urgent_item_pass(ended_due: float) -> None:
    now = 10.0
    assert holding(now + URGENT_SECONDS).should_hold(ended_due, ENDED_AT, now)
    assert holding(now, patient=True).should_hold(ended_due, ENDED_AT, now)
    assert not holding(now + URGENT_SECONDS - 0.01).should_hold(ended_due, ENDED_AT, now)
    assert not holding(None).should_hold(ended_due, ENDED_AT, now)
    assert not DeadlineQueue[str]().should_hold(ended_due, ENDED_AT, now)


def test_what_was_put_in_since_is_taken_for_the_successor() -> None:
    queue = holding(99.0)
    assert queue.should_hold(10.0, ENDED_AT, 10.0)
    queue.put("successor", ENDED_AT + 0.01, due=99.0)
    assert not queue.should_hold(10.0, ENDED_AT, 10.0)


@pytest.mark.parametrize("ended_due", [None, 10.0 + SOON_SECONDS])
def test_nothing_waits_for_a_successor_that_is_not_urgent(ended_due: float | None) -> None:
    assert not holding(99.0).should_hold(ended_due, ENDED_AT, 10.0)


@pytest.mark.parametrize(("due", "limit"), [(math.nan, 1), (0.0, 0)])
def test_what_has_no_place_in_an_order_is_refused(due: float, limit: int) -> None:
    with pytest.raises(ValueError, match="expected limit >= 1 and a due that is a number"):
        DeadlineQueue[str]().put("x", 0.0, due=due, limit=limit)


items = st.tuples(times, st.sampled_from("gh"), st.integers(1, 4), st.booleans())


@given(st.lists(items, max_size=30), st.data())
def test_every_item_has_one_turn_or_is_withdrawn(
    given_items: list[tuple[float, str, int, bool]], data: st.DataObject
) -> None:
    queue = DeadlineQueue[int]()
    entries = [
        queue.put(n, 0.0, due=at, group=group, limit=limit, patient=patient)
        for n, (at, group, limit, patient) in enumerate(given_items)
    ]
    gone = data.draw(st.sets(st.sampled_from(range(len(entries))) if entries else st.nothing()))
    for number in gone:
        assert queue.withdraw(entries[number])
    taken: list[int] = []
    now = 0.0
    while turn := queue.take(now):
        first = turn[0]
        assert len(turn) <= first.limit
        for entry in turn:
            assert entry.group == first.group
            assert entry.rank[0] == first.rank[0]
            assert due(entry) <= max(due(first), now) + NEAR_SECONDS
        taken += [entry.item for entry in turn]
        now += 1.0
    assert sorted(taken) == [n for n in range(len(entries)) if n not in gone]
    assert queue.taken + queue.dropped == len(entries)


def due(entry: Entry[int]) -> float:
    assert entry.due is not None
    return entry.due


@given(st.lists(st.tuples(times, st.booleans()), max_size=30))
def test_alone_all_come_in_the_order_of_their_deadlines(
    given_items: list[tuple[float, bool]],
) -> None:
    queue = DeadlineQueue[int]()
    for number, (due, patient) in enumerate(given_items):
        queue.put(number, 0.0, due=due, patient=patient)
    order = [entry.item for _ in given_items for entry in queue.take(50.0)]
    assert order == sorted(
        range(len(given_items)), key=lambda n: (given_items[n][1], given_items[n][0], n)
    )
    late_by = [50.0 - due for due, _ in given_items if due < 50.0]
    assert queue.misses == len(late_by)
    assert queue.late_ms == pytest.approx(sum(late_by) * 1000)
