# mypy: ignore-errors
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false, reportIndexIssue=false
# pyright: reportArgumentType=false
"""The kernel that sums rows of tables. Imported where Triton is installed, and only then."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

STEPS = 16
CHANNELS = 64
"""A tile: written along the steps, and read along the channels, which lie together."""


@triton.jit
def gather_sum_kernel(
    tables,
    codes,
    levels,
    out,
    steps,
    channels,
    size,
    BOOKS: tl.constexpr,
    STEPS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """A tile of one stream's steps by channels."""
    batch = tl.program_id(2)
    step = tl.program_id(0) * STEPS + tl.arange(0, STEPS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    in_steps = step < steps
    inside = (channel[:, None] < channels) & in_steps[None, :]
    total = tl.full((CHANNELS, STEPS), 0.0, tl.float32)
    for book in range(BOOKS):
        level = tl.load(levels + book)
        code = tl.load(codes + (batch * BOOKS + book) * steps + step // level, mask=in_steps)
        row = (book * size + code).to(tl.int64) * channels
        values = tl.load(tables + row[None, :] + channel[:, None], mask=inside, other=0.0)
        total += values.to(tl.float32)
    where = (batch.to(tl.int64) * channels + channel[:, None]) * steps + step[None, :]
    tl.store(out + where, total.to(out.dtype.element_ty), mask=inside)


def launch(tables: Tensor, codes: Tensor, levels: Tensor) -> Tensor:
    """As :func:`~antiphon.engines.speech.kernels.codebooks.gather_sum`."""
    books, size, channels = tables.shape
    codes = codes.contiguous()
    batch, _, steps = codes.shape
    out = torch.empty(batch, channels, steps, dtype=tables.dtype, device=tables.device)
    grid = (triton.cdiv(steps, STEPS), triton.cdiv(channels, CHANNELS), batch)
    gather_sum_kernel[grid](
        tables, codes, levels, out, steps, channels, size,
        BOOKS=books, STEPS=STEPS, CHANNELS=CHANNELS,
    )  # fmt: skip
    return out
