"""Activations of convolutional decoders: nothing of time, and no state.

They take the fused kernel on a GPU, see :mod:`..kernels`.
"""

from __future__ import annotations

from torch import Tensor, nn

from ..kernels.snake import inverse, snake


class Snake(nn.Module):
    """``x + sin(alpha x)^2 / (beta + 1e-9)``; zero stays zero."""

    alpha: Tensor
    inverses: Tensor

    def __init__(self, alpha: Tensor, beta: Tensor | None = None) -> None:
        """``alpha`` and ``beta``: a value a channel, of any shape; ``beta`` is ``alpha`` where
        it is not given. Where a model keeps their logarithms, give their exponentials. In the
        dtype in which it is to be reckoned: what is divided by is inverted here."""
        super().__init__()
        alpha = alpha.detach().reshape(-1)
        self.register_buffer("alpha", alpha)
        self.register_buffer("inverses", inverse(alpha if beta is None else beta.detach().view(-1)))

    def forward(self, values: Tensor) -> Tensor:
        """``(batch, channels, count)`` to the same, in a new tensor."""
        return snake(values, self.alpha, self.inverses)


class HalfSnake(Snake):
    """Snake of the first channels, of which there is an alpha, and leaky ReLU of the others."""

    def __init__(
        self, alpha: Tensor, beta: Tensor | None = None, *, negative_slope: float = 0.01
    ) -> None:
        """``negative_slope``: of the leaky ReLU."""
        super().__init__(alpha, beta)
        self.negative_slope = negative_slope

    def forward(self, values: Tensor) -> Tensor:
        """``(batch, channels, count)`` to the same, in a new tensor."""
        return snake(values, self.alpha, self.inverses, self.negative_slope)
