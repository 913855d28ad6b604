# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Teaching the student: a loop that ends when its time is over.

Weights are kept in single precision and copied to bfloat16 for each step, which is what a CPU
computes fast. Examples of about one length share a batch. The rate falls with the time that is
left, so that a run may have any length.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...engines.speech.decoders.joe_latents import LatentNet
from .examples import Batch, Corruption, Example, batched
from .student import Student

OTHERS = 8.0
"""Logarithm of the number of tokens that are never to be said: their logits are 0."""

SMOOTH = 0.2
"""Of what is taught, how much goes to codes that sound nearly alike."""

SECOND, ASKING, GUESS = 0.5, 1.0, 0.3
"""What second codes, asking, and guessing what codes stand for count beside the first codes."""

SPEAKING = 0.3
"""The temperature at which it speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPlan:
    """How long, how fast."""

    seconds: float
    rate: float = 3e-3
    warmup: int = 60
    """Steps."""

    floor: float = 0.03
    """Of the rate, at the end."""

    batch_tokens: int = 3000
    decay: float = 0.05
    seed: int = 0
    report_every: int = 20
    save_seconds: float = 120.0


class Loss:
    """What the student has to make small."""

    def __init__(self, net: LatentNet, corruption: Corruption) -> None:
        self._codes = net.shape.codes
        self._near = [torch.from_numpy(each) for each in corruption.near]
        self._books = [book.detach() for book in net.books]
        self._spread = self._books[0].std(0) + 1e-6

    def __call__(self, student: Student, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, and its parts."""
        hidden = student(batch.ids)
        say = student.saying()
        at_first, at_second = batch.first >= 0, batch.second >= 0
        first, second = batch.first[at_first], batch.second[at_second]
        early, late = hidden[at_first], hidden[at_second]
        logits, asks = (early @ say[0].T).float(), (early @ student.ask_row).float()
        asked, coded = first == self._codes, first < self._codes
        one = self._said(logits[coded], first[coded], 0)
        two = self._said((late @ say[1].T).float(), second, 1)
        ask, sure = _asking(logits, asks, asked)
        wanted = self._books[0][first[coded]]
        guessed = student.guess(early[coded]).float()
        guess = (guessed - wanted / self._spread).square().mean()
        parts = {
            "first": one.detach(),
            "second": two.detach(),
            "ask": ask.detach(),
            "guess": guess.detach(),
            "right": (logits[coded].argmax(1) == first[coded]).float().mean(),
            "asks": sure.float().mean(),
        }
        return one + SECOND * two + ASKING * ask + GUESS * guess, parts

    def _said(self, logits: Tensor, wanted: Tensor, book: int) -> Tensor:
        # Tokens that may never be said have logits of 0, whatever is computed.
        most = torch.logsumexp(logits, 1)
        whole = torch.logaddexp(most, torch.full_like(most, OTHERS))
        hard = whole - logits.gather(1, wanted[:, None])[:, 0]
        soft = whole - logits.gather(1, self._near[book][wanted]).mean(1)
        return ((1 - SMOOTH) * hard + SMOOTH * soft).mean()


def _asking(logits: Tensor, asks: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of asking or not at the temperature of speaking, and where it would be right.

    Codes share what is likely among many. Where what is likeliest is preferred still more, one
    token of its own would be said too often, and speech become too fast.
    """
    codes = torch.logsumexp(logits.detach() / SPEAKING, 1)
    # It has to be likelier than all that is never to be said, too.
    against = SPEAKING * torch.logaddexp(codes, torch.full_like(codes, OTHERS))
    apart = (asks - against) / SPEAKING
    loss = functional.binary_cross_entropy_with_logits(apart, asked.float())
    return loss, (apart > 0) == asked


class Masters:
    """Weights in single precision, of which the model has copies."""

    def __init__(self, student: Student, plan: LearningPlan) -> None:
        self.live = list(student.parameters())
        self.held = [each.detach().float().clone() for each in self.live]
        student.to(torch.bfloat16)
        plain = [each for each in self.held if each.dim() < 2]
        grouped = [
            {"params": [each for each in self.held if each.dim() > 1], "weight_decay": plan.decay},
            {"params": plain, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(grouped, plan.rate, betas=(0.9, 0.98), foreach=True)

    def step(self, rate: float) -> None:
        """Take in the gradients and go on."""
        for held, live in zip(self.held, self.live, strict=True):
            held.grad = None if live.grad is None else live.grad.float()
            live.grad = None
        torch.nn.utils.clip_grad_norm_(self.held, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.give()

    def give(self) -> None:
        """Copy the weights to the model."""
        with torch.no_grad():
            for held, live in zip(self.held, self.live, strict=True):
                live.copy_(held)


def batches(
    examples: Sequence[Example], tokens: int, chance: np.random.Generator
) -> list[list[int]]:
    """One round over all examples: those of about one length together, batches in any order."""
    sizes = np.array([len(each.ids) for each in examples])
    order = np.argsort(sizes + chance.uniform(0, 8, len(sizes)))
    made: list[list[int]] = [[]]
    for number in order.tolist():
        if made[-1] and (len(made[-1]) + 1) * int(sizes[number]) > tokens:
            made.append([])
        made[-1].append(number)
    chance.shuffle(made)
    return made


def learn(
    student: Student,
    net: LatentNet,
    examples: Sequence[Example],
    plan: LearningPlan,
    folder: Path,
    report: Callable[[str], None],
) -> None:
    """Teach until the time is over; goes on from a checkpoint in ``folder``, if there is one.

    The time of earlier runs counts.
    """
    chance = np.random.default_rng(plan.seed)
    corruption = Corruption([book.detach() for book in net.books])
    loss_of, masters = Loss(net, corruption), Masters(student, plan)
    step, spent, tokens = _resume(folder, student, masters)
    began = saved = time.monotonic()
    todo: list[list[int]] = []
    mean: dict[str, float] = {}
    while (done := (spent + time.monotonic() - began) / plan.seconds) < 1:
        todo = todo or batches(examples, plan.batch_tokens, chance)
        batch = batched([examples[n] for n in todo.pop()])
        loss, parts = loss_of(student, corruption(batch, chance))
        torch.autograd.backward(loss)
        fall = plan.floor + (1 - plan.floor) * (0.5 + 0.5 * math.cos(math.pi * done))
        masters.step(plan.rate * fall * min(1.0, (step + 1) / plan.warmup))
        step += 1
        tokens += batch.ids.numel()
        for name, value in parts.items():
            mean[name] = 0.95 * mean.get(name, float(value)) + 0.05 * float(value)
        now = time.monotonic()
        if step % plan.report_every == 0:
            line = {"step": step, "seconds": round(spent + now - began), "tokens": tokens, **mean}
            with (folder / "loss.jsonl").open("a") as log:
                log.write(json.dumps(line) + "\n")
            told = ", ".join(f"{name} {value:.3f}" for name, value in mean.items())
            report(f"step {step}, {line['seconds']} s, {tokens / 1e6:.2f} M tokens: {told}")
        if now - saved > plan.save_seconds:
            saved = now
            _save(folder, student, masters, (step, spent + now - began, tokens))
    _save(folder, student, masters, (step, spent + time.monotonic() - began, tokens))


def _save(
    folder: Path, student: Student, masters: Masters, progress: tuple[int, float, int]
) -> None:
    partial = folder / "checkpoint.partial"
    torch.save(
        {
            **student.described(),
            "weights": masters.held,
            "optimizer": masters.optimizer.state_dict(),
            "progress": progress,
        },
        partial,
    )
    os.replace(partial, folder / "checkpoint.pt")


def _resume(folder: Path, student: Student, masters: Masters) -> tuple[int, float, int]:
    path = folder / "checkpoint.pt"
    if not path.exists():
        return 0, 0.0, 0
    held = torch.load(path, weights_only=True)
    if held["pairs"] != student.described()["pairs"]:
        raise ValueError(f"{path}: made with other texts; remove it to begin anew")
    for mine, saved in zip(masters.held, held["weights"], strict=True):
        mine.copy_(saved)
    masters.optimizer.load_state_dict(held["optimizer"])
    masters.give()
    step, spent, tokens = held["progress"]
    return int(step), float(spent), int(tokens)
