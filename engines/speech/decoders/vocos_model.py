"""The vocoder of Vocos, whole and in stretches, for the codecs that end in one.

Siuzdak 2023, "Vocos: closing the gap between time-domain and Fourier-based neural vocoders for
high-quality audio synthesis": a convolution, blocks after ConvNeXt (Liu et al. 2022), and a
linear layer that tells spectra. The modules are our own, with the names that published weights
have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..streaming.chain import Chain, Pointwise, Residual
from ..streaming.convolution import same_conv
from ..streaming.layer import StreamLayer
from ..streaming.spectrum import InverseTransform, Padding, StreamInverse

EPSILON = 1e-6
"""Of all norms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VocosSettings:
    """The shape of a vocoder."""

    channels: int
    """Of what comes in."""

    width: int
    inner: int
    """Of the wide middle of each block."""

    blocks: int
    enter_kernel: int = 7
    kernel: int = 7
    conditions: int = 0
    """Of which one is chosen, that scales and shifts what norms give; 0 for norms without."""

    size: int
    """Of the transform, samples."""

    hop: int
    padding: Padding
    silent: bool = False
    """Whether the constant and the fastest part of each spectrum are left out."""


class ChosenNorm(nn.Module):
    """A layer norm whose scale and shift are a row of a table."""

    def __init__(self, width: int, conditions: int) -> None:
        super().__init__()
        self.scale = nn.Embedding(conditions, width)
        self.shift = nn.Embedding(conditions, width)
        self.chosen = 0
        """Which row."""

    def forward(self, values: Tensor) -> Tensor:
        """``(..., width)``, the same shape out."""
        normed = functional.layer_norm(values, values.shape[-1:], eps=EPSILON)
        return normed * self.scale.weight[self.chosen] + self.shift.weight[self.chosen]


def _norm(width: int, conditions: int) -> nn.Module:
    """A norm over channels, with a condition or without."""
    return ChosenNorm(width, conditions) if conditions else nn.LayerNorm(width, eps=EPSILON)


class Block(nn.Module):
    """One block: mixes times channel by channel, then channels time by time, and has a skip."""

    def __init__(self, settings: VocosSettings) -> None:
        super().__init__()
        width, kernel = settings.width, settings.kernel
        self.dwconv = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = _norm(width, settings.conditions)
        self.pwconv1 = nn.Linear(width, settings.inner)
        self.pwconv2 = nn.Linear(settings.inner, width)
        self.gamma = nn.Parameter(torch.ones(width))

    def mix(self, values: Tensor) -> Tensor:
        """What comes after the convolution; ``(batch, width, count)``, the same shape out."""
        inner = functional.gelu(self.pwconv1(self.norm(values.transpose(1, 2))))
        told: Tensor = self.gamma * self.pwconv2(inner)
        return told.transpose(1, 2)

    def forward(self, values: Tensor) -> Tensor:
        """``(batch, width, count)``, the same shape out."""
        return values + self.mix(self.dwconv(values))


class Backbone(nn.Module):
    """From what comes in to what the head makes spectra of."""

    def __init__(self, settings: VocosSettings) -> None:
        super().__init__()
        enter = settings.enter_kernel
        self.embed = nn.Conv1d(settings.channels, settings.width, enter, padding=enter // 2)
        self.norm = _norm(settings.width, settings.conditions)
        self.convnext = nn.ModuleList(Block(settings) for _ in range(settings.blocks))
        self.final_layer_norm = nn.LayerNorm(settings.width, eps=EPSILON)

    @property
    def blocks(self) -> list[Block]:
        """In their order."""
        return [cast("Block", block) for block in self.convnext]

    def normed(self, values: Tensor) -> Tensor:
        """After the first convolution; ``(batch, width, count)``, the same shape out."""
        return cast("Tensor", self.norm(values.transpose(1, 2))).transpose(1, 2)

    def finished(self, values: Tensor) -> Tensor:
        """After the last block; ``(batch, width, count)`` to ``(batch, count, width)``."""
        return cast("Tensor", self.final_layer_norm(values.transpose(1, 2)))


class Head(nn.Module):
    """The linear layer that tells logarithms of magnitudes, and phases."""

    def __init__(self, settings: VocosSettings) -> None:
        super().__init__()
        self.out = nn.Linear(settings.width, settings.size + 2)


class Vocoder(nn.Module):
    """All of it."""

    def __init__(self, settings: VocosSettings) -> None:
        super().__init__()
        self.settings = settings
        self.backbone = Backbone(settings)
        self.head = Head(settings)
        self.inverse = InverseTransform(
            settings.size, settings.hop, settings.padding, silent=settings.silent
        )

    def choose(self, condition: int) -> None:
        """Take this row of all norms."""
        for part in self.modules():
            if isinstance(part, ChosenNorm):
                part.chosen = condition

    def forward(self, values: Tensor) -> Tensor:
        """``(batch, channels, count)`` to ``(batch, 1, samples)``."""
        values = self.backbone.normed(self.backbone.embed(values))
        for block in self.backbone.blocks:
            values = block(values)
        return cast("Tensor", self.inverse(self._spectra(values)))

    def _spectra(self, values: Tensor) -> Tensor:
        """``(batch, width, count)`` to ``(batch, size + 2, count)``."""
        told = self.head.out(self.backbone.finished(values))
        return cast("Tensor", told).transpose(1, 2)

    def layers(self) -> list[StreamLayer]:
        """The same, a stretch at a time."""
        backbone = self.backbone
        return [
            same_conv(backbone.embed),
            _Called(backbone.norm, backbone.normed),
            *(Residual(_branch(block), channels=self.settings.width) for block in backbone.blocks),
            _Called(self.head, self._spectra),
            StreamInverse(self.inverse),
        ]


def _branch(block: Block) -> StreamLayer:
    """What goes past the skip of a block."""
    return Chain([same_conv(block.dwconv), _Called(block, block.mix)])


class _Called(Pointwise):
    """A method of a module, whose parameters belong to the layer."""

    def __init__(self, owner: nn.Module, method: Callable[[Tensor], Tensor]) -> None:
        super().__init__(method)
        self.owner = owner
