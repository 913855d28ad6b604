# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""From codes of our own talker to latents of a Piper voice: what a code sounds like.

A step of codes stands for several frames of latents, and depends on the steps beside it. Latents
are weighted by how well each of their channels is heard, so that what is learned and measured
is near to what is heard.
"""

from __future__ import annotations

from typing import cast

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional


class LatentShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How codes relate to latents."""

    channels: int = 192
    frames: int = 4
    """Of latents, in one step of codes."""

    size: int = 96
    """Numbers that a codebook has for each code."""

    books: int = 2
    codes: int = 2048
    reach: int = 2
    """Steps to each side by which the sound of a code depends on others."""

    hidden: int = 512
    """Of the part that isn't linear."""

    def __post_init__(self) -> None:
        """Refuse what no decoder can have."""
        counts = (self.channels, self.frames, self.size, self.books, self.codes, self.hidden)
        if min(counts) < 1 or self.reach < 0:
            raise ValueError("expected counts above 0, and a reach of 0 or more")


class LatentNet(nn.Module):
    """Codes and their neighbours to latents: linear, and a correction by convolutions."""

    weights: Tensor
    """``(channels,)``: what latents are multiplied by, for how well they are heard."""

    mean: Tensor
    directions: Tensor
    """``(size, frames * channels)``: of a step's weighted latents, the strongest."""

    def __init__(self, shape: LatentShape) -> None:
        super().__init__()
        self.shape = shape
        wide = shape.channels * shape.frames
        self.register_buffer("weights", torch.ones(shape.channels))
        self.register_buffer("mean", torch.zeros(wide))
        self.register_buffer("directions", torch.zeros(shape.size, wide))
        self.books = nn.ParameterList(
            nn.Parameter(torch.zeros(shape.codes, shape.size)) for _ in range(shape.books)
        )
        taps = 2 * shape.reach + 1
        self.linear = nn.Linear(shape.size * taps, wide)
        last = nn.Conv1d(shape.hidden, wide, 1)
        self.correction = nn.Sequential(
            nn.Conv1d(shape.size, shape.hidden, taps),
            nn.GELU(),
            nn.Conv1d(shape.hidden, shape.hidden, 1),
            nn.GELU(),
            last,
        )
        # It begins as no correction at all.
        for each in last.parameters():
            nn.init.zeros_(each)

    def compress(self, rows: Tensor) -> Tensor:
        """Rows of weighted latents, ``(n, frames * channels)``, to ``(n, size)``."""
        return (rows - self.mean) @ self.directions.T

    def sums(self, codes: Tensor) -> Tensor:
        """What codes, ``(batch, books, n)``, stand for alone: ``(batch, size, n)``."""
        found = [book[codes[:, number]] for number, book in enumerate(self.books)]
        return torch.stack(found).sum(0).transpose(1, 2)

    def beside(self, sums: Tensor) -> Tensor:
        """Each column with its neighbours: ``(batch, size * taps, n)``."""
        reach, count = self.shape.reach, sums.shape[2]
        padded = functional.pad(sums, (reach, reach))
        return torch.cat([padded[:, :, at : at + count] for at in range(2 * reach + 1)], 1)

    def rows(self, codes: Tensor, *, corrected: bool = True) -> Tensor:
        """Codes, ``(batch, books, n)``, to weighted latents, ``(batch, n, frames * channels)``."""
        sums = self.sums(codes)
        made = cast("Tensor", self.linear(self.beside(sums).transpose(1, 2)))
        if corrected:
            padded = functional.pad(sums, (self.shape.reach, self.shape.reach))
            made = made + cast("Tensor", self.correction(padded)).transpose(1, 2)
        return made

    def forward(self, codes: Tensor) -> Tensor:
        """Codes, ``(batch, books, n)`` int64, to latents, ``(batch, channels, frames * n)``."""
        rows = self.rows(codes)
        return (rows.reshape(len(rows), -1, self.shape.channels) / self.weights).transpose(1, 2)
