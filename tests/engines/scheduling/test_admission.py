"""Who may begin to be spoken, who waits, and who is turned away."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.scheduling.admission import (
    PRIOR_SHARE,
    Admission,
    Applicant,
    Load,
    Share,
)


def admission(load: float = 0.9, waiting: int = 10, wait_seconds: float = 20.0) -> Admission:
    return Admission(load=load, waiting=waiting, wait_seconds=wait_seconds)


def asked(gate: Admission, now: float, load: Load) -> Applicant:
    applicant = gate.ask(now, load)
    assert applicant is not None
    return applicant


def test_as_many_begin_as_the_load_allows() -> None:
    gate, load = admission(), Load(share=0.3)
    applicants = [asked(gate, 0.0, load) for _ in range(5)]
    assert [each.admitted_at for each in applicants] == [0.0, 0.0, 0.0, None, None]
    assert (gate.active, gate.waiting) == (3, 2)


def test_one_alone_begins_whatever_it_needs() -> None:
    gate, load = admission(), Load(share=1.4)
    first, second = asked(gate, 0.0, load), asked(gate, 0.0, load)
    assert first.admitted_at == 0.0
    gate.leave(first)
    assert gate.admit(2.0, load) == [second]
    assert second.admitted_at == 2.0
    assert (gate.delayed, gate.delayed_ms) == (1, 2000.0)


def test_who_waits_begins_in_order_and_nobody_passes() -> None:
    gate, load = admission(), Load(share=0.45)
    places = [asked(gate, float(n), load) for n in range(5)]
    gate.leave(places[0])
    newcomer = asked(gate, 9.0, load)
    assert newcomer.admitted_at is None, "others wait already"
    gate.leave(places[1])
    assert gate.admit(10.0, load) == [places[2], places[3]]
    assert gate.admit(10.0, load) == []


def test_nobody_begins_while_a_listener_is_about_to_run_dry() -> None:
    gate, pressed = admission(), Load(share=0.01, pressed=True)
    gate.ask(0.0, Load())
    waiting = asked(gate, 0.0, pressed)
    assert gate.admit(1.0, pressed) == []
    assert gate.admit(2.0, Load(share=0.01)) == [waiting]


def test_replies_at_their_start_count_several_times() -> None:
    gate = admission()
    applicants = [asked(gate, 0.0, Load(share=0.1, starting=n)) for n in range(4)]
    assert [each.admitted_at for each in applicants] == [0.0, 0.0, 0.0, None]
    assert gate.admit(1.0, Load(share=0.1, starting=3)) == []
    assert gate.admit(1.0, Load(share=0.1, starting=2)) == [applicants[3]]


def test_replies_whose_listeners_stopped_take_no_place() -> None:
    gate = admission()
    places = [asked(gate, 0.0, Load(share=0.45)) for _ in range(3)]
    assert gate.admit(1.0, Load(share=0.45, resting=1)) == [places[2]]
    # All rest: one more begins whatever it needs.
    assert asked(gate, 2.0, Load(share=2.0, resting=3)).admitted_at == 2.0


def test_too_many_that_wait_are_refused() -> None:
    gate, load = admission(waiting=2), Load(share=1.0)
    applicants = [gate.ask(0.0, load) for _ in range(5)]
    assert [each is None for each in applicants] == [False, False, False, True, True]
    assert (gate.waiting, gate.refused) == (2, 2)


def test_where_none_may_wait_the_next_is_refused() -> None:
    gate = admission(waiting=0)
    assert gate.ask(0.0, Load(share=1.0)) is not None
    assert gate.ask(0.0, Load(share=1.0)) is None


def test_who_waits_too_long_is_refused() -> None:
    gate, load = admission(wait_seconds=20.0), Load(share=1.0)
    for now in (0.0, 1.0, 5.0):
        gate.ask(now, load)
    assert gate.admit(20.9, load) == []
    (refused,) = gate.admit(21.0, load)
    assert refused.admitted_at is None
    assert (gate.waiting, gate.refused, gate.admitted) == (1, 1, 1)


def test_a_place_is_freed_once() -> None:
    gate, load = admission(), Load(share=0.9)
    first, second, third = (asked(gate, 0.0, load) for _ in range(3))
    gate.leave(second)
    gate.leave(second)
    gate.leave(first)
    gate.leave(first)
    assert gate.admit(1.0, load) == [third]
    assert gate.statistics() == {
        "spoken": 1.0,
        "waiting": 0.0,
        "admitted": 2.0,
        "delayed": 1.0,
        "delayed_ms": 1000.0,
        "refused": 0.0,
    }


steps = st.lists(
    st.tuples(st.sampled_from(["ask", "leave", "look"]), st.integers(0, 30), st.booleans()),
    max_size=60,
)


@given(steps, st.floats(0.01, 2.0), st.integers(0, 5))
def test_the_bounds_hold_whatever_happens(
    script: list[tuple[str, int, bool]], share: float, bound: int
) -> None:
    gate = admission(waiting=bound, wait_seconds=10.0)
    here: list[Applicant] = []
    order: list[Applicant] = []
    now = 0.0
    for step, number, pressed in script:
        now += 1.0
        load = Load(share=share, pressed=pressed)
        before = gate.active
        if step == "ask" and (applicant := gate.ask(now, load)) is not None:
            here.append(applicant)
            order += [applicant] if applicant.admitted_at is not None else []
        elif step == "leave" and here:
            gate.leave(here.pop(number % len(here)))
        elif step == "look":
            done = gate.admit(now, load)
            order += [each for each in done if each.admitted_at is not None]
            here = [each for each in here if each not in done or each.admitted_at is not None]
        assert gate.waiting <= bound
        assert gate.active <= max(1, before, math.floor(0.9 / share + 1e-9))
        assert gate.active <= max(1, before) or not pressed
        assert gate.active + gate.waiting == len(here)
    # First come, first served.
    assert [each.asked_at for each in order] == sorted(each.asked_at for each in order)


def test_a_share_is_what_was_thought_until_it_is_measured() -> None:
    share = Share()
    assert share.value == PRIOR_SHARE
    share.told(0.0, 0.0)
    assert share.value == PRIOR_SHARE


@given(st.floats(0.001, 1.5))
def test_a_share_follows_what_is_measured(true: float) -> None:
    share = Share()
    for audio in range(1, 61):
        share.told(true * audio, float(audio))
    assert share.value == pytest.approx(true, rel=0.25, abs=0.005)


def test_a_share_follows_a_change() -> None:
    share, busy, audio = Share(), 0.0, 0.0
    for cost in (0.1, 0.4):
        for _ in range(90):
            busy, audio = busy + cost, audio + 1.0
            share.told(busy, audio)
    assert share.value == pytest.approx(0.4, rel=0.15)


def test_how_often_a_share_is_told_makes_little_difference() -> None:
    often, seldom = Share(), Share()
    for tenth in range(1, 101):
        often.told(0.02 * tenth, 0.1 * tenth)
    seldom.told(2.0, 10.0)
    assert often.value == pytest.approx(seldom.value, rel=0.05)


def test_counters_that_begin_anew_and_bad_ones_do_no_harm() -> None:
    share = Share()
    share.told(1.0, 10.0)
    known = share.value
    share.told(0.0, 0.0)
    share.told(math.nan, 5.0)
    share.told(1.0, math.inf)
    assert share.value == known
    share.told(0.3, 3.0)
    assert known * 0.9 < share.value < known * 1.2
