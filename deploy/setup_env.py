"""Make or refresh the virtual environment: ``python3 deploy/setup_env.py [--dev]``.

Uses only the standard library, and runs before anything is installed. It does nothing,
quickly, when the environment already holds what the requirement files ask for; after an
interruption it carries on. Which requirement file fits which machine is decided in
:data:`REQUIREMENTS`, and nowhere else. pip is used with its own configuration.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOG = VENV / "setup.log"
MADE_FOR = VENV / "made-for.txt"
OLDEST_PYTHON = (3, 11)

ACCELERATOR = "ANTIPHON_ACCELERATOR"
"""``cpu`` (the default) or ``cuda``."""

TORCH_INDEX = "ANTIPHON_TORCH_INDEX"
"""An index that only torch is taken from, where pip's own configuration has no CPU build."""

REQUIREMENTS = {
    ("Linux", "x86_64", "cpu"): "requirements-cpu.txt",
    ("Linux", "aarch64", "cpu"): "requirements-cpu.txt",
    ("Linux", "x86_64", "cuda"): "requirements-cuda.txt",
    # vLLM publishes no build for macOS: recognition and voice run, the language model doesn't.
    ("Darwin", "arm64", "cpu"): "requirements-speech.txt",
}
"""The requirement file of each (system, machine, accelerator)."""

TORCH_PIN = re.compile(r"^torch==[\w.]+$", re.MULTILINE)


class SetupError(Exception):
    """The environment can't be made; the message says what to do."""


def requirement_file(system: str, machine: str, accelerator: str) -> Path:
    """The runtime requirements of one kind of machine.

    Raises:
        SetupError: no set of requirements fits it.
    """
    if name := REQUIREMENTS.get((system, machine, accelerator)):
        return ROOT / "deploy" / name
    if system == "Windows":
        raise SetupError("Windows itself is not supported: use WSL 2, which counts as Linux.")
    known = ", ".join("/".join(key) for key in REQUIREMENTS)
    raise SetupError(
        f"no requirement set for {system}/{machine}/{accelerator}.\n"
        f"  There are sets for: {known} ({ACCELERATOR} chooses the last part)."
    )


def requirement_lines(path: Path) -> str:
    """The text of a requirement file and of the files that it includes."""
    text = path.read_text(encoding="utf-8")
    included = re.findall(r"^-r (\S+)$", text, re.MULTILINE)
    return text + "".join(requirement_lines(path.parent / name) for name in included)


def fingerprint(files: list[Path], python: str) -> str:
    """A hash that changes with anything that the environment is made from."""
    texts = [python, (ROOT / "pyproject.toml").read_text(encoding="utf-8")]
    # The editable install records where the repository lies.
    texts += [str(ROOT), *(path.name + requirement_lines(path) for path in files)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def check_python(version: tuple[int, ...]) -> None:
    """Refuse a Python that is too old.

    Raises:
        SetupError: it is older than 3.11.
    """
    if version < OLDEST_PYTHON:
        found = ".".join(map(str, version[:2]))
        raise SetupError(
            f"Python 3.11 or newer is needed, and {sys.executable} is {found}.\n"
            "  Choose another one: make setup PYTHON=python3.12"
        )


def discard_half_installed(site_packages: Path) -> list[str]:
    """Forget packages whose installation was cut off, so that pip installs them again.

    Returns:
        Their metadata folders' names. pip writes ``RECORD`` last.
    """
    broken = [
        folder for folder in site_packages.glob("*.dist-info") if not (folder / "RECORD").exists()
    ]
    for folder in broken:
        shutil.rmtree(folder)
    return [folder.name for folder in broken]


class Environment:
    """The virtual environment of this repository.

    Args:
        runtime: The requirements it is for. Another Python or another set gets a new
            environment, because pip takes torch's build for CPU and for CUDA as one.
    """

    def __init__(self, runtime: Path) -> None:
        self._kind = f"Python {_python_version()}, {runtime.name}"

    def make(self) -> None:
        """Create it, unless a working one of the same kind is there.

        Raises:
            SetupError: Python's ``venv`` module is missing.
        """
        if self._usable():
            for site_packages in VENV.glob("lib/python*/site-packages"):
                discard_half_installed(site_packages)
            return
        command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
        self._step("virtual environment", command, mend=_venv_hint())
        MADE_FOR.write_text(self._kind, encoding="utf-8")

    def install(self, requirements: Path) -> None:
        """Install a complete set of pins.

        Raises:
            SetupError: pip failed.
        """
        if pin := TORCH_PIN.search(requirement_lines(requirements)):
            # Alone and with its dependencies: they differ between its builds.
            self._pip(pin[0].replace("==", " "), [pin[0], "-c", str(requirements), *_torch_index()])
        self._pip(requirements.name, ["--no-deps", "-r", str(requirements)])

    def install_this(self) -> None:
        """Install this repository in place.

        Raises:
            SetupError: pip failed.
        """
        options = ["--no-deps", "--no-build-isolation", "--force-reinstall"]
        self._pip("antiphon, in place", [*options, "-e", str(ROOT)])

    def _usable(self) -> bool:
        if not MADE_FOR.exists() or MADE_FOR.read_text(encoding="utf-8") != self._kind:
            return False
        try:
            return subprocess.run([PYTHON, "-c", "import pip"], capture_output=True).returncode == 0
        except OSError:
            return False

    def _pip(self, title: str, arguments: list[str]) -> None:
        options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
        # Bytecode of what is really imported is written at the first import.
        command = [str(PYTHON), "-m", "pip", "install", *options, "--no-compile", *arguments]
        self._step(title, command, mend="Check the network and pip's configuration.")

    def _step(self, title: str, command: list[str], *, mend: str) -> None:
        started = time.monotonic()
        print(f"  {title} ...", end="", flush=True)
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
        )
        print(f" {time.monotonic() - started:.0f} s", flush=True)
        VENV.mkdir(exist_ok=True)
        with LOG.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{result.stdout}\n")
        if result.returncode:
            tail = "\n".join(result.stdout.splitlines()[-20:])
            raise SetupError(
                f"{title}: failed.\n{tail}\n\n  {mend} Everything pip said is in {LOG}.\n"
                "  Then run the same command again; it carries on where it stopped."
            )


def _python_version() -> str:
    return "{}.{}".format(*sys.version_info[:2])


def _venv_hint() -> str:
    return (
        "Python's venv module may be missing: "
        f"apt install python{_python_version()}-venv (or your system's package for it)."
    )


def _torch_index() -> list[str]:
    index = os.environ.get(TORCH_INDEX)
    # What a CPU build depends on is in the lock.
    return ["--index-url", index, "--no-deps"] if index else []


@contextlib.contextmanager
def _only_one_at_a_time() -> Generator[None]:
    """Wait while another set-up of this repository runs."""
    import fcntl  # Windows has none, and is refused before

    # The folder itself is locked: a file in .venv would go with it.
    folder = os.open(ROOT / "deploy", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def set_up(*, dev: bool) -> None:
    """Bring the environment up to date; with ``dev``, the tools of tests and checks too.

    Raises:
        SetupError: something can't be installed; the message says what to do.
    """
    check_python(sys.version_info[:2])
    accelerator = os.environ.get(ACCELERATOR, "cpu")
    runtime = requirement_file(platform.system(), platform.machine(), accelerator)
    with _only_one_at_a_time():
        with _stamped("runtime", [runtime]) as environment:
            if environment:
                environment.install(runtime)
                environment.install_this()
        if dev:
            tools = ROOT / "deploy" / "requirements-dev.txt"
            with _stamped("dev", [runtime, tools]) as environment:
                if environment:
                    environment.install(tools)


@contextlib.contextmanager
def _stamped(name: str, files: list[Path]) -> Generator[Environment | None]:
    """The environment to install ``files`` into, or None where its stamp says that they are."""
    stamp = VENV / f"{name}.stamp"
    wanted = fingerprint(files, sys.version)
    if PYTHON.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        yield None
        return
    started = time.monotonic()
    print(f"Setting up .venv from {files[-1].name}", flush=True)
    stamp.unlink(missing_ok=True)
    environment = Environment(files[0])
    environment.make()
    yield environment
    stamp.write_text(wanted, encoding="utf-8")
    print(f"  done in {time.monotonic() - started:.0f} s", flush=True)


def main() -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Make or refresh .venv.")
    parser.add_argument("--dev", action="store_true", help="also the tools of tests and checks")
    try:
        set_up(dev=parser.parse_args().dev)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; run the same command again to carry on.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
