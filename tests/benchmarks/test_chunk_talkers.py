"""Replies that come as tokens: when their steps are whole."""

from __future__ import annotations

import pytest
from benchmarks.chunk_talkers import RATES, REAL_TIME, STEP_MS, steps_of, talkers


def test_the_first_step_is_whole_after_nineteen_tokens_and_the_rest_at_the_end() -> None:
    """Ten steps ahead of it are 18 tokens, by which its first samples are there."""
    ready = steps_of([float(token) for token in range(1, 36)])
    assert len(ready) == 20
    # Step 10 is the third of a frame, known after six of seven.
    assert ready[:4] == [20.0, 21.0, 24.0, 25.0]
    assert ready[9:] == [35.0] * 11
    assert ready[8] == 34.0


def test_real_time_is_82_tokens_a_second() -> None:
    assert pytest.approx(82.03, abs=0.01) == REAL_TIME
    assert min(RATES) < REAL_TIME < max(RATES)


@pytest.mark.parametrize("rate", [78.0, 200.0])
def test_tokens_come_at_their_rate(rate: float) -> None:
    for case in talkers(1, rates=(rate,), replies=4):
        for trace in case.traces:
            assert trace.frame_ms == STEP_MS
            assert trace.frames % 4 == 0
            assert list(trace.ready_ms) == sorted(trace.ready_ms)
            # The first is behind by 20 tokens, and no two in a row come at more than one pace.
            tokens = trace.frames // 4 * 7 - 20
            took = trace.ready_ms[-1] - trace.ready_ms[0]
            assert took == pytest.approx(1000 * tokens / rate, rel=0.25)
