# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Schedulers that tell of every step, and that can go on where another left off.

A pipeline takes one step by one call of its scheduler. A request has a scheduler of its own,
whose class is made on the fly from the one that the model came with. It tells a
:class:`Watch` what came of each step. Where the work goes on, the first steps are passed over:
nothing is computed, and the last of them gives what was kept, as if it had just been made.
So any pipeline can be taken up again, whatever it does around its steps.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import torch


class Watch(Protocol):
    """What a request wants to know of its scheduler."""

    @property
    def generator(self) -> torch.Generator:
        """The source of its noise."""
        ...

    def passing(self, scheduler: Any, sample: torch.Tensor) -> torch.Tensor | None:
        """Called ahead of every step: what it gives where it is passed over; ``None`` computes."""
        ...

    def stepped(self, steps: int, latents: torch.Tensor, clean: Callable[[], torch.Tensor]) -> None:
        """Called after every step that was computed, of ``steps`` in all. ``clean()`` is what
        the latents are guessed to become; it may wait for an accelerator."""
        ...


def stepwise(scheduler: Any, watch: Watch) -> Any:
    """A copy of a scheduler that tells ``watch`` of its steps."""
    # Its settings are frozen: they are replaced as a whole, or not at all.
    settings = scheduler._internal_dict
    own = copy.deepcopy(scheduler, {id(settings): settings})
    own.__class__ = _told(scheduler.__class__)
    own._watch = watch
    own._begun_at = None
    return own


@cache
def _told(kind: Any) -> type[Any]:
    """A scheduler's class with a ``step`` that tells. Pipelines look at the names of its
    parameters, so it has those of the original."""
    inner = kind.step
    names = list(inspect.signature(inner).parameters)
    # Some pipelines don't pass it; noise would then come from a source that all share.
    noisy = names.index("generator") if "generator" in names else None

    @functools.wraps(inner)
    def step(
        self: Any,
        model_output: torch.Tensor,
        timestep: Any,
        sample: torch.Tensor,
        *rest: Any,
        return_dict: bool = True,
        **named: Any,
    ) -> Any:
        if self._begun_at is None:
            self._begun_at = _place(self.timesteps, timestep)
        passed = self._watch.passing(self, sample)
        if passed is not None:
            return _output(passed, return_dict)
        if noisy is not None and named.get("generator") is None and len(rest) + 4 <= noisy:
            named["generator"] = self._watch.generator
        out = inner(self, model_output, timestep, sample, *rest, return_dict=True, **named)
        latents = out.prev_sample
        steps = len(self.timesteps) - self._begun_at
        self._watch.stepped(steps, latents, lambda: _clean(self, out, model_output, latents))
        return out if return_dict else (latents,)

    return type(kind.__name__, (kind,), {"step": step, "__module__": kind.__module__})


def _place(timesteps: torch.Tensor, timestep: Any) -> int:
    """Which of the steps is the first: where a picture is made from another, not number 0."""
    value = float(timestep.reshape(-1)[0] if isinstance(timestep, torch.Tensor) else timestep)
    found = (timesteps == value).nonzero()
    return int(found[0, 0]) if len(found) else 0


def _output(latents: torch.Tensor, return_dict: bool) -> Any:
    from diffusers.schedulers.scheduling_utils import SchedulerOutput

    return SchedulerOutput(prev_sample=latents) if return_dict else (latents,)


def _clean(scheduler: Any, out: Any, velocity: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
    """The guess of the noiseless latents that a step was made with, as far as it can be had."""
    guess: torch.Tensor | None
    for name in ("pred_original_sample", "denoised"):
        guess = getattr(out, name, None)
        if isinstance(guess, torch.Tensor):
            return guess
    config = scheduler.config
    if config.get("predict_x0") or str(config.get("algorithm_type", "")).endswith("++"):
        kept = getattr(scheduler, "model_outputs", None)
        guess = kept[-1] if kept else None
        if isinstance(guess, torch.Tensor):
            return guess
    if "FlowMatchEuler" in type(scheduler).__name__ and scheduler.step_index is not None:
        # A step goes along the velocity from one level of noise to the next; on to none.
        sigma = float(scheduler.sigmas[scheduler.step_index])
        return latents.sub(velocity.to(latents.dtype), alpha=sigma)
    return latents
