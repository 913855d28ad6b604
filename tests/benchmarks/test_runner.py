"""All benchmarks in one go: which run, and how a failure is shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import benchmarks.__main__ as runner
import pytest
from benchmarks.__main__ import NAMES, Ran, command, main, summary


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...], bool]]:
    """What was asked to run; ``sessions`` fails and says what it missed."""
    asked: list[tuple[str, tuple[str, ...], bool]] = []

    def instead(name: str, arguments: Sequence[str], *, full: bool) -> list[str]:
        asked.append((name, tuple(arguments), full))
        fails = name == "sessions"
        script = f"print('MISSED a limit') if {fails} else None; raise SystemExit({int(fails)})"
        return [sys.executable, "-c", script]

    monkeypatch.setattr(runner, "command", instead)
    return asked


def test_without_a_name_all_run_though_one_fails(
    commands: list[tuple[str, tuple[str, ...], bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 1
    assert commands == [(name, (), False) for name in NAMES]
    lines = capsys.readouterr().out.splitlines()
    end = lines[lines.index("=== all") + 1 :]
    assert [line.split()[0] for line in end if line[0] != " "] == list(NAMES)
    at = next(number for number, line in enumerate(end) if line.startswith("sessions"))
    assert end[at].endswith("FAILED with status 1")
    assert end[at + 1].strip() == "a limit"


def test_one_runs_with_its_own_arguments(
    commands: list[tuple[str, tuple[str, ...], bool]],
) -> None:
    assert main(["protocol", "--full", "--sessions", "20"]) == 0
    assert commands == [("protocol", ("--sessions", "20"), True)]


def test_arguments_for_nobody_are_refused(
    commands: list[tuple[str, tuple[str, ...], bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--turns", "3"])
    assert ended.value.code == 2
    assert not commands
    assert "expected one of voice_to_voice, chunk_rules" in capsys.readouterr().err


def test_help_is_that_of_whom_it_is_asked(
    commands: list[tuple[str, tuple[str, ...], bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--help"]) == 0
    assert not commands
    assert "protocol" in capsys.readouterr().out
    main(["protocol", "--help"])
    assert commands == [("protocol", ("--help",), False)]


def test_the_short_form_is_asked_for_unless_the_whole_is() -> None:
    assert command("sessions", ["--out", "x"], full=False)[1:] == [
        "-m",
        "benchmarks.sessions",
        "--short",
        "--out",
        "x",
    ]
    assert "--short" not in command("sessions", [], full=True)


def test_a_long_list_of_failures_is_cut() -> None:
    lines = summary([Ran("sessions", 1, 61.2, tuple(str(number) for number in range(25)))])
    assert lines[0].split() == ["sessions", "61", "s", "FAILED", "with", "status", "1"]
    assert lines[-1].strip() == "and 5 more"
    assert len(lines) == 22
