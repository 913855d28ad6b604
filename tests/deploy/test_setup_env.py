"""Which requirements fit which machine, and when the environment is made anew."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from antiphon.deploy import setup_env
from antiphon.deploy.setup_env import (
    REQUIREMENTS,
    SetupError,
    check_python,
    discard_half_installed,
    fingerprint,
    requirement_file,
    requirement_lines,
    set_up,
)


class Commands:
    """Stands for :func:`subprocess.run`: remembers what was run, and plays its part."""

    def __init__(self, venv: Path) -> None:
        self.ran: list[list[str]] = []
        self.fail_on = ""
        self.output = ""
        self._venv = venv

    def __call__(self, command: list[object], **_options: object) -> Commands.Result:
        words = [str(word) for word in command]
        self.ran.append(words)
        failed = bool(self.fail_on) and self.fail_on in " ".join(words)
        if "venv" in words and not failed:
            (self._venv / "bin").mkdir(parents=True, exist_ok=True)
            (self._venv / "bin" / "python").touch()
        return Commands.Result(int(failed), self.output)

    class Result:
        """What is used of a completed process."""

        def __init__(self, returncode: int, stdout: str) -> None:
            self.returncode = returncode
            self.stdout = stdout

    def installs(self) -> list[str]:
        """The last argument of every ``pip install``, since the last call."""
        found = [Path(words[-1]).name for words in self.ran if "install" in words]
        self.ran.clear()
        return found


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    deploy = tmp_path / "deploy"
    deploy.mkdir()
    (deploy / "requirements-speech.txt").write_text("numpy==2.3.5\n")
    for name in ("cpu", "cuda"):
        text = "-r requirements-speech.txt\ntorch==2.13.0\n"
        (deploy / f"requirements-{name}.txt").write_text(text)
    (deploy / "requirements-dev.txt").write_text("pytest==9.2.0\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    venv = tmp_path / ".venv"
    monkeypatch.setattr(setup_env, "ROOT", tmp_path)
    monkeypatch.setattr(setup_env, "VENV", venv)
    monkeypatch.setattr(setup_env, "PYTHON", venv / "bin" / "python")
    monkeypatch.setattr(setup_env, "LOG", venv / "setup.log")
    monkeypatch.setattr(setup_env, "MADE_FOR", venv / "made-for.txt")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for name in (setup_env.ACCELERATOR, setup_env.TORCH_INDEX):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def commands(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    ran = Commands(repository / ".venv")
    monkeypatch.setattr(subprocess, "run", ran)
    return ran


def test_torch_comes_first_and_alone_then_the_lock_then_this(
    repository: Path, commands: Commands
) -> None:
    set_up(dev=True)
    torch, lock, this, tools = (words for words in commands.ran if "install" in words)
    assert "torch==2.13.0" in torch
    assert "--no-deps" not in torch
    assert lock[-3:] == ["--no-deps", "-r", str(repository / "deploy" / "requirements-cpu.txt")]
    assert this[-2:] == ["-e", str(repository)]
    assert "--no-deps" in this
    assert tools[-1].endswith("requirements-dev.txt")


def test_a_torch_index_serves_torch_only(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setup_env.TORCH_INDEX, "file:///wheels")
    set_up(dev=False)
    torch, *others = (words for words in commands.ran if "install" in words)
    assert torch[-3:] == ["--index-url", "file:///wheels", "--no-deps"]
    assert not any("--index-url" in words for words in others)


def test_nothing_is_run_when_nothing_changed(commands: Commands) -> None:
    set_up(dev=True)
    commands.ran.clear()
    set_up(dev=True)
    set_up(dev=False)
    assert commands.ran == []


@pytest.mark.parametrize(
    "changed", ["deploy/requirements-speech.txt", "deploy/requirements-cpu.txt", "pyproject.toml"]
)
def test_a_changed_file_installs_again_in_the_same_environment(
    repository: Path, commands: Commands, changed: str
) -> None:
    set_up(dev=False)
    commands.ran.clear()
    with (repository / changed).open("a") as file:
        file.write("# changed\n")
    set_up(dev=False)
    assert not any("venv" in words for words in commands.ran)
    assert "requirements-cpu.txt" in commands.installs()


def test_tools_are_added_to_a_runtime_that_is_there(commands: Commands) -> None:
    set_up(dev=False)
    commands.ran.clear()
    set_up(dev=True)
    assert commands.installs() == ["requirements-dev.txt"]


def test_another_accelerator_gets_a_new_environment(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(dev=False)
    commands.ran.clear()
    monkeypatch.setenv(setup_env.ACCELERATOR, "cuda")
    set_up(dev=False)
    assert commands.ran[0][1:4] == ["-m", "venv", "--clear"]
    assert "requirements-cuda.txt" in commands.installs()


def test_a_failed_step_shows_what_pip_said_and_is_carried_on(commands: Commands) -> None:
    commands.fail_on, commands.output = "torch==", "no space left on device"
    with pytest.raises(SetupError, match="no space left on device") as failure:
        set_up(dev=False)
    assert "run the same command again" in str(failure.value)
    assert "no space left on device" in setup_env.LOG.read_text()
    commands.fail_on = ""
    commands.ran.clear()
    set_up(dev=False)
    assert not any("venv" in words for words in commands.ran)
    assert len(commands.installs()) == 3


def test_a_missing_venv_module_names_the_package(commands: Commands) -> None:
    commands.fail_on = "venv --clear"
    with pytest.raises(SetupError, match=r"apt install python3\.\d+-venv"):
        set_up(dev=False)


def test_packages_cut_off_in_installation_are_forgotten(tmp_path: Path) -> None:
    whole, half = tmp_path / "whole-1.dist-info", tmp_path / "half-1.dist-info"
    for folder in (whole, half):
        folder.mkdir()
        (folder / "METADATA").touch()
    (whole / "RECORD").touch()
    assert discard_half_installed(tmp_path) == ["half-1.dist-info"]
    assert whole.exists()
    assert not half.exists()


def test_an_old_python_is_refused_with_the_way_out() -> None:
    check_python((3, 11))
    with pytest.raises(SetupError, match=r"is 3\.10\.\n.*make setup PYTHON="):
        check_python((3, 10))


def test_every_listed_machine_has_its_file() -> None:
    for key in REQUIREMENTS:
        assert requirement_file(*key).is_file()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (("Windows", "AMD64", "cpu"), "WSL 2"),
        (("Linux", "x86_64", "tpu"), "Linux/x86_64/cuda"),
        (("Linux", "riscv64", "cpu"), "Linux/aarch64/cpu"),
    ],
)
def test_another_machine_is_refused_with_what_there_is(
    key: tuple[str, str, str], said: str
) -> None:
    with pytest.raises(SetupError, match=said):
        requirement_file(*key)


def test_the_fingerprint_follows_included_files_and_the_python(repository: Path) -> None:
    files = [repository / "deploy" / "requirements-cpu.txt"]
    before = fingerprint(files, "3.11.7")
    assert fingerprint(files, "3.11.7") == before
    assert fingerprint(files, "3.12.1") != before
    (repository / "deploy" / "requirements-speech.txt").write_text("numpy==2.3.6\n")
    assert fingerprint(files, "3.11.7") != before


def test_requirement_lines_hold_the_included_ones(repository: Path) -> None:
    lines = requirement_lines(repository / "deploy" / "requirements-cpu.txt").splitlines()
    assert {"numpy==2.3.5", "torch==2.13.0"} <= set(lines)
