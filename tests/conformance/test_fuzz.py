"""A hundred thousand wrong events: each answered, and nothing left of any session."""

from __future__ import annotations

import pytest
from tests.conformance.fuzz import BATCH, Report, run_batch

MESSAGES = 100_000
SHARDS = 10
SEED = 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_hundred_thousand_wrong_events(shard: int) -> None:
    report = Report()
    for number in range(shard, MESSAGES // BATCH, SHARDS):
        report.add(run_batch(SEED, number))
    assert report.sent == MESSAGES // SHARDS
    assert report.events["session.created"] + report.events["transcription_session.created"] == (
        MESSAGES // SHARDS // BATCH
    )
