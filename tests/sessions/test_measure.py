"""Where the time of a spoken turn went."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.sessions.effects import TurnMeasured
from antiphon.sessions.events import ReplyTimed
from antiphon.sessions.measure import TurnClock, measure_turn

INSTANT = st.none() | st.floats(0, 20)


def parts(measured: TurnMeasured) -> list[float]:
    return [
        measured.endpointing_ms,
        measured.recognition_ms,
        measured.first_token_ms,
        measured.first_clause_ms,
        measured.talker_ms,
        measured.code2wav_ms,
    ]


def test_each_stage_is_charged_from_where_the_one_before_it_ended() -> None:
    timed = ReplyTimed("r", 0, 10.8, 10.9, 11.0, 11.0625)
    measured = measure_turn("r", TurnClock(10.0, 10.5, 10.75), timed, 11.125)
    assert parts(measured) == [500.0, 250.0, 50.0, 100.0, 100.0, 125.0]
    assert measured.total_ms == 1125.0
    assert measured.clause_to_audio_ms == 162.5


def test_work_done_ahead_of_time_costs_nothing() -> None:
    timed = ReplyTimed("r", 0, 10.3, 10.35, 10.4, 10.45)
    measured = measure_turn("r", TurnClock(10.0, 10.5, 10.25), timed, 10.5)
    assert parts(measured) == [500.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert measured.clause_to_audio_ms == 100.0


def test_a_stage_that_was_not_passed_takes_no_time() -> None:
    timed = ReplyTimed("r", 0, None, None, None, None)
    measured = measure_turn("r", TurnClock(10.0, 10.5), timed, 10.75)
    assert parts(measured) == [500.0, 0.0, 0.0, 0.0, 0.0, 250.0]
    assert measured.clause_to_audio_ms is None


@settings(deadline=None)
@given(st.lists(INSTANT, min_size=6, max_size=6), st.floats(0, 20))
def test_the_parts_sum_to_the_total(instants: list[float | None], speech_end: float) -> None:
    ended, recognized, token, clause, talker, code2wav = instants
    clock = TurnClock(speech_end, ended or speech_end, recognized)
    measured = measure_turn("r", clock, ReplyTimed("r", 0, token, clause, talker, code2wav), 20.0)
    assert min(parts(measured)) >= 0
    assert sum(parts(measured)) == pytest.approx(measured.total_ms, abs=0.5)
