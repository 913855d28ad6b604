"""Convolutions of short stretches as matrix products.

On a CPU torch's convolution brings its weight into another order at each call. In a whole decode
that is nothing; of a stretch of a few steps, in the wide layers at the front of a decoder, it is
half of the time. There the values are laid out as a matrix instead, and the weight is used as it
lies.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

SMALL = 8
"""A convolution is a product where its weight has so many times the numbers that come in. Below
that, laying out the values costs more than the weight's order."""


def convolve(
    values: Tensor, weight: Tensor, bias: Tensor | None, *, dilation: int, groups: int
) -> Tensor:
    """Convolve without padding.

    ``values``: ``(batch, in, count + (kernel - 1) * dilation)``. ``weight``:
    ``(out, in / groups, kernel)``. ``bias``: ``(out,)``. Returns ``(batch, out, count)``.
    """
    if groups == 1 and not values.is_cuda and weight.numel() >= SMALL * values.numel():
        return product(values, weight, bias, dilation)
    return functional.conv1d(values, weight, bias, dilation=dilation, groups=groups)


def product(values: Tensor, weight: Tensor, bias: Tensor | None, dilation: int) -> Tensor:
    """As :func:`convolve` of one group, as one product for all streams."""
    batch, into, length = values.shape
    out, _, kernel = weight.shape
    count = length - (kernel - 1) * dilation
    stream, channel, value = values.stride()
    windows = values.as_strided(
        (into, kernel, batch, count), (channel, dilation * value, stream, value)
    )
    columns = windows.reshape(into * kernel, batch * count)
    made = torch.mm(weight.view(out, into * kernel), columns)
    if bias is not None:
        made += bias[:, None]
    return made.view(out, batch, count).transpose(0, 1)
