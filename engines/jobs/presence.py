"""Which workers live: each counts up a number; who sees one stand still too long calls it dead.

The number is compared with the observer's own clock only, so clocks that differ do no harm. A
worker on the same machine is also looked for by its process, so that a killed one is noticed at
once.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from .schema import WORKERS

SILENT_SECONDS = 15.0
"""Of a worker on another machine, after which it counts as dead."""

BEAT_SECONDS = 1.0


def this_place() -> str:
    """Where process numbers mean what they mean here: machine, its start, and namespace. Empty
    where that can't be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def process_mark(pid: int) -> str | None:
    """The process: its number, and when it was started, as numbers are used again. None where
    there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    # After the name come state, parent, ...; the 22nd field of all is the start. A zombie is dead.
    return None if state == "Z" else f"{pid} {fields[18]}"


class Presence:
    """This worker among the others. All calls block."""

    def __init__(
        self,
        engine: sa.Engine,
        worker: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._engine = engine
        self._worker = worker
        self._clock = clock
        self._silent_seconds = silent_seconds
        self._place = this_place()
        self._process = process_mark(os.getpid()) or ""
        self._seen: dict[str, tuple[int, float]] = {}

    def beat(self) -> None:
        """Say that this one lives. One that was called dead comes in again."""
        with self._engine.begin() as line:
            lives = line.execute(
                sa.update(WORKERS)
                .where(WORKERS.c.id == self._worker)
                .values(beat=WORKERS.c.beat + 1, gone=False)
            )
            if lives.rowcount == 0:
                line.execute(
                    sa.insert(WORKERS).values(
                        id=self._worker, place=self._place, process=self._process, beat=1
                    )
                )

    def dead(self) -> list[str]:
        """Other workers that are dead: marked so, so that what they held can be taken."""
        with self._engine.connect() as line:
            others = line.execute(sa.select(WORKERS).where(WORKERS.c.id != self._worker)).all()
        now = self._clock()
        self._seen = {each.id: self._sight(each, now) for each in others}
        gone = [each.id for each in others if self._is_dead(each, now)]
        if gone:
            with self._engine.begin() as line:
                line.execute(sa.update(WORKERS).where(WORKERS.c.id.in_(gone)).values(gone=True))
        return gone

    def _sight(self, row: sa.Row[tuple[object, ...]], now: float) -> tuple[int, float]:
        before = self._seen.get(row.id)
        return before if before is not None and before[0] == row.beat else (row.beat, now)

    def _is_dead(self, row: sa.Row[tuple[object, ...]], now: float) -> bool:
        if row.gone:
            return True
        if self._place and row.place == self._place:
            process = str(row.process)
            return process_mark(int(process.split()[0])) != process
        return now - self._seen[row.id][1] > self._silent_seconds

    def bury(self, workers: list[str]) -> None:
        """Forget dead ones, after what they held was given to others."""
        if workers:
            with self._engine.begin() as line:
                line.execute(
                    sa.delete(WORKERS).where(WORKERS.c.id.in_(workers), WORKERS.c.gone.is_(True))
                )

    def leave(self) -> None:
        """Say that this one goes."""
        with self._engine.begin() as line:
            line.execute(sa.delete(WORKERS).where(WORKERS.c.id == self._worker))

    def known(self) -> set[str]:
        """All workers that are not buried."""
        with self._engine.connect() as line:
            return set(line.execute(sa.select(WORKERS.c.id)).scalars())
