"""Files that appear when they are complete, and standard output."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Protocol

from .errors import CommandError

STDOUT = "-"

WAKE_SECONDS = 0.1
"""How soon a write to a reader who takes nothing notices that it was stopped."""


class Output(Protocol):
    """Where bytes go."""

    def write(self, data: bytes) -> None:
        """Append.

        Raises:
            CommandError: it can't be written.
        """
        ...

    def amend(self, data: bytes) -> None:
        """Put ``data`` in place of as many bytes at the beginning, where that can be done."""
        ...

    def stop(self) -> None:
        """Let nobody wait for a reader who takes nothing: a write under way gives up."""
        ...


@contextmanager
def writing(named: str) -> Generator[Output]:
    """Write to a file that appears when this is left without an error; ``-``: standard output.

    Until then it has a hidden name beside its own. What is no plain file, such as a pipe, is
    written to directly.

    Raises:
        CommandError: it can't be written.
    """
    if named == STDOUT:
        yield _Stream(sys.stdout.fileno(), "standard output")
        return
    path = Path(os.path.realpath(named))
    if path.is_dir():
        raise CommandError(f"cannot write {named}: it is a folder; name a file in it", misused=True)
    if path.exists() and not path.is_file():
        with _naming(named):
            special = path.open("wb", buffering=0)
        with special:
            yield _Stream(special.fileno(), named)
        return
    # Beside it, because a rename is atomic only within one file system.
    part = path.with_name(f".{path.name}.{token_hex(4)}.part")
    with _naming(named):
        file = part.open("xb")
    try:
        with file:
            yield _File(file, named)
            with _naming(named):
                file.flush()
        with _naming(named):
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class _File:
    def __init__(self, file: BinaryIO, named: str) -> None:
        self._file = file
        self._named = named

    def write(self, data: bytes) -> None:
        with _naming(self._named):
            self._file.write(data)

    def amend(self, data: bytes) -> None:
        with _naming(self._named):
            self._file.seek(0)
            self._file.write(data)
            self._file.seek(0, os.SEEK_END)

    def stop(self) -> None:
        pass


class _Stream:
    """Written at once, so that nothing is left to be flushed when the reader is gone."""

    def __init__(self, descriptor: int, named: str) -> None:
        self._descriptor = descriptor
        self._named = named
        self._stopped = False

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        with _naming(self._named):
            while left and not self._stopped:
                if select.select([], [self._descriptor], [], WAKE_SECONDS)[1]:
                    # So much a pipe takes at once when it takes anything.
                    left = left[os.write(self._descriptor, left[: select.PIPE_BUF]) :]

    def amend(self, data: bytes) -> None:
        pass

    def stop(self) -> None:
        self._stopped = True


@contextmanager
def _naming(named: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot write {named}: {error.strerror}") from None
