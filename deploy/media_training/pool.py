# pyright: reportUnknownMemberType=false, reportPrivateImportUsage=false
"""What pictures and clips are taught with alike: encoded scenes, noise, and weights as served."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

F = TypeVar("F")

MOST_PIXELS = 1792 * 1024
"""Of a picture or frame that is asked for: each model has learnt but one size, that others are
enlarged from."""


class Pool(Generic[F]):
    """Encoded scenes: the newest take the place of the oldest."""

    def __init__(
        self,
        shape: Sequence[int],
        choose: Callable[[np.random.Generator], F],
        encoded: Callable[[Sequence[F]], Tensor],
        rng: np.random.Generator,
    ) -> None:
        """``shape``: how many are held, and that of the latents of one. ``choose`` says what to
        draw, ``encoded`` draws it and gives the latents."""
        self._choose, self._encoded, self._rng = choose, encoded, rng
        self._held = torch.zeros(*shape, dtype=torch.float16)
        self._facts: list[F] = []
        self._next = 0

    def add(self, count: int) -> None:
        """Draw and encode some more."""
        facts = [self._choose(self._rng) for _ in range(count)]
        for each, latent in zip(facts, self._encoded(facts), strict=True):
            if len(self._facts) < len(self._held):
                self._facts.append(each)
            self._facts[self._next] = each
            self._held[self._next] = latent
            self._next = (self._next + 1) % len(self._held)

    def take(self, count: int) -> tuple[Tensor, list[F]]:
        """Any of them."""
        numbers = self._rng.integers(len(self._facts), size=count)
        return self._held[numbers].float(), [self._facts[number] for number in numbers]


def times(count: int, shift: float | Tensor) -> Tensor:
    """How much noise: 0 to 1; above a ``shift`` of 1, which may be one for each, more often much."""
    middling = torch.sigmoid(torch.randn(count))
    share = torch.where(torch.rand(count) < 0.2, torch.rand(count), middling)
    return shift * share / (1 + (shift - 1) * share)


def halved(parts: dict[str, Any]) -> dict[str, Any]:
    """The parts of a pipeline with their weights in bfloat16, as they are served."""
    return {
        name: copy.deepcopy(part).to(torch.bfloat16) if isinstance(part, nn.Module) else part
        for name, part in parts.items()
    }
