"""The front of a residual unit with a depthwise convolution: Snake, convolution, Snake.

A depthwise convolution does so little with a value that reading and writing it is all it costs;
between two activations it costs nothing. What is kept of a stream is the input ahead of the
first Snake: it takes zero to zero, so padding with zeros means the same before it and after it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .dispatch import Kernel, agree, device_of
from .snake import inverse
from .snake import reference as snake_reference

TAPS = 7
"""Of the convolutions of all codecs that have such units."""


def snake_conv_snake(
    values: Tensor,
    tail: Tensor,
    first: tuple[Tensor, Tensor],
    weight: Tensor,
    bias: Tensor | None,
    dilation: int,
    second: tuple[Tensor, Tensor],
) -> Tensor:
    """Go on by a stretch.

    ``values``: ``(batch, channels, count)``. ``tail``: ``(batch, channels, span)``, what came
    before, with ``span`` one less than the kernel, times the dilation; changed in place.
    ``first`` and ``second``: alphas and inverses of the two, ``(channels,)`` each. ``weight``:
    ``(channels, 1, kernel)``. Returns the shape of ``values``. Fused where the kernel has 7 taps.
    """
    if weight.shape[-1] == TAPS and KERNEL.serves(values):
        from .residual_triton import launch

        with device_of(values):
            return launch(values, tail, first, weight, bias, dilation, second)
    return reference(values, tail, first, weight, bias, dilation, second)


def reference(
    values: Tensor,
    tail: Tensor,
    first: tuple[Tensor, Tensor],
    weight: Tensor,
    bias: Tensor | None,
    dilation: int,
    second: tuple[Tensor, Tensor],
) -> Tensor:
    """As :func:`snake_conv_snake`, in plain torch."""
    joined = torch.cat((tail, values), -1)
    tail.copy_(joined[..., -tail.shape[-1] :])
    waved = snake_reference(joined, *first)
    mixed = functional.conv1d(waved, weight, bias, dilation=dilation, groups=weight.shape[0])
    return snake_reference(mixed, *second)


def _trial(device: torch.device) -> None:
    from .residual_triton import launch

    values = torch.linspace(-9.0, 9.0, 2 * 3 * 40, device=device).view(2, 3, 40)
    tail = values[..., :18].flip(-1).contiguous()
    kept = tail.clone()
    alpha = torch.tensor([0.3, 1.0, 4.0], device=device)
    wave = (alpha, inverse(alpha))
    weight = torch.linspace(-1.0, 1.0, 21, device=device).view(3, 1, 7)
    ours = launch(values, tail, wave, weight, alpha, 3, wave)
    agree(ours, reference(values, kept, wave, weight, alpha, 3, wave), 1e-5)
    agree(tail, kept, 0.0)


KERNEL = Kernel("residual", _trial)
