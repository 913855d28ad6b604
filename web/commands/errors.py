"""What a command ends with where it can't do what it was asked for."""

from __future__ import annotations


class CommandError(Exception):
    """The command can't go on; the message is one line that says what to do."""

    def __init__(self, message: str, *, misused: bool = False) -> None:
        """``misused``: whether it was asked for something impossible."""
        super().__init__(message)
        self.misused = misused
