# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Teaching until the time is over, with checkpoints that a later run goes on from.

Each phase of a training has a folder of its own: ``checkpoint.pt``, ``loss.jsonl``, ``loss.png``
and the sheets of samples. The time of earlier runs counts; a run with more minutes goes on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Report = Callable[[str], None]
LONGEST = 5.0
"""Seconds of a step: more is not counted."""

Losses = Mapping[str, Tensor]
"""The first is what is made small; all are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """How long and how fast one model is taught."""

    seconds: float
    rate: float = 1e-3
    warmup: int = 100
    """Steps."""

    falling: float = 0.3
    """Of the time, at the end, in which the rate falls to nearly nothing."""

    decay: float = 0.01
    clip: float = 1.0
    average: float = 0.999
    """How much of the averaged weights stays in a step."""

    report_every: int = 100
    save_seconds: float = 120.0
    sheet_seconds: float = 600.0


def write_whole(held: Mapping[str, Any], path: Path) -> None:
    """Write what ``torch.load`` reads, whole or not at all."""
    partial = path.with_suffix(".partial")
    torch.save(held, partial)
    os.replace(partial, path)


class Learner:
    """Models that learn together, their averaged weights, and where they are."""

    def __init__(self, models: Mapping[str, nn.Module], phase: Phase) -> None:
        self.models, self.phase = dict(models), phase
        self._live: list[Tensor] = [
            each for model in self.models.values() for each in model.parameters()
        ]
        self._mean = [each.detach().clone() for each in self._live]
        wide = [each for each in self._live if each.dim() > 1]
        thin = [each for each in self._live if each.dim() < 2]
        groups = [
            {"params": wide, "weight_decay": phase.decay},
            {"params": thin, "weight_decay": 0.0},
        ]
        self._optimizer = torch.optim.AdamW(groups, phase.rate, betas=(0.9, 0.99), fused=True)
        self.steps, self.seen, self.spent = 0, 0, 0.0

    def step(self, loss: Tensor, done: float) -> None:
        """Take in one loss; ``done``, 0 to 1, is how much of the time is over."""
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self._live, self.phase.clip, foreach=True)
        rate = self.phase.rate * min(1.0, (self.steps + 1) / self.phase.warmup)
        rate *= min(1.0, max(0.02, (1 - done) / self.phase.falling))
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.steps += 1
        keep = min(self.phase.average, self.steps / (self.steps + 20))
        with torch.no_grad():
            for mean, live in zip(self._mean, self._live, strict=True):
                mean.lerp_(live, 1 - keep)

    def swap(self) -> None:
        """Exchange the weights with their averages; a second time, back."""
        with torch.no_grad():
            for live, mean in zip(self._live, self._mean, strict=True):
                held = live.clone()
                live.copy_(mean)
                mean.copy_(held)

    def averaged(self) -> Iterator[None]:
        """Run a block with the averaged weights, as ``for _ in learner.averaged():``."""
        self.swap()
        try:
            yield None
        finally:
            self.swap()

    def save(self, path: Path) -> None:
        """Write all that is needed to go on."""
        held: dict[str, Any] = {name: each.state_dict() for name, each in self.models.items()}
        write_whole(
            {
                "models": held,
                "mean": self._mean,
                "optimizer": self._optimizer.state_dict(),
                "progress": (self.steps, self.seen, self.spent),
            },
            path,
        )

    def resume(self, path: Path) -> bool:
        """Go on from a checkpoint, if it is there."""
        if not path.exists():
            return False
        held = torch.load(path, weights_only=True)
        for name, model in self.models.items():
            model.load_state_dict(held["models"][name])
        with torch.no_grad():
            for mine, saved in zip(self._mean, held["mean"], strict=True):
                mine.copy_(saved)
        self._optimizer.load_state_dict(held["optimizer"])
        self.steps, self.seen, self.spent = held["progress"]
        return True


def learn(
    learner: Learner,
    losses: Callable[[], tuple[Losses, int]],
    folder: Path,
    report: Report,
    sheet: Callable[[Path], None] | None = None,
) -> None:
    """Teach until the time of the phase is over.

    Args:
        learner: What learns; a checkpoint in ``folder`` is gone on from.
        losses: Of the next batch, and how many samples it has.
        folder: Of the phase.
        report: Takes lines of progress.
        sheet: Draws samples to a file, called with the averaged weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    phase, checkpoint = learner.phase, folder / "checkpoint.pt"
    if learner.resume(checkpoint):
        report(f"{folder.name}: goes on from step {learner.steps}, {learner.spent:.0f} s")
    last = saved = drawn = time.monotonic()
    mean: dict[str, float] = {}
    while learner.spent < phase.seconds:
        parts, count = losses()
        learner.step(next(iter(parts.values())), learner.spent / phase.seconds)
        learner.seen += count
        for name, value in parts.items():
            told = float(value.detach())
            mean[name] = 0.98 * mean.get(name, told) + 0.02 * told
        now = time.monotonic()
        # A process that was stopped meanwhile has not learnt.
        learner.spent += min(now - last, LONGEST)
        last = now
        if learner.steps % phase.report_every == 0:
            _note(learner, mean, folder, report)
        if now - saved > phase.save_seconds:
            saved = now
            learner.save(checkpoint)
        if sheet is not None and now - drawn > phase.sheet_seconds:
            drawn = now
            _draw(learner, folder, sheet)
            plot(folder / "loss.jsonl", folder / "loss.png")
            # Samples cost time, but teach nothing.
            last = time.monotonic()
    learner.save(checkpoint)
    if sheet is not None:
        _draw(learner, folder, sheet)
    plot(folder / "loss.jsonl", folder / "loss.png")


def _draw(learner: Learner, folder: Path, sheet: Callable[[Path], None]) -> None:
    for _ in learner.averaged():
        sheet(folder / f"sheet-{learner.seen:07d}.png")


def _note(learner: Learner, mean: Mapping[str, float], folder: Path, report: Report) -> None:
    line = {
        "step": learner.steps,
        "seconds": round(learner.spent),
        "samples": learner.seen,
        **{name: round(value, 5) for name, value in mean.items()},
    }
    with (folder / "loss.jsonl").open("a") as log:
        log.write(json.dumps(line) + "\n")
    told = ", ".join(f"{name} {value:.4f}" for name, value in mean.items())
    share = learner.spent / learner.phase.seconds
    report(f"{folder.name}: {100 * share:.0f} %, {learner.seen / 1e3:.1f} k samples: {told}")


def plot(log: Path, out: Path) -> None:
    """Draw how the loss fell; nothing where matplotlib isn't installed."""
    if not log.exists():
        return
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    figure = Figure(figsize=(8, 4))
    axes = figure.subplots()
    for name in lines[-1] if lines else ():
        if name not in ("step", "seconds", "samples"):
            at = [line["samples"] / 1e3 for line in lines if name in line]
            axes.plot(at, [line[name] for line in lines if name in line], label=name)
    axes.set_xlabel("thousand samples")
    axes.set_yscale("log")
    axes.legend()
    figure.savefig(out, dpi=100)


def tile(pictures: np.ndarray[Any, np.dtype[np.uint8]], columns: int, out: Path) -> None:
    """Write pictures ``(n, height, width, 3)`` as one sheet, row after row."""
    from PIL import Image

    count, height, width, _ = pictures.shape
    rows = -(-count // columns)
    sheet = np.full((rows, columns, height + 2, width + 2, 3), 255, np.uint8)
    for number, picture in enumerate(pictures):
        sheet[number // columns, number % columns, 1:-1, 1:-1] = picture
    whole = sheet.swapaxes(1, 2).reshape(rows * (height + 2), columns * (width + 2), 3)
    Image.fromarray(whole).save(out)
