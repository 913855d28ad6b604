# mypy: ignore-errors
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false, reportIndexIssue=false
# pyright: reportArgumentType=false
"""The kernel that finishes a transposed convolution after its matrix product. Imported where
Triton is installed, and only then."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .snake_triton import snaked

TILE = 1024
"""Values of one program."""


@triton.jit
def transposed_kernel(
    product,
    tail,
    bias,
    alpha,
    inverse,
    out,
    waved,
    channels,
    stride,
    count,
    HAS_BIAS: tl.constexpr,
    HAS_WAVE: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A tile of one stream's channels by output times. ``product`` is ``(batch, count, channels,
    2 * stride)``; the second halves of it belong one stride later."""
    batch = tl.program_id(2).to(tl.int64)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)[:, None]
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (channel < channels) & (at < count * stride)
    time = at // stride
    phase = at % stride
    here = ((batch * count + time) * channels + channel) * (2 * stride) + phase
    y = tl.load(product + here, mask=inside, other=0.0).to(tl.float32)
    before = here - channels * (2 * stride) + stride
    y += tl.load(product + before, mask=inside & (time > 0), other=0.0).to(tl.float32)
    kept = (batch * channels + channel) * stride + phase
    y += tl.load(tail + kept, mask=inside & (time == 0), other=0.0).to(tl.float32)
    if HAS_BIAS:
        y += tl.load(bias + channel, mask=channel < channels, other=0.0).to(tl.float32)
    where = (batch * channels + channel) * (count * stride) + at
    tl.store(out + where, y.to(out.dtype.element_ty), mask=inside)
    if HAS_WAVE:
        bend = tl.load(alpha + channel, mask=channel < channels, other=0.0).to(tl.float32)
        scale = tl.load(inverse + channel, mask=channel < channels, other=0.0).to(tl.float32)
        tl.store(waved + where, snaked(y, bend, scale).to(out.dtype.element_ty), mask=inside)


def launch(
    product: Tensor,
    bias: Tensor | None,
    tail: Tensor,
    alpha: Tensor | None = None,
    inverses: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Add the halves of ``product``, ``(batch, count, out * 2 * stride)``, and what follows; see
    :func:`~antiphon.engines.speech.kernels.transposed.transposed_snake`. Without ``alpha`` the
    second is the first."""
    batch, count, _ = product.shape
    _, channels, stride = tail.shape
    kept = tail.contiguous()
    out = torch.empty(batch, channels, count * stride, dtype=product.dtype, device=product.device)
    waved = out if alpha is None else torch.empty_like(out)
    block = min(TILE, triton.next_power_of_2(count * stride))
    wide = TILE // block
    grid = (triton.cdiv(channels, wide), triton.cdiv(count * stride, block), batch)
    unused = kept  # Where a pointer is not read.
    transposed_kernel[grid](
        product, kept,
        unused if bias is None else bias,
        unused if alpha is None else alpha,
        unused if inverses is None else inverses,
        out, waved, channels, stride, count,
        HAS_BIAS=bias is not None, HAS_WAVE=alpha is not None, CHANNELS=wide, BLOCK=block,
    )  # fmt: skip
    tail.copy_(product.view(batch, count, channels, 2 * stride)[:, -1, :, stride:])
    return out, waved
