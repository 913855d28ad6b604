"""Noise with an address: which number falls on a sample is a matter of the sample alone.

A decoder that adds white noise gives other samples each time it runs, so that a stream could
not equal a whole decode, nor itself in other chunks. Here the noise is a pure function of a
stream's seed, the layer's number and the sample's position: a counter through the finaliser
of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators";
mixing constants: Stafford's variant 13), made normal by Box and Muller 1958.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .convolution import fold_weight_norm
from .layer import Extent, Rate, State, StreamLayer


def _signed(bits: int) -> int:
    """64 bits as int64 has them."""
    return bits - (1 << 64) if bits >> 63 else bits


_GOLDEN = _signed(0x9E3779B97F4A7C15)
"""The odd number next to 2**64 divided by the golden ratio: the counter's step."""

_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def _shifted(bits: Tensor, by: int) -> Tensor:
    """Shift right, zeros coming in: int64 would bring in its sign."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _mixed(bits: Tensor) -> Tensor:
    """SplitMix64's finaliser; products wrap, as int64 does."""
    bits = (bits ^ _shifted(bits, 30)) * _MIX_1
    bits = (bits ^ _shifted(bits, 27)) * _MIX_2
    return bits ^ _shifted(bits, 31)


def normal_noise(seed: Tensor, layer: int, positions: Tensor) -> Tensor:
    """Standard normal numbers.

    ``seed``: ``(batch,)`` int64. ``positions``: ``(batch, count)`` int64, any. Returns
    ``(batch, count)`` float32, each a function of its seed, ``layer`` and its position alone.
    """
    key = _mixed((seed * _GOLDEN) ^ (layer + 1))
    bits = _mixed((positions + key[:, None]) * _GOLDEN)
    # In float64, so that what a vectorised logarithm does differently at the end of a tensor
    # is rounded away.
    radius = (_shifted(bits, 32).double() + 1.0) * 2.0**-32
    angle = (bits & 0xFFFFFFFF).double() * (2.0**-32 * 2.0 * math.pi)
    return (torch.sqrt(-2.0 * torch.log(radius)) * torch.cos(angle)).float()


class AddressedNoise(StreamLayer):
    """``x + noise * linear(x)``, the noise the same for all channels. No state."""

    def __init__(self, linear: nn.Conv1d, *, layer: int) -> None:
        """``linear``: a convolution of kernel 1, whose weight norm is folded. ``layer``: the
        number of this one among those of the decoder."""
        super().__init__()
        fold_weight_norm(linear)
        self.linear = linear
        self.layer = layer

    def _joined(self, before: Rate) -> Rate:
        return before

    def new_state(self, batch: int, like: Tensor) -> State:
        """None."""
        return []

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """``(batch, channels, count)``, the same shape out."""
        positions = extent.positions(self.before, values.shape[-1])
        noise = normal_noise(extent.seed, self.layer, positions).to(values.dtype)
        return torch.addcmul(values, noise[:, None], self.linear(values))


class WholeNoise(nn.Module):
    """As :class:`AddressedNoise` for decoding in the whole, in place of the original's block."""

    def __init__(self, linear: nn.Conv1d, *, layer: int, seed: int = 0) -> None:
        """``linear`` and ``layer`` as there."""
        super().__init__()
        self.linear = linear
        self.layer = layer
        self.seed = seed

    def forward(self, values: Tensor) -> Tensor:
        """``(batch, channels, count)`` from the start of a stream, the same shape out."""
        batch, _, count = values.shape
        positions = torch.arange(count, device=values.device).expand(batch, count)
        seed = torch.full((batch,), self.seed, device=values.device)
        noise = normal_noise(seed, self.layer, positions).to(values.dtype)
        return torch.addcmul(values, noise[:, None], self.linear(values))
