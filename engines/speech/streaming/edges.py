"""Padding at a stream's start that is made of the stream itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .convolution import StreamConv
from .layer import Extent, Rate, State


class ReflectedConv(StreamConv):
    """A causal convolution that a whole decode pads with the mirrored beginning of its input.

    What comes out first depends on values that come later: a stream's first stretch has to bring
    :attr:`needs` of them, which :attr:`..decoders.decoder.DecoderCard.first_steps` asks for. From
    then on it is a causal convolution like any other. Nothing may be delayed ahead of it, as the
    mirror stands at the start of the stream.
    """

    def __init__(self, conv: nn.Conv1d) -> None:
        """Take over ``conv``, whose weight norm is folded; its own padding is not looked at.

        Raises:
            ValueError: it has a stride.
        """
        span = (conv.kernel_size[0] - 1) * conv.dilation[0]
        super().__init__(conv, left=span, right=0)

    @property
    def needs(self) -> int:
        """Values that the first stretch of a stream has to bring."""
        return self.span + 1

    def _joined(self, before: Rate) -> Rate:
        if before.delay:
            raise ValueError("expected nothing ahead of a stream's start where it is mirrored")
        return super()._joined(before)

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """``(batch, in, count)`` to ``(batch, out, count)``."""
        conv = self.conv
        if self.span:
            (tail,) = state
            # A shorter stretch can't be anybody's first.
            if values.shape[-1] > self.span:
                mirrored = values[..., 1 : self.span + 1].flip(-1)
                tail = torch.where(extent.first[:, None, None] == 0, mirrored, tail)
            values = torch.cat((tail, values), -1)
            state[0].copy_(values[..., -self.span :])
        return functional.conv1d(
            values, conv.weight, conv.bias, dilation=conv.dilation, groups=conv.groups
        )
