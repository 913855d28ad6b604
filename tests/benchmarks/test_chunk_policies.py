"""The rules that ours is compared with, against figures known of them."""

from __future__ import annotations

import pytest
from benchmarks.chunk_policies import Adaptive30, Ours, Table, fresh_costs, rules_of
from benchmarks.chunk_sim import play
from benchmarks.chunk_traces import even


def test_a_table_goes_on_with_its_last_size() -> None:
    sizes = [chunk.frames for chunk in play(even(20.0), Table(4, 4, 8)).chunks]
    assert sizes == [4, 4, *[8] * 30, 2]


@pytest.mark.parametrize(
    ("pace_ms", "fixed_ms", "per_frame_ms", "silence_ms"),
    [(50, 0, 0, 70), (60, 0, 0, 320), (70, 0, 0, 920), (75, 0, 0, 1410), (70, 15, 1, 942)],
)
def test_the_adaptive_rule_makes_the_silence_known_of_it(
    pace_ms: float, fixed_ms: float, per_frame_ms: float, silence_ms: float
) -> None:
    trace = even(pace_ms, fixed_ms=fixed_ms, per_frame_ms=per_frame_ms)
    outcome = play(trace, Adaptive30(80.0, 0.0))
    assert outcome.underrun_ms == pytest.approx(silence_ms, abs=0.5)


@pytest.mark.parametrize(("load", "first"), [(0, 2), (0.3, 4), (0.7, 8), (1, 16), (2, 16)])
def test_its_first_chunk_goes_by_load(load: float, first: int) -> None:
    assert play(even(10.0), Adaptive30(80.0, load)).chunks[0].frames == first


def test_it_stays_at_the_largest_chunk_once_the_buffer_is_rich() -> None:
    sizes = [chunk.frames for chunk in play(even(10.0), Adaptive30(80.0, 0.0)).chunks]
    assert sizes[-2:-1] == [25]
    assert sizes[2:-1] == [25] * (len(sizes) - 3)


@pytest.mark.parametrize("listens", [False, True])
def test_ours_goes_no_further_ahead_than_the_lead(listens: bool) -> None:
    trace = even(5.0, fixed_ms=5.0)
    outcome = play(trace, Ours(rules_of(trace), fresh_costs(trace), listens=listens))
    ahead = [
        sum(other.frames for other in outcome.chunks[:number]) * 80.0
        - (chunk.sent - outcome.ttfa_ms)
        for number, chunk in enumerate(outcome.chunks, 1)
    ]
    assert max(ahead) <= 4000 + trace.ladder[-1] * 80
    assert sum(chunk.frames for chunk in outcome.chunks) == trace.frames
