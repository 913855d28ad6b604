"""The sum of what the codes of all codebooks stand for, from tables made once.

A residual quantiser looks a code up in a small codebook, projects it, and adds up the codebooks:
three kernels a codebook. Codebook times projection is a table of its own, so that a step is one
row of each table, summed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from .dispatch import Kernel, agree, device_of


def codebook_tables(
    codebooks: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> Tensor:
    """Fold projections into codebooks: ``(codebooks, size, channels)``.

    ``codebooks``: of each ``(size, dim)``, all of one size. ``weights``: of the projection,
    ``(channels, dim)`` or, as that of a convolution, ``(channels, dim, 1)``. ``biases``:
    ``(channels,)`` or none.
    """
    tables: list[Tensor] = []
    for codebook, weight, bias in zip(codebooks, weights, biases, strict=True):
        tables.append(functional.linear(codebook, weight.reshape(weight.shape[0], -1), bias))
    return torch.stack(tables)


def gather_sum(tables: Tensor, codes: Tensor, levels: Tensor) -> Tensor:
    """Sum the rows of the tables that the codes name.

    ``tables``: ``(codebooks, size, channels)``. ``codes``: ``(batch, codebooks, steps)`` int64,
    each less than ``size``. ``levels``: ``(codebooks,)`` int64, by how much slower than a step
    each codebook is: that of step ``t`` stands at ``t // level``; 1 where codes are repeated.
    Returns ``(batch, channels, steps)``.
    """
    if KERNEL.serves(tables):
        from .codebooks_triton import launch

        with device_of(tables):
            return launch(tables, codes, levels)
    return reference(tables, codes, levels)


def reference(tables: Tensor, codes: Tensor, levels: Tensor) -> Tensor:
    """As :func:`gather_sum`, in plain torch."""
    books, size, channels = tables.shape
    batch, _, steps = codes.shape
    at = torch.arange(steps, device=codes.device) // levels[:, None]
    rows = codes.gather(2, at.expand(batch, books, steps))
    rows = rows + size * torch.arange(books, device=codes.device)[:, None]
    flat = rows.transpose(1, 2).reshape(batch * steps, books)
    summed = functional.embedding_bag(flat, tables.view(books * size, channels), mode="sum")
    return summed.view(batch, steps, channels).transpose(1, 2)


class CodebookSum(nn.Module):
    """:func:`gather_sum` of tables of its own."""

    tables: Tensor
    levels: Tensor

    def __init__(self, tables: Tensor, levels: Sequence[int] | None = None) -> None:
        """``tables``: see :func:`codebook_tables`. ``levels``: by default 1 of each, for codes
        that are repeated where their codebook is slower than a step."""
        super().__init__()
        self.register_buffer("tables", tables.detach().contiguous())
        self.register_buffer("levels", torch.tensor(levels or [1] * len(tables)))

    def forward(self, codes: Tensor) -> Tensor:
        """``(batch, codebooks, steps)`` int64 to ``(batch, channels, steps)``."""
        return gather_sum(self.tables, codes, self.levels)


def _trial(device: torch.device) -> None:
    from .codebooks_triton import launch

    tables = torch.arange(2 * 5 * 40, dtype=torch.float32, device=device).view(2, 5, 40).sin()
    codes = torch.tensor([[[0, 4, 0, 0, 0], [1, 2, 3, 4, 0]]], device=device)
    levels = torch.tensor([4, 1], device=device)
    agree(launch(tables, codes, levels), reference(tables, codes, levels), 1e-6)


KERNEL = Kernel("codebooks", _trial)
