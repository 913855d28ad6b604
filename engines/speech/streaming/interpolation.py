"""More values between those that come in, on straight lines."""

from __future__ import annotations

import torch
from torch import Tensor

from .layer import Extent, Rate, State, StreamLayer


class LinearUpsample(StreamLayer):
    """Linear interpolation between moments, ends aligned, as ``torch`` does it from ``n`` values
    to ``ratio * (n - 1) + 1`` with ``align_corners``.

    With each value come those after the one before it, up to this one itself. So nothing is given
    that isn't in the stream should it end with this value.

    State: the last value that came in, ``(batch, channels, 1)``.
    """

    weights: Tensor

    def __init__(self, channels: int, ratio: int) -> None:
        """``ratio``: values for each that comes in, at least 1."""
        super().__init__()
        self.channels = channels
        self.ratio = ratio
        self.register_buffer("weights", torch.arange(1, ratio + 1) / ratio, persistent=False)

    def _joined(self, before: Rate) -> Rate:
        ratio = self.ratio
        return Rate(
            before.per_step * ratio,
            (before.delay + 1) * ratio - 1,
            (before.short + 1) * ratio - 1,
        )

    def new_state(self, batch: int, like: Tensor) -> State:
        """Zeros: nothing is made of what lies ahead of the start."""
        return [like.new_zeros(batch, self.channels, 1)]

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """``(batch, channels, count)`` to ``(batch, channels, count * ratio)``."""
        (last,) = state
        joined = torch.cat((last, values), -1)
        last.copy_(values[..., -1:])
        new = self.weights.to(values.dtype)
        between = joined[..., :-1, None] * (1 - new) + joined[..., 1:, None] * new
        return between.flatten(-2)
