"""Progress of long work, for a person at a terminal."""

from __future__ import annotations

import time


class Steps:
    """Prints one line a step, with the seconds since the first."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def step(self, text: str) -> None:
        """Print what is about to happen."""
        seconds = time.monotonic() - self._started
        print(f"[{seconds:5.1f} s] {text}", flush=True)  # noqa: T201
