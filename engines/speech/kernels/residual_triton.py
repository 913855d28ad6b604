# mypy: ignore-errors
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false, reportIndexIssue=false
# pyright: reportArgumentType=false
"""The kernel of Snake, depthwise convolution, Snake. Imported where Triton is installed, and only
then."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .snake_triton import snaked

LANES = 256
"""Outputs of one program that are reckoned at the same time."""


@triton.jit
def waved(values, tail, at, in_rows, wide_row, count, bend, scale, SPAN: tl.constexpr):
    """Snake of the inputs ``at``, counted from the first value of the tail."""
    old = tl.load(tail + wide_row * SPAN + at, mask=in_rows & (at < SPAN), other=0.0)
    fresh = in_rows & (at >= SPAN) & (at < SPAN + count)
    new = tl.load(values + wide_row * count + at - SPAN, mask=fresh, other=0.0)
    return snaked(tl.where(at < SPAN, old, new).to(tl.float32), bend, scale)


@triton.jit
def residual_kernel(
    values,
    tail,
    alpha,
    inverse,
    weight,
    bias,
    alpha_after,
    inverse_after,
    out,
    rows,
    channels,
    count,
    DILATION: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
    LONG: tl.constexpr,
):
    """``ROWS`` channels of all streams. Each of ``WIDE`` lanes walks ``LONG`` outputs that lie a
    dilation apart, with the seven inputs of a convolution in hand, so that an input gets its
    Snake once; lanes that lie side by side walk side by side, as far as a dilation goes."""
    SPAN: tl.constexpr = 6 * DILATION
    GROUPS: tl.constexpr = WIDE // DILATION
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    lane = tl.arange(0, WIDE)[None, :]
    in_rows = (row < rows) & (lane < GROUPS * DILATION)
    channel = row % channels
    row = row.to(tl.int64)
    begin = tl.program_id(1) * (GROUPS * DILATION * LONG)
    at = begin + (lane // DILATION) * (DILATION * LONG) + lane % DILATION
    known = row < rows
    bend = tl.load(alpha + channel, mask=known, other=0.0).to(tl.float32)
    scale = tl.load(inverse + channel, mask=known, other=0.0).to(tl.float32)
    after = tl.load(alpha_after + channel, mask=known, other=0.0).to(tl.float32)
    after_scale = tl.load(inverse_after + channel, mask=known, other=0.0).to(tl.float32)
    taps = weight + channel * 7
    w0 = tl.load(taps, mask=known, other=0.0).to(tl.float32)
    w1 = tl.load(taps + 1, mask=known, other=0.0).to(tl.float32)
    w2 = tl.load(taps + 2, mask=known, other=0.0).to(tl.float32)
    w3 = tl.load(taps + 3, mask=known, other=0.0).to(tl.float32)
    w4 = tl.load(taps + 4, mask=known, other=0.0).to(tl.float32)
    w5 = tl.load(taps + 5, mask=known, other=0.0).to(tl.float32)
    w6 = tl.load(taps + 6, mask=known, other=0.0).to(tl.float32)
    base = tl.full((ROWS, WIDE), 0.0, tl.float32)
    if HAS_BIAS:
        base += tl.load(bias + channel, mask=known, other=0.0).to(tl.float32)
    x0 = waved(values, tail, at, in_rows, row, count, bend, scale, SPAN)
    x1 = waved(values, tail, at + DILATION, in_rows, row, count, bend, scale, SPAN)
    x2 = waved(values, tail, at + 2 * DILATION, in_rows, row, count, bend, scale, SPAN)
    x3 = waved(values, tail, at + 3 * DILATION, in_rows, row, count, bend, scale, SPAN)
    x4 = waved(values, tail, at + 4 * DILATION, in_rows, row, count, bend, scale, SPAN)
    x5 = waved(values, tail, at + 5 * DILATION, in_rows, row, count, bend, scale, SPAN)
    for _ in range(LONG):
        x6 = waved(values, tail, at + SPAN, in_rows, row, count, bend, scale, SPAN)
        y = base + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3 + w4 * x4 + w5 * x5 + w6 * x6
        y = snaked(y, after, after_scale)
        tl.store(out + row * count + at, y.to(out.dtype.element_ty), mask=in_rows & (at < count))
        at += DILATION
        x0, x1, x2, x3, x4, x5 = x1, x2, x3, x4, x5, x6


def launch(
    values: Tensor,
    tail: Tensor,
    first: tuple[Tensor, Tensor],
    weight: Tensor,
    bias: Tensor | None,
    dilation: int,
    second: tuple[Tensor, Tensor],
) -> Tensor:
    """As :func:`~antiphon.engines.speech.kernels.residual.snake_conv_snake`, of kernel 7."""
    values = values.contiguous()
    batch, channels, count = values.shape
    span = 6 * dilation
    out = torch.empty_like(values)
    # Long walks reckon fewer inputs twice; short ones keep the processors of a GPU busy.
    long = 16 if count >= 512 else 4
    groups = triton.cdiv(count, dilation * long)
    wide = min(LANES, triton.next_power_of_2(groups * dilation))
    tall = LANES // wide
    rows = batch * channels
    grid = (triton.cdiv(rows, tall), triton.cdiv(count, wide // dilation * dilation * long))
    residual_kernel[grid](
        values, tail.contiguous(), *first, weight, weight if bias is None else bias, *second, out,
        rows, channels, count,
        DILATION=dilation, HAS_BIAS=bias is not None, ROWS=tall, WIDE=wide, LONG=long,
    )  # fmt: skip
    # After the launch, which reads it: one stream runs them in this order.
    kept = values if count >= span else torch.cat((tail, values), -1)
    tail.copy_(kept[..., -span:])
    return out
