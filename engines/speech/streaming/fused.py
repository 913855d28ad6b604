"""Layers of a decoder that are one kernel on a GPU, and what they are made of elsewhere."""

from __future__ import annotations

from torch import Tensor, nn

from ..kernels.residual import KERNEL, TAPS, snake_conv_snake
from .activations import Snake
from .chain import Chain, Pointwise
from .convolution import StreamConv
from .layer import Extent, State


class SnakeConvSnake(Chain):
    """Snake, a depthwise convolution, Snake: the front of a residual unit.

    State: that of the convolution. With the kernel it holds values from ahead of the first Snake;
    which of the two runs doesn't change within a stream.
    """

    def __init__(self, first: Snake, conv: StreamConv, second: Snake) -> None:
        """``conv``: any; the kernel serves depthwise ones of seven taps."""
        super().__init__([Pointwise(first), conv, Pointwise(second)])
        self.first = first
        self.conv = conv
        self.second = second
        inner: nn.Conv1d = conv.conv
        self.fits = inner.groups == inner.in_channels == inner.out_channels and (
            inner.kernel_size == (TAPS,)
        )

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """``(batch, channels, count)``, the same shape out."""
        if not self.fits or not KERNEL.serves(values):
            return super().feed(values, state, extent)
        (tail,) = state
        inner: nn.Conv1d = self.conv.conv
        return snake_conv_snake(
            extent.mask(values, self.conv.before),
            tail,
            (self.first.alpha, self.first.inverses),
            inner.weight,
            inner.bias,
            inner.dilation[0],
            (self.second.alpha, self.second.inverses),
        )
