"""What ``antiphon talk`` prints: who said what, as it is heard."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

LABEL_COLUMNS = 10
WIDEST = 100
"""Columns of text; a wider terminal makes it no easier to read."""

CUT = "[cut]"
"""Where an interruption fell."""

_STYLES = {"label": "2", "note": "2", "person": "36", "reply": "33", "cut": "31"}


class Screen:
    """Prints one conversation. Colours only where a terminal reads it."""

    def __init__(self, out: TextIO | None = None) -> None:
        """``out``: standard output by default."""
        self._out = sys.stdout if out is None else out
        self._colours = self._out.isatty()
        self._columns = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
        self._column = 0
        """Where a line goes on; 0 where none does."""

    def note(self, text: str) -> None:
        """Say something about the conversation."""
        self.end()
        self._line(self._styled(text, "note"))

    def heard(self, text: str) -> None:
        """What the person said."""
        self.end()
        self._label("you")
        for word in text.split() or ["(nothing)"]:
            self._word(word, "person")
        self.end()

    def word(self, text: str) -> None:
        """A word of a reply begins to sound."""
        if not self._column:
            self._label("antiphon")
        self._word(text, "reply")

    def cut(self, unheard: str) -> None:
        """The reply falls silent; ``unheard``: what was still to come, as far as it is known."""
        if not self._column:
            self._label("antiphon")
        self._word(CUT, "cut")
        for word in unheard.split():
            self._word(word, "note")
        self.end()

    def end(self) -> None:
        """End a line that was begun."""
        if self._column:
            self._column = 0
            self._line()

    def _label(self, name: str) -> None:
        self._write(self._styled(f"{name:<{LABEL_COLUMNS}}", "label"))
        self._column = LABEL_COLUMNS

    def _word(self, text: str, style: str) -> None:
        if self._column > LABEL_COLUMNS and self._column + len(text) + 1 > self._columns:
            self._write("\n" + " " * LABEL_COLUMNS)
            self._column = LABEL_COLUMNS
        self._column += len(text) + 1
        self._write(self._styled(text, style) + " ")

    def _line(self, text: str = "") -> None:
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._colours else text
