# mypy: ignore-errors
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false, reportIndexIssue=false
# pyright: reportArgumentType=false
"""The kernel of Snake. Imported where Triton is installed, and only then."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 2048
"""Values of one program."""


@triton.jit
def snaked(values, alpha, inverse):
    """Snake of float32 values; ``tl.sin`` reduces its argument over the full range."""
    wave = tl.sin(values * alpha)
    return values + wave * wave * inverse


@triton.jit
def snake_kernel(
    values,
    out,
    alpha,
    inverse,
    rows,
    channels,
    snaked_channels,
    count,
    slope,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Rows are channels of all streams: a tile of ``ROWS`` of them by ``BLOCK`` values."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    channel = row % channels
    has_wave = channel < snaked_channels
    bend = tl.load(alpha + channel, mask=has_wave, other=0.0).to(tl.float32)
    scale = tl.load(inverse + channel, mask=has_wave, other=0.0).to(tl.float32)
    where = row.to(tl.int64)[:, None] * count + at[None, :]
    inside = (row[:, None] < rows) & (at[None, :] < count)
    x = tl.load(values + where, mask=inside, other=0.0)
    wide = x.to(tl.float32)
    leaky = tl.where(wide < 0.0, wide * slope, wide)
    y = tl.where(has_wave[:, None], snaked(wide, bend[:, None], scale[:, None]), leaky)
    tl.store(out + where, y.to(x.dtype), mask=inside)


def launch(values: Tensor, alpha: Tensor, inverses: Tensor, slope: float) -> Tensor:
    """As :func:`~antiphon.engines.speech.kernels.snake.snake`."""
    values = values.contiguous()
    batch, channels, count = values.shape
    out = torch.empty_like(values)
    block = min(TILE, triton.next_power_of_2(count))
    tall = max(1, TILE // block)
    rows = batch * channels
    grid = (triton.cdiv(rows, tall), triton.cdiv(count, block))
    snake_kernel[grid](
        values, out, alpha, inverses, rows, channels, alpha.shape[0], count, slope,
        ROWS=tall, BLOCK=block,
    )  # fmt: skip
    return out
