"""Ties a process to the one that started it; imported by the engine's process only.

vLLM ends its process when it is shut down in order. A server that is killed can't do
that, and the model would stay in memory with nobody to talk to.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


class Leashed:
    """An extension of vLLM's worker that adds nothing but the import of this file."""


def hold() -> None:
    """Kill this process as soon as its parent is gone; nothing where it has none."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL)


hold()
