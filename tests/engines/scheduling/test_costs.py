import math

import pytest

from antiphon.engines.scheduling.costs import ASSUMED_UTTERANCE_MS, Costs


def test_nothing_is_known_at_first_but_what_a_decode_is_thought_to_cost() -> None:
    costs = Costs(fixed_ms=9, frame_ms=0.6)
    assert not costs.pace_known
    assert costs.decode_ms(10) == 15
    assert costs.decode_deviation_ms(10) == 0
    assert (costs.wait.mean, costs.wait.deviation) == (0, 0)
    assert costs.burst == 1
    assert costs.utterance_ms == ASSUMED_UTTERANCE_MS


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1.0])
def test_numbers_that_cannot_be_are_ignored(wrong: float) -> None:
    costs = Costs(fixed_ms=9, frame_ms=0.6)
    costs.arrived(1, 40)
    before = (costs.statistics(), costs.utterance_ms)
    costs.arrived(1, wrong)
    costs.decoded(4, wrong)
    costs.waited(wrong)
    costs.ended(wrong)
    costs.arrived(0, 40)
    costs.decoded(0, 10)
    assert (costs.statistics(), costs.utterance_ms) == before


def test_frames_at_one_instant_came_together() -> None:
    costs = Costs()
    for _ in range(40):
        costs.arrived(1, 0.0)
        costs.arrived(1, 160.0)
    assert costs.pace.mean == pytest.approx(80, rel=0.05)
    assert costs.burst == pytest.approx(2, rel=0.05)


def test_whole_clauses_have_the_pace_of_their_frames() -> None:
    costs = Costs()
    for _ in range(10):
        costs.arrived(100, 400)
    assert costs.pace.mean == pytest.approx(4)
    assert costs.burst == pytest.approx(100)


def test_statistics_name_what_is_known() -> None:
    costs = Costs(fixed_ms=9, frame_ms=0.6)
    costs.arrived(1, 40)
    costs.waited(7)
    costs.decoded(4, 11.4)
    known = costs.statistics()
    assert known["pace_ms"] == 40
    assert known["wait_ms"] == 7
    assert known["decode_fixed_ms"] == pytest.approx(9)
    assert known["decode_frame_ms"] == pytest.approx(0.6)
    assert known["samples"] == 1
    assert known["pace_deviation_ms"] > 0
    assert known["wait_deviation_ms"] > 0


def test_the_length_of_utterances_is_learned() -> None:
    costs = Costs()
    for _ in range(20):
        costs.ended(2500)
    assert costs.utterance_ms == pytest.approx(2500)
