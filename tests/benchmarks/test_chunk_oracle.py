"""The oracle, against every way there is."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.chunk_oracle import PRECISION_MS, Given, best
from benchmarks.chunk_sim import Trace, play
from benchmarks.chunk_traces import even
from hypothesis import given, settings
from tests.benchmarks.test_chunk_sim import traces


def ways(trace: Trace, here: int) -> Iterator[tuple[int, ...]]:
    """Every cut of the rest of a reply that the decoder allows."""
    if here == trace.frames:
        yield ()
        return
    left = next(end for end in trace.clause_ends if end > here) - here
    for size in {*(size for size in trace.ladder if size <= left), left}:
        if size <= trace.ladder[-1]:
            for rest in ways(trace, here + size):
                yield (size, *rest)


@settings(max_examples=60)
@given(traces(most=8))
def test_nobody_who_starts_as_early_has_less_silence(trace: Trace) -> None:
    ideal = best(trace)
    assert ideal.chunks[0].frames == trace.ladder[0]
    least = min(play(trace, Given(sizes)).underrun_ms for sizes in ways(trace, 0) if sizes[0] == 1)
    assert least - 1e-6 <= ideal.underrun_ms <= least + PRECISION_MS


def test_it_may_be_told_to_start_with_more() -> None:
    trace = even(100.0)
    early, late = best(trace), best(trace, first=8)
    assert late.chunks[0].frames == 8
    assert late.ttfa_ms > early.ttfa_ms
    assert late.underrun_ms < early.underrun_ms
