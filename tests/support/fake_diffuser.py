"""A diffuser without a model: arithmetic that a resumed task must carry on exactly.

Gates are files: where a folder is given, a task stops before each step until the gate's file is
there, and says by a file of its own that it has come so far.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import numpy as np
from tests.support.patience import patiently

from antiphon.engines.diffusion.task import (
    Checkpoint,
    MediaTask,
    Picture,
    Step,
    TaskFailed,
    Told,
)


def expected_state(task: MediaTask, steps: int | None = None) -> bytes:
    """What the fake has after so many steps."""
    state = hashlib.sha256(f"{task.prompt}/{task.seed}".encode()).digest()
    for at in range(task.steps if steps is None else steps):
        state = advance(state, at)
    return state


def advance(state: bytes, at: int) -> bytes:
    return hashlib.sha256(state + bytes([at])).digest()


def arrive(gates: Path, gate: str) -> None:
    """Say that this process is at a gate."""
    here = gates / f"{gate}.here"
    new = here.with_suffix(f".{os.getpid()}")
    new.write_text(str(os.getpid()))
    new.rename(here)


def is_open(gates: Path, prompt: str, gate: str) -> bool:
    return any((gates / name).exists() for name in (f"{gate}.go", f"{prompt}.open", "open"))


class FakeDiffuser:
    """Implements ``Diffuser``. Prompts that it heeds: ``fail`` in one fails the task, ``poison``
    kills the process."""

    def __init__(self, gates: Path | None = None, *, checkpoint_steps: int = 2) -> None:
        self._gates = gates
        self._checkpoint_steps = checkpoint_steps
        self.closed: list[str] = []
        self.resumed: list[tuple[str, int]] = []

    async def start(self) -> None:
        """Nothing to load."""

    def check(self, task: MediaTask) -> None:
        """All is allowed."""

    async def run(
        self,
        task_id: str,
        task: MediaTask,
        inputs: Mapping[str, Path],
        *,
        resume: Checkpoint | None = None,
        rank: float = 0.0,
    ) -> AsyncGenerator[Told, None]:
        state = resume.state if resume else expected_state(task, 0)
        first = resume.done if resume else 0
        if resume:
            self.resumed.append((task_id, first))
        try:
            for at in range(first, task.steps):
                await self._pass(task, at)
                if "poison" in task.prompt:
                    os._exit(9)
                if "fail" in task.prompt:
                    raise TaskFailed("bad_prompt", "prompt: it asks for a failure")
                state = advance(state, at)
                yield Step(at + 1, task.steps, 1.0, preview=b"jpeg %d" % (at + 1))
                if (at + 1) % self._checkpoint_steps == 0 and at + 1 < task.steps:
                    yield Checkpoint(at + 1, state)
            await self._pass(task, task.steps)
            pixels = np.frombuffer(state, np.uint8)[:12].reshape(1, 2, 2, 3)
            extra = b"".join(path.read_bytes() for path in inputs.values())
            yield Picture(pixels, facts={"state": state.hex(), "inputs": extra.hex()})
        finally:
            self.closed.append(task_id)

    async def _pass(self, task: MediaTask, at: int) -> None:
        if self._gates is None:
            await asyncio.sleep(0)
            return
        gate = f"{task.prompt}-{at}"
        arrive(self._gates, gate)
        gates = self._gates
        await patiently(lambda: is_open(gates, task.prompt, gate), seconds=120)

    async def close(self) -> None:
        """Nothing to free."""
