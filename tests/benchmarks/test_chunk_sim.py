"""The simulation of a reply, against what can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from benchmarks.chunk_policies import Table
from benchmarks.chunk_sim import Answer, Asked, Trace, buffer_line, play, released
from benchmarks.chunk_traces import even
from hypothesis import given
from hypothesis import strategies as st

TIMES = st.floats(0.0, 400.0)


class Script(Table):
    """Asks for what a list says, as far as it is there; hears the client."""

    ahead = False
    listens = True

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.reports: list[tuple[float, float, float]] = []

    def reported(self, played_ms: float, until_ms: float, now: float) -> None:
        self.reports.append((now, played_ms, until_ms))


class Greedy(Script):
    """Takes more than there is."""

    def ask(self, asked: Asked) -> Answer:
        return Answer(asked.have + 1)


class Idle(Script):
    """Waits for ever."""

    def ask(self, asked: Asked) -> Answer:
        return Answer(0)


@st.composite
def traces(draw: st.DrawFn, most: int = 12) -> Trace:
    """Small replies in which everything varies."""
    gaps = draw(st.lists(TIMES, min_size=1, max_size=most))
    ready = tuple(sum(gaps[: index + 1]) for index in range(len(gaps)))
    per_frame = st.lists(st.floats(0.5, 2.0), min_size=len(gaps), max_size=len(gaps))
    end = draw(st.integers(1, len(gaps)))
    start, length = draw(TIMES), draw(TIMES)
    return Trace(
        frame_ms=80.0,
        ladder=(1, 2, 4),
        ready_ms=ready,
        fixed_ms=draw(st.floats(0.0, 60.0)),
        per_frame_ms=draw(st.floats(0.0, 10.0)),
        factors=tuple(draw(per_frame)),
        delays_ms=tuple(20.0 * factor for factor in draw(per_frame)),
        busy_ms=((start, start + length),),
        blocked_ms=((2 * start, 2 * start + length / 2),),
        ends=tuple(sorted({end, len(gaps)})),
    )


@given(traces(), st.lists(st.integers(1, 4), min_size=1, max_size=5), st.booleans())
def test_every_frame_is_played_once_and_in_order(
    trace: Trace, sizes: list[int], ahead: bool
) -> None:
    outcome = play(trace, Table(*sizes) if ahead else Script(*sizes))
    bounds = [(chunk.first, chunk.first + chunk.frames) for chunk in outcome.chunks]
    assert [0, *(end for _, end in bounds)] == [*(first for first, _ in bounds), trace.frames]
    assert set(trace.clause_ends) <= {end for _, end in bounds}
    for chunk in outcome.chunks:
        assert trace.ready_ms[chunk.first + chunk.frames - 1] <= chunk.sent <= chunk.there
    assert all(one.there <= other.there for one, other in pairwise(outcome.chunks))


@given(traces(), st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_silence_is_how_late_the_latest_chunk_is(trace: Trace, sizes: list[int]) -> None:
    outcome = play(trace, Table(*sizes))
    late = [
        chunk.there - outcome.ttfa_ms - chunk.first * trace.frame_ms for chunk in outcome.chunks
    ]
    assert outcome.underrun_ms == pytest.approx(max(late), abs=1e-6)


def test_a_second_chunk_of_25_frames_comes_long_after_the_first_of_one() -> None:
    outcome = play(even(50.0), Table(1, 25))
    assert outcome.ttfa_ms == 50
    assert outcome.underrun_ms == 25 * 50 - 80
    assert outcome.gaps == 1


def test_a_serial_decoder_keeps_chunks_waiting() -> None:
    trace = replace(even(10.0), fixed_ms=30.0, per_frame_ms=5.0)
    outcome = play(trace, Table(2))
    # Two frames come every 20 ms, their decode takes 40.
    assert [chunk.sent for chunk in outcome.chunks[:3]] == [60, 100, 140]
    assert outcome.cost_ms == 125 * 40


def test_other_work_of_the_decoder_and_a_blocked_line_hold_a_chunk_up() -> None:
    trace = replace(even(50.0), fixed_ms=10.0, busy_ms=((40.0, 75.0),), blocked_ms=((80.0, 200.0),))
    (first, *_) = play(trace, Table(1)).chunks
    assert (first.sent, first.there) == (85, 200)


def test_a_client_that_stands_still_needs_its_audio_later() -> None:
    trace = replace(even(100.0), ready_ms=(100.0, 200.0, 300.0), paused_ms=((150.0, 450.0),))
    rule = Script(1)
    outcome = play(trace, rule)
    assert outcome.underrun_ms == 0
    assert rule.reports[:2] == [(100, 0, 80), (300, 50, 160)]
    # Dry at 180, while the second frame comes at 200.
    assert play(replace(trace, paused_ms=()), Script(1)).underrun_ms == 40


def test_spans_hold_up_what_comes_within_and_nothing_else() -> None:
    spans = ((10.0, 20.0), (30.0, 40.0))
    assert [released(spans, at) for at in (0, 10, 15, 20, 25, 39, 41)] == [
        0, 20, 20, 20, 25, 40, 41
    ]  # fmt: skip


def test_a_client_tells_every_200_ms_what_it_has_played() -> None:
    rule = Script(4)
    trace = replace(even(40.0), delays_ms=(25.0,) * 250)
    play(trace, rule)
    # The first chunk is there after 185 ms, then a report takes 25 ms back.
    assert rule.reports[:2] == [(210, 0, 320), (410, 200, 640)]
    assert [now for now, _, _ in rule.reports] == [
        210 + 200 * index for index in range(len(rule.reports))
    ]


@pytest.mark.parametrize("rule", [Greedy(1), Idle(1)])
def test_a_rule_that_breaks_the_contract_is_found(rule: Script) -> None:
    with pytest.raises(RuntimeError, match="the rule"):
        play(even(50.0), rule)


def test_the_line_of_the_buffer_rises_at_chunks_and_ends_empty() -> None:
    trace = even(50.0)
    outcome = play(trace, Table(1, 25))
    times, left = buffer_line(trace, outcome.chunks)
    assert times == sorted(times)
    assert left[:4] == [0, 80, 0, 0]
    assert (times[3], left[4]) == (outcome.chunks[1].there, 25 * 80)
    assert left[-1] == 0
