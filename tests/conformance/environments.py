"""Environments of the clients: each in a cache folder of its own, made once.

``python -m tests.conformance.environments`` makes all of them, in parallel. Uses only the
standard library, so that it may run before the repository's own environment is there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PINS = HERE / "pins"

MAKE_SECONDS = 900.0
"""Longest wait for an environment, whoever makes it."""

STEP_SECONDS = 600.0
"""Longest wait for one command of an installation."""

DONE = ".complete"
"""Written last: a folder without it was cut off."""


class CannotMakeError(AssertionError):
    """A client's environment can't be made; the message says what failed."""


@dataclass(frozen=True)
class Environment:
    """What a client runs in.

    Args:
        name: Begins the folder's name.
        inputs: The files that pin it: a change in one of them makes another environment.
        commands: The commands that fill a new folder, given its path.
        kind: What else it depends on, as the version of an interpreter.
    """

    name: str
    inputs: tuple[Path, ...]
    commands: Callable[[Path], list[list[str]]]
    kind: str = f"Python {sys.version}"

    @property
    def folder(self) -> Path:
        """Where it lies, whether it is there or not."""
        texts = [self.kind, *(path.read_text(encoding="utf-8") for path in self.inputs)]
        digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
        return clients_root() / f"{self.name}-{digest[:12]}"

    @property
    def python(self) -> Path:
        """Its interpreter, where it is a Python environment."""
        return self.folder / "bin" / "python"

    def made(self) -> Path:
        """Return its folder; make it first where it is missing.

        Raises:
            CannotMakeError: a command failed, or another process takes too long to make it.
        """
        folder = self.folder
        if (folder / DONE).exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            if not (folder / DONE).exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                for command in self.commands(folder):
                    _run(self.name, command)
                (folder / DONE).touch()
        return folder


def clients_root() -> Path:
    """Where environments lie: in ``ANTIPHON_CACHE``, else in the user's cache."""
    if own := os.environ.get("ANTIPHON_CACHE"):
        return Path(own) / "clients"
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "antiphon" / "clients"


def virtual(pins: Path) -> Callable[[Path], list[list[str]]]:
    """Commands that make a Python environment of pinned packages."""

    def commands(folder: Path) -> list[list[str]]:
        options = ["--disable-pip-version-check", "--no-input", "--no-compile", "--no-deps"]
        return [
            [sys.executable, "-m", "venv", str(folder)],
            [str(folder / "bin" / "python"), "-m", "pip", "install", *options, "-r", str(pins)],
        ]

    return commands


def python_environment(name: str) -> Environment:
    """Return the environment that ``pins/NAME.txt`` pins."""
    pins = PINS / f"{name}.txt"
    return Environment(name, (pins,), virtual(pins))


PYTHON_ENVIRONMENTS = {
    name: python_environment(name) for name in ("openai-agents", "pipecat", "livekit")
}


def every_environment() -> list[Environment]:
    """Return all environments that the tests of this folder need."""
    # It is made of what this module offers.
    from .node_environment import NODE_ENVIRONMENT

    return [*PYTHON_ENVIRONMENTS.values(), NODE_ENVIRONMENT]


def _run(name: str, command: list[str]) -> None:
    try:
        result = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=STEP_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotMakeError(f"the environment of {name} can't be made: {error}") from None
    if result.returncode:
        tail = "\n".join(result.stdout.splitlines()[-20:])
        raise CannotMakeError(
            f"the environment of {name} can't be made: {' '.join(command)} said\n{tail}\n"
            "It needs a package index the first time."
        )


@contextmanager
def _locked(path: Path) -> Generator[None, None, None]:
    """Wait while another process holds the file's lock."""
    end = time.monotonic() + MAKE_SECONDS
    handle = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise CannotMakeError(f"another process holds {path} for too long") from None
                time.sleep(0.2)
        yield
    finally:
        os.close(handle)


def make_all() -> dict[str, str]:
    """Make every environment, in parallel; return what failed, by name."""

    def make(environment: Environment) -> tuple[str, str]:
        started = time.monotonic()
        try:
            environment.made()
        except CannotMakeError as error:
            return environment.name, str(error)
        print(f"  client {environment.name}: {time.monotonic() - started:.0f} s", flush=True)
        return environment.name, ""

    with ThreadPoolExecutor(max_workers=4) as pool:
        return {name: error for name, error in pool.map(make, every_environment()) if error}


def main() -> int:
    """Run from the command line; returns the exit status."""
    failed = make_all()
    for error in failed.values():
        print(error, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    # By its own name, under which the Node environment knows it: its classes exist once.
    from tests.conformance.environments import main as run

    sys.exit(run())
