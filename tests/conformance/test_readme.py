"""The examples of README.md's sections on clients and speech, run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.server import Server

from .environments import PYTHON_ENVIRONMENTS
from .node_environment import NODE_ENVIRONMENT, node_of

pytestmark = [pytest.mark.models, pytest.mark.server, pytest.mark.timeout(900)]

README = Path(__file__).parents[2] / "README.md"

RUN_SECONDS = 90.0

ADDRESS = "127.0.0.1:8000"


def section(title: str) -> str:
    """Return the text of a section."""
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no section '{title}'"
    return found[1]


def example(package: str, title: str = "Use your client") -> str:
    """Return the indented block of a section that imports from a package."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", section(title), re.MULTILINE)
    mark = re.compile(rf"from ['\"]?{re.escape(package)}\b")
    (found,) = [block for block in blocks if mark.search(block)]
    return re.sub(r"^    ", "", found, flags=re.MULTILINE).strip() + "\n"


def printed(command: list[str], text: str, server: Server, folder: Path, suffix: str) -> str:
    """Run an example against a server; return what it prints."""
    assert ADDRESS in text, f"the example names no address {ADDRESS}"
    script = folder / f"example{suffix}"
    script.write_text(text.replace(ADDRESS, f"127.0.0.1:{server.port}"), encoding="utf-8")
    done = subprocess.run(
        [*command, str(script)],
        capture_output=True,
        encoding="utf-8",
        timeout=RUN_SECONDS,
        cwd=folder,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_openai(scripted_server: Server, tmp_path: Path) -> None:
    told = printed([sys.executable], example("openai"), scripted_server, tmp_path, ".py")
    assert "sky" in told


def test_speech_alone(scripted_server: Server, tmp_path: Path) -> None:
    text = example("openai", "Speech alone")
    assert len(text.splitlines()) == 3
    assert printed([sys.executable], text, scripted_server, tmp_path, ".py") == ""
    # About a second at 64 kbit/s.
    assert 4_000 < (tmp_path / "hello.mp3").stat().st_size < 20_000


def test_pictures_and_clips(scripted_server: Server, tmp_path: Path) -> None:
    title = "Pictures and clips"
    assert (
        printed([sys.executable], example("openai", title), scripted_server, tmp_path, ".py") == ""
    )
    assert (tmp_path / "apple.png").read_bytes().startswith(b"\x89PNG")
    (command,) = re.findall(r"^    (curl .*)$", section(title), re.MULTILINE)
    script = f"set -e\n{command} --fail --silent\n"
    assert printed(["sh"], script, scripted_server, tmp_path, ".sh") == ""
    assert (tmp_path / "rocket.mp4").read_bytes()[4:8] == b"ftyp"


def test_openai_agents(scripted_server: Server, tmp_path: Path) -> None:
    PYTHON_ENVIRONMENTS["openai-agents"].made()
    python = str(PYTHON_ENVIRONMENTS["openai-agents"].python)
    told = printed([python], example("agents"), scripted_server, tmp_path, ".py")
    sizes = [int(line.split()[0]) for line in told.splitlines()]
    # The line takes about 9 s.
    assert sum(sizes) > 5 * 2 * 24_000


def test_agents_realtime_of_node(scripted_server: Server, tmp_path: Path) -> None:
    folder = NODE_ENVIRONMENT.made()
    # Node looks for packages from where a script lies.
    (tmp_path / "node_modules").symlink_to(folder / "node_modules")
    node = str(node_of(folder))
    told = printed([node], example("@openai/agents-realtime"), scripted_server, tmp_path, ".mjs")
    assert "sky" in told
