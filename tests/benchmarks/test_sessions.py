"""The load of whole sessions: what is judged, and a tiny run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.caller import Question
from benchmarks.server import ServerProcess
from benchmarks.session_clients import Turn
from benchmarks.sessions import COLUMNS, Measured, deployment, measure, missed_limits, parse, write
from tests.support.server import shipped, write_deployment
from tests.support.speech import Speaker

from antiphon.engines.deployment import parse_deployment

GOOD = Turn(
    latency_ms=500,
    ttfa_ms=200,
    audio_ms=4000,
    underruns=0,
    gap_ms=0,
    reported=True,
    status="completed",
)


def measured(*turns: Turn, sessions: int = 8, resident_mib: float = 300.0) -> Measured:
    return Measured("ramp", sessions, list(turns), resident_mib=resident_mib)


# What is judged.


def test_a_good_run_misses_nothing() -> None:
    assert missed_limits([measured(GOOD, GOOD)]) == []


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (measured(GOOD, replace(GOOD, underruns=2, gap_ms=30)), "2 underruns, 30 ms, not none"),
        (measured(replace(GOOD, latency_ms=901)), "p50 901 ms, not 900"),
        (measured(GOOD, replace(GOOD, status="failed")), "1 of 2 turns were not answered"),
        (measured(GOOD, replace(GOOD, audio_ms=0)), "1 of 2 turns were not answered"),
        (measured(sessions=16), "no turn was answered"),
        (measured(GOOD, sessions=16, resident_mib=901), "901 MiB, not 900"),
    ],
)
def test_a_limit_that_is_missed_is_named(result: Measured, reason: str) -> None:
    missed = missed_limits([result])
    assert [line for line in missed if line.endswith(reason)], missed
    assert all(line.startswith(f"ramp, {result.sessions} sessions: ") for line in missed)


def test_beyond_eight_sessions_and_of_other_ways_little_is_asked() -> None:
    slow = replace(GOOD, latency_ms=5000, underruns=9, gap_ms=900)
    other = measured(slow)
    other.column = "fixed"
    assert missed_limits([measured(slow, sessions=12), other]) == []


def test_answers_that_stutter_are_a_share_of_those_heard() -> None:
    stutters = replace(GOOD, gap_ms=101, underruns=1)
    failed = replace(GOOD, status="failed", gap_ms=500)
    result = measured(GOOD, replace(GOOD, gap_ms=100), GOOD, stutters, failed)
    assert result.broken == 0.25


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_each_column_can_be_served(column: object) -> None:
    (each,) = [known for known in COLUMNS if known is column]
    served = parse_deployment(deployment(each, ["Certainly."]))
    assert served.stages.code2wav.rule == each.code2wav["rule"]


def test_a_short_run_is_asked_for_less() -> None:
    short, whole = parse(["--short"]), parse([])
    assert short.sessions == [1, 4, 8]
    assert whole.sessions == [1, 2, 4, 8, 12, 16]
    assert short.seconds < whole.seconds
    assert parse(["--short", "--sessions", "3", "2"]).sessions == [2, 3]


# A tiny run.


@pytest.mark.models
@pytest.mark.server
def test_people_talk_to_a_server_and_are_measured(tmp_path: Path, speaker: Speaker) -> None:
    silent = shipped("silent")
    # Much faster than it is heard: how busy this machine is must not matter.
    silent["stages"]["talker"] = {"use": "scripted", "ms_per_word": 20, "pace": 8}
    said = speaker.say("What is the capital city of France?")
    config = write_deployment(silent, tmp_path)

    async def main() -> Measured:
        async with ServerProcess.started(config) as server:
            question = Question(said.pcm, said.words)
            return await measure(server, COLUMNS[0], 2, [question], seconds=1, cycle_s=0.5)

    result = asyncio.run(main())
    assert result.turns
    assert all(turn.answered for turn in result.turns)
    assert {turn.reported for turn in result.turns} == {True, False}
    # A turn is over only after 300 ms of silence; where a word ends is not known to the ms.
    assert all(200 < turn.latency_ms < float("inf") for turn in result.turns)
    assert all(0 < turn.ttfa_ms < turn.latency_ms for turn in result.turns)
    assert result.resident_mib > 20
    assert result.cpu > 0
    assert result.lag_max_ms > 0
    assert result.refused == 0
    write([result], tmp_path)
    assert (tmp_path / "sessions.png").stat().st_size > 1000
    assert '"column": "ramp"' in (tmp_path / "sessions.json").read_text()
