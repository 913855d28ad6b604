"""The command starts itself again with huge pages, once, and only to serve."""

from __future__ import annotations

import os
import sys

import pytest

from antiphon.web import __main__ as command


class Started(Exception):
    """Raised in the place of the new process."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    calls: list[list[str]] = []

    def execv(path: str, arguments: list[str]) -> None:
        assert path == sys.executable
        calls.append(arguments)
        raise Started

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(sys, "platform", "linux")
    # Set first, so that whatever the command sets is undone in the end.
    monkeypatch.setenv(command.TUNABLES, "")
    monkeypatch.delenv(command.TUNABLES)
    return calls


def test_serving_starts_again_with_the_same_arguments(
    monkeypatch: pytest.MonkeyPatch, started: list[list[str]]
) -> None:
    monkeypatch.setattr(sys, "argv", ["antiphon", "serve", "--port", "1"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "/bin/antiphon", "serve", "--port", "1"])
    with pytest.raises(Started):
        command.run()
    assert started == [[sys.executable, "/bin/antiphon", "serve", "--port", "1"]]
    assert os.environ[command.TUNABLES] == command.HUGE_PAGES


def test_tunables_of_the_user_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, started: list[list[str]]
) -> None:
    monkeypatch.setenv(command.TUNABLES, "glibc.malloc.arena_max=2")
    monkeypatch.setattr(sys, "argv", ["antiphon", "serve", "--config", "/nowhere.yaml"])
    assert command.run() == 2
    assert started == []


def test_other_commands_do_not_start_again(
    monkeypatch: pytest.MonkeyPatch, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["antiphon", "models", "list"])
    assert command.run() == 0
    assert "piper-joe" in capsys.readouterr().out
    assert started == []
