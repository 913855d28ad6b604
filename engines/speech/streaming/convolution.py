"""Convolutions that go on where they stopped.

A convolution keeps the last of its input, a transposed one the part of its output that still
lacks what comes next; so nothing is computed twice, however short the stretches. Streaming
convolutions with a cache of their input go back at least to Rybakov et al. 2020,
"Streaming keyword spotting on mobile devices"; that padding on the right becomes delay is
what is added here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import remove_weight_norm
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

from ..kernels.transposed import fits, transposed
from .layer import Extent, Rate, State, StreamLayer
from .products import convolve


def fold_weight_norm(module: nn.Module) -> None:
    """Compute the weights of ``module``, and of all inside, once and for all.

    Both kinds of weight norm are known; where there is none, nothing is changed. The module
    does afterwards what it did before, only with fewer operations.
    """
    for part in module.modules():
        if isinstance(part, nn.Conv1d | nn.ConvTranspose1d | nn.Linear):
            if is_parametrized(part, "weight"):
                remove_parametrizations(part, "weight", leave_parametrized=True)
            elif "weight_g" in dict(part.named_parameters(recurse=False)):
                remove_weight_norm(part)


def _only(sizes: tuple[int, ...]) -> int:
    """The size of the one dimension there is."""
    (size,) = sizes
    return size


class StreamConv(StreamLayer):
    """A convolution of stride 1, of any dilation and groups, where a whole decode has zeros
    around the stream.

    State: the last values that came in, ``(batch, channels, left + right)``.
    """

    def __init__(self, conv: nn.Conv1d, *, left: int, right: int) -> None:
        """Take over ``conv``, whose weight norm is folded; its own padding is not looked at.

        ``left``, ``right``: zeros that a whole decode puts around its input, so many that there
        come out as many values as went in. What is on the right becomes delay.

        Raises:
            ValueError: it has a stride, or the padding changes the length.
        """
        super().__init__()
        span = (_only(conv.kernel_size) - 1) * _only(conv.dilation)
        if conv.stride != (1,):
            raise ValueError(f"expected a convolution of stride 1, got {conv.stride}")
        if left < 0 or right < 0 or left + right != span:
            raise ValueError(f"expected {span} zeros of padding, got {left} and {right}")
        fold_weight_norm(conv)
        self.conv = conv
        self.right = right
        self.span = span

    def _joined(self, before: Rate) -> Rate:
        return Rate(before.per_step, before.delay + self.right, before.short)

    def new_state(self, batch: int, like: Tensor) -> State:
        """Zeros, as a whole decode has them ahead of the start."""
        return [like.new_zeros(batch, self.conv.in_channels, self.span)] if self.span else []

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """``(batch, in, count)`` to ``(batch, out, count)``."""
        if self.span:
            (tail,) = state
            values = torch.cat((tail, extent.mask(values, self.before)), -1)
            tail.copy_(values[..., -self.span :])
        conv = self.conv
        dilation = _only(conv.dilation)
        return convolve(values, conv.weight, conv.bias, dilation=dilation, groups=conv.groups)


class StreamTransposed(StreamLayer):
    """A transposed convolution of any stride and groups.

    State: what the values so far add to outputs that are not complete,
    ``(batch, out, kernel - stride)``.
    """

    def __init__(self, conv: nn.ConvTranspose1d, *, trim_left: int, trim_right: int) -> None:
        """Take over ``conv``, whose weight norm is folded; its own padding is not looked at.

        ``trim_left``, ``trim_right``: values that a whole decode cuts off the full result of
        ``(count - 1) * stride + kernel`` values; output padding counts as cut off less on the
        right, so that it may be negative. What is cut off on the left becomes delay.

        Raises:
            ValueError: a negative trim on the left.
        """
        super().__init__()
        if trim_left < 0:
            raise ValueError(f"expected to trim no less than nothing, got {trim_left}")
        fold_weight_norm(conv)
        self.conv = conv
        self.stride = _only(conv.stride)
        kernel = (_only(conv.kernel_size) - 1) * _only(conv.dilation) + 1
        self.trim_left = trim_left
        self.trim_right = trim_right
        self.product = fits(kernel, self.stride, conv.groups, _only(conv.dilation))
        self.overlap = max(0, kernel - self.stride)
        self.gap = max(0, self.stride - kernel)

    def _joined(self, before: Rate) -> Rate:
        return Rate(
            before.per_step * self.stride,
            before.delay * self.stride + self.trim_left,
            before.short * self.stride
            + (self.trim_left + self.trim_right - self.overlap + self.gap),
        )

    def new_state(self, batch: int, like: Tensor) -> State:
        """Zeros: nothing came before the start."""
        return [like.new_zeros(batch, self.conv.out_channels, self.overlap)] if self.overlap else []

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """``(batch, in, count)`` to ``(batch, out, count * stride)``."""
        conv = self.conv
        values = extent.mask(values, self.before)
        if self.product:
            return transposed(values, conv.weight, conv.bias, state[0])
        full = functional.conv_transpose1d(
            values,
            conv.weight,
            conv.bias,
            stride=self.stride,
            output_padding=self.gap,
            groups=conv.groups,
            dilation=conv.dilation,
        )
        if not self.overlap:
            return full
        (tail,) = state
        full[..., : self.overlap] += tail
        count = values.shape[-1] * self.stride
        ahead = full[..., count:]
        # The next stretch brings the bias again.
        tail.copy_(ahead if conv.bias is None else ahead - conv.bias[:, None])
        return full[..., :count]


def same_conv(conv: nn.Conv1d) -> StreamConv:
    """A convolution as its own padding says: zeros, as many on the left as on the right.

    Raises:
        ValueError: it pads otherwise, or the length changes.
    """
    if conv.padding_mode != "zeros" or isinstance(conv.padding, str):
        raise ValueError(f"expected padding with zeros, got {conv.padding_mode} {conv.padding}")
    padding = _only(conv.padding)
    return StreamConv(conv, left=padding, right=padding)


def same_transposed(conv: nn.ConvTranspose1d) -> StreamTransposed:
    """A transposed convolution as its own padding and output padding say."""
    padding = _only(conv.padding)  # type: ignore[arg-type]
    extra = _only(conv.output_padding)
    return StreamTransposed(conv, trim_left=padding, trim_right=padding - extra)
