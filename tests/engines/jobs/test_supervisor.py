"""The server's own worker process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import patiently as until

from antiphon.engines.jobs.supervisor import WorkerChild

CHILD = """
import os, sys
open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
sys.stdin.read()
open(os.path.join(sys.argv[1], "alone"), "w").close()
"""


def test_a_worker_leaves_when_its_server_is_no_more(tmp_path: Path) -> None:
    settings = {
        "database": f"sqlite:///{tmp_path}/jobs.sqlite",
        "store": str(tmp_path / "files"),
    }
    command = [
        sys.executable,
        "-m",
        "tests.support.jobs_worker",
        json.dumps(settings),
        str(tmp_path),
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=50)
    assert done.returncode == 0


def test_a_dead_child_is_started_again_and_ends_with_its_owner(tmp_path: Path) -> None:
    def here(pid: int | None) -> bool:
        return pid is not None and (tmp_path / str(pid)).exists()

    async def main() -> None:
        child = WorkerChild([sys.executable, "-c", CHILD, str(tmp_path)])
        await child.start()
        first = child.pid
        assert first is not None
        await until(lambda: here(first))
        os.kill(first, signal.SIGKILL)
        await until(lambda: child.pid != first and here(child.pid))
        assert child.restarts == 1
        second = child.pid
        assert second is not None
        await child.close()
        await child.close()
        assert child.pid is None
        with pytest.raises(ProcessLookupError):
            os.kill(second, 0)

    asyncio.run(main())
    assert not (tmp_path / "alone").exists()
