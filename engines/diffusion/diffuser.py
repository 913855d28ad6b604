"""The contract of what carries out tasks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Protocol

from .task import Checkpoint, MediaTask, Told


class Diffuser(Protocol):
    """A loaded model that works on several tasks at once, step by step.

    For use on one event loop; what computes is in one thread of its own.
    """

    async def start(self) -> None:
        """Load and warm up.

        Raises:
            StageFailure: the model is missing, or does not fit the deployment.
        """
        ...

    def check(self, task: MediaTask) -> None:
        """Refuse what the model can't make; cheap, and needs no loaded model.

        Raises:
            ValueError: a field is out of what is allowed; the message names it.
        """
        ...

    def run(
        self,
        task_id: str,
        task: MediaTask,
        inputs: Mapping[str, Path],
        *,
        resume: Checkpoint | None = None,
        rank: float = 0.0,
    ) -> AsyncGenerator[Told, None]:
        """Carry out a task: steps and checkpoints, last the picture. Closing it stops the work at
        the next step.

        ``inputs``: files of :attr:`.task.MediaTask.inputs`. ``resume``: go on from there; what
        comes of it is the same, bit for bit, as without the interruption. ``rank``: who is the
        lower goes first where not all can share a batch.

        Raises:
            TaskFailed: it can't be done.
        """
        ...

    async def close(self) -> None:
        """Stop all work and free the model. Idempotent."""
        ...
