"""A process on the leash goes when its parent is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import multiprocessing, os, signal, sys, time

def child(ready):
    import antiphon.engines.text.leash
    ready.send(None)
    time.sleep(300)

if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.get_context("spawn").Process(target=child, args=(theirs,)).start()
    ours.recv()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_goes_with_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(SCRIPT)
    # The child holds the other end of the output, so reading ends only when it is gone.
    done = subprocess.run([sys.executable, script], capture_output=True, timeout=50, check=False)
    assert done.returncode == -9
    assert b"Traceback" not in done.stderr
