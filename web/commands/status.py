"""Progress on one line of a terminal; nothing where standard error is none."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

EVERY_SECONDS = 0.1
"""A line is drawn no more often."""

WIDTH = 80


class Status:
    """One line that is drawn over and over."""

    def __init__(self, out: TextIO | None = None) -> None:
        """``out``: standard error by default."""
        self._out = sys.stderr if out is None else out
        self._shown = self._out.isatty()
        self._drawn = False
        self._next = 0.0

    def show(self, text: str) -> None:
        """Draw ``text`` in place of what was there, unless that was a moment ago."""
        now = time.monotonic()
        if self._shown and now >= self._next:
            self._next = now + EVERY_SECONDS
            self._draw(text)

    def clear(self) -> None:
        """Leave an empty line, for something else to be printed there."""
        if self._drawn:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._drawn = False

    def step(self, text: str) -> None:
        """Draw what a long operation is about to do: it may take a while."""
        if self._shown:
            self._draw(text)

    def last(self, text: str) -> None:
        """Leave ``text`` where the line was drawn."""
        if self._shown:
            self.line(text)

    def line(self, text: str) -> None:
        """Print a line that stays, also where nobody watches."""
        self.clear()
        self._out.write(text + "\n")
        self._out.flush()

    def _draw(self, text: str) -> None:
        width = shutil.get_terminal_size((WIDTH, 24)).columns
        self._out.write(f"\r\x1b[K{text[: width - 1]}")
        self._out.flush()
        self._drawn = True
