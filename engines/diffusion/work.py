# pyright: reportUnknownMemberType=false
"""One task under way, as its own scheduler sees it: steps, checkpoints, cancelling."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch

from .checkpoints import Kept, NotKept, encode, restore_scheduler, scheduler_state
from .task import Checkpoint, MediaTask, Step, TaskCancelled, TaskFailed, Told

Outcome = Told | TaskFailed | TaskCancelled
"""What is told of a task; the last is a picture or an error."""

Preview = Callable[[torch.Tensor], "bytes | None"]


def mark_of(model: str, task: MediaTask) -> str:
    """Tells work of one model on one task from all other."""
    return hashlib.sha256(model.encode() + msgspec.json.encode(task, order="sorted")).hexdigest()


class Work:
    """All of it happens in the model's thread, but for :meth:`cancel`."""

    def __init__(
        self,
        work_id: str,
        task: MediaTask,
        inputs: Mapping[str, Path],
        tell: Callable[[Outcome], None],
        *,
        rank: float = 0.0,
        resume: Kept | None = None,
        checkpoint_steps: int = 0,
        preview_seconds: float = 0.0,
        model: str = "",
    ) -> None:
        self.id = work_id
        self.task = task
        self.inputs = inputs
        self.tell = tell
        self.rank = rank
        self.adapters = tuple(sorted(task.adapters.items()))
        self.preview: Preview = lambda _latents: None
        self.cancelled = False
        self._generator = torch.Generator("cpu").manual_seed(task.seed)
        self._resume = resume
        self._checkpoint_steps = checkpoint_steps
        self._preview_seconds = preview_seconds
        self._model = model
        self._done = 0
        self._stepped_at: float | None = None
        self._shown_at = float("-inf")
        self._scheduler: Any = None

    @property
    def generator(self) -> torch.Generator:
        """The source of all its noise. On the CPU, so that a seed means the same everywhere."""
        return self._generator

    @property
    def passed_over(self) -> bool:
        """Whether its steps have been done before: what the model says is not heard."""
        return self._resume is not None and self._done < self._resume.done

    def cancel(self) -> None:
        """Stop at the next step. From any thread."""
        self.cancelled = True

    def begun(self) -> None:
        """The model is called for it: the first step begins."""
        if self._stepped_at is None:
            self._stepped_at = time.perf_counter()

    def passing(self, scheduler: Any, sample: torch.Tensor) -> torch.Tensor | None:
        """See :class:`.stepping.Watch`."""
        self._scheduler = scheduler
        resume = self._resume
        if resume is None or self._done >= resume.done:
            return None
        self._done += 1
        if self._done < resume.done:
            return sample
        restore_scheduler(scheduler, resume.scheduler, sample.device)
        self._generator.set_state(resume.generator)
        self._stepped_at = time.perf_counter()
        return resume.latents.to(sample.device)

    def stepped(self, steps: int, latents: torch.Tensor, clean: Callable[[], torch.Tensor]) -> None:
        """See :class:`.stepping.Watch`.

        Raises:
            TaskCancelled: it was told to stop. So no decoder runs for it.
        """
        self._done += 1
        if self.cancelled:
            raise TaskCancelled
        every = self._checkpoint_steps
        if every and self._done % every == 0 and self._done < steps:
            self._keep(latents)
        now = time.perf_counter()
        ms = (now - (self._stepped_at or now)) * 1000
        shown = None
        if now - self._shown_at >= self._preview_seconds:
            shown = self.preview(clean())
            self._shown_at = now
        self._stepped_at = time.perf_counter()
        self.tell(Step(self._done, steps, ms, shown))

    def _keep(self, latents: torch.Tensor) -> None:
        state = scheduler_state(self._scheduler)
        kept = Kept(self._done, self._model, latents, state, self._generator.get_state())
        try:
            self.tell(Checkpoint(self._done, encode(kept)))
        except NotKept:
            # Then it begins anew after a fault; the result is the same.
            self._checkpoint_steps = 0
