"""Runs the page's own tests, which are JavaScript, one pytest case a file."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "js"
FILES = sorted(path.name for path in FOLDER.glob("*.test.mjs"))


def node() -> str:
    """The node program; without it the page is untested, which is a failure and no skip."""
    found = shutil.which("node")
    if found is None:
        pytest.fail("node is not installed: the page's modules are tested with node 20 or newer")
    return found


def test_there_are_page_tests() -> None:
    assert FILES


@pytest.mark.parametrize("name", FILES)
def test_page_module(name: str) -> None:
    # Node marks the children of its own runner this way; a marked run prints no summary.
    environment = {key: value for key, value in os.environ.items() if key != "NODE_TEST_CONTEXT"}
    ran = subprocess.run(
        [node(), "--test", "--test-reporter=spec", str(FOLDER / name)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert "ℹ pass 0\n" not in ran.stdout, f"no test ran in {name}"
