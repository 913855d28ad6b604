"""Recordings beside faster-whisper: what is judged, and a small run of both."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import benchmarks.transcription as benchmark
import pytest
from benchmarks.transcription import (
    OURS,
    SENTENCES,
    Cell,
    deployment,
    line,
    make,
    missed,
    parse,
    report,
    run,
)
from tests.support.speech import Speaker

from antiphon.engines.deployment import WhisperConfig, parse_deployment

DIRECT = Cell("faster-whisper, 1 beam", "wav", 1, speeds=[40, 39, 60], cpu_s=[2.6], errors=0.02)
GOOD = Cell(OURS, "wav", 1, speeds=[38, 20, 50], firsts_s=[0.5, 9, 0.4], cpu_s=[2.2], errors=0.04)


def test_a_good_run_misses_nothing() -> None:
    assert missed([GOOD, replace(GOOD, clients=4, firsts_s=[9.0]), DIRECT]) == []


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (replace(GOOD, speeds=[37.9]), "37.9 s of audio a second, faster-whisper 40.0"),
        (replace(GOOD, clients=4, speeds=[37.9]), "37.9 s of audio a second, faster-whisper 40.0"),
        (replace(GOOD, errors=0.041), "4.1 % wrong words, faster-whisper 2.0"),
        (replace(GOOD, firsts_s=[1.6, 1.7, 1.0]), "first text after 1.60 s, limit 1.5"),
    ],
)
def test_a_limit_that_is_missed_is_named(cell: Cell, reason: str) -> None:
    assert missed([cell, DIRECT]) == [f"wav, {cell.clients} clients: {reason}"]


def test_a_row_tells_what_was_measured() -> None:
    assert line(GOOD).split() == [
        *("antiphon", "wav", "1", "38.0", "(20.0,", "50.0)", "2.20", "4.0", "0.50", "s")
    ]
    assert line(DIRECT).split()[-1] == "2.0"


def test_a_short_run_asks_for_less() -> None:
    short, whole = parse(["--short"]), parse([])
    assert (short.clients, short.rounds) == ([1, 2], 1)
    assert (whole.clients, whole.rounds) == ([1, 2, 4], 3)
    assert parse(["--short", "--clients", "4", "--rounds", "2"]).clients == [4]


def test_what_serves_it_reads_with_the_model_that_is_compared() -> None:
    served = parse_deployment(deployment())
    assert served.stages.recognizer == WhisperConfig(model=benchmark.MODEL)


@pytest.mark.models
@pytest.mark.server
@pytest.mark.timeout(180)
def test_a_small_run(
    tmp_path: Path,
    speaker: Speaker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(benchmark, "FORMS", ("wav",))
    said = {text: speaker.say(text).pcm for text in SENTENCES[2:4]}
    recording = make(said, 5, tmp_path)
    assert recording.text == " ".join(SENTENCES[2:4])
    results = asyncio.run(run(recording, [1], 1, tmp_path))
    ours, *direct = results.cells
    assert [each.reader for each in direct] == [
        "faster-whisper, 1 beam",
        "faster-whisper, 5 beams",
    ]
    for each in results.cells:
        # How fast it is depends on the machine.
        assert len(each.speeds) == len(each.cpu_s) == 1
        assert each.speed > 0
        assert each.errors < 0.25
    assert ours.first_s is not None
    assert 0 < results.resident_mib[0] <= results.resident_mib[1]
    report(results, tmp_path)
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert '"resident_mib"' in (tmp_path / "transcription.json").read_text()
    assert (tmp_path / "transcription.png").stat().st_size > 1000
