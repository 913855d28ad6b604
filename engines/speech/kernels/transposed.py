"""A transposed convolution whose kernel is two strides long: one matrix product, and an addition.

Each value that comes in reaches over two strides of the output, so that an output is the first
half of one value's product plus the second half of the product before it. The half that is left
over at the end is the state of a stream. There is no strided scatter, and the weight is used as
it lies: ``(in, out, 2 * stride)`` is the matrix ``(in, out * 2 * stride)``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .dispatch import Kernel, agree, device_of
from .snake import inverse
from .snake import reference as snake_reference


def fits(kernel: int, stride: int, groups: int, dilation: int) -> bool:
    """Whether a convolution is one of these."""
    return kernel == 2 * stride and groups == 1 and dilation == 1


def transposed(values: Tensor, weight: Tensor, bias: Tensor | None, tail: Tensor) -> Tensor:
    """Go on with a transposed convolution.

    ``values``: ``(batch, in, count)``. ``weight``: ``(in, out, 2 * stride)``. ``bias``: ``(out,)``.
    ``tail``: ``(batch, out, stride)``, what the value before adds, without bias; changed in place
    to what the last of these will. Returns ``(batch, out, count * stride)``.
    """
    if KERNEL.serves(values):
        from .transposed_triton import launch

        product = torch.matmul(values.transpose(1, 2), weight.flatten(1))
        with device_of(product):
            return launch(product, bias, tail)[0]
    return reference(values, weight, bias, tail)


def transposed_snake(
    values: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    tail: Tensor,
    alpha: Tensor,
    inverses: Tensor,
) -> tuple[Tensor, Tensor]:
    """As :func:`transposed`, and the same after Snake: what a residual unit takes past and
    through. ``alpha`` and ``inverses``: ``(out,)``."""
    if KERNEL.serves(values):
        from .transposed_triton import launch

        product = torch.matmul(values.transpose(1, 2), weight.flatten(1))
        with device_of(product):
            return launch(product, bias, tail, alpha, inverses)
    out = reference(values, weight, bias, tail)
    return out, snake_reference(out, alpha, inverses)


def reference(values: Tensor, weight: Tensor, bias: Tensor | None, tail: Tensor) -> Tensor:
    """As :func:`transposed`, in plain torch."""
    batch, into, count = values.shape
    _, out, span = weight.shape
    stride = span // 2
    # One product for all streams, as each of its own would read the weight again; and where the
    # weight is the most of it, as it lies, not turned: a third faster.
    if weight.numel() > values.numel():
        rows = values.transpose(1, 2).reshape(batch * count, into)
        made = torch.mm(rows, weight.flatten(1)).view(batch, count, out, span)
        product = made.permute(0, 2, 3, 1)
    else:
        columns = values.transpose(0, 1).reshape(into, batch * count)
        made = torch.mm(weight.flatten(1).t(), columns).view(out, span, batch, count)
        product = made.permute(2, 0, 1, 3)
    first, second = product[:, :, :stride], product[:, :, stride:]
    first[..., 0] += tail
    first[..., 1:] += second[..., :-1]
    tail.copy_(second[..., -1])
    if bias is not None:
        first += bias[:, None, None]
    return first.transpose(2, 3).reshape(batch, out, count * stride)


def _trial(device: torch.device) -> None:
    from .transposed_triton import launch

    values = torch.arange(2 * 3 * 5, dtype=torch.float32, device=device).view(2, 3, 5).cos()
    weight = torch.arange(3 * 20 * 6, dtype=torch.float32, device=device).view(3, 20, 6).sin()
    bias = weight[0, :, 0].clone()
    tail = weight[:2, :, :3].clone()
    kept = tail.clone()
    product = torch.matmul(values.transpose(1, 2), weight.flatten(1))
    out, snaked = launch(product, bias, tail, bias, inverse(bias))
    identity = torch.eye(weight[0].numel(), device=device).view(-1, 20, 6)
    expected = reference(product.transpose(1, 2), identity, bias, kept)
    agree(out, expected, 1e-5)
    agree(snaked, snake_reference(out, bias, inverse(bias)), 1e-5)
    agree(tail, kept, 1e-5)


KERNEL = Kernel("transposed", _trial)
