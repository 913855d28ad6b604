"""Snake, an activation with a period: ``x + sin(alpha x)^2 / alpha``, one alpha a channel.

From Ziyin, Hartwig and Ueda, "Neural Networks Fail to Learn Periodic Functions and How to Fix It"
(2020); *SnakeBeta* (BigVGAN) divides by a number of its own, and *HalfSnake* (NanoCodec) leaves
the second half of the channels to a leaky ReLU. The codecs add 1e-9 to what they divide by.

In plain torch it is five passes over the values, and the larger part of what a convolutional
decoder costs on a GPU; the kernel reads and writes each once.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .dispatch import Kernel, agree, device_of

EPSILON = 1e-9
"""Added to what is divided by; part of the codecs' definition."""


def inverse(divisor: Tensor) -> Tensor:
    """What the square of the sine is multiplied by."""
    return (divisor + EPSILON).reciprocal()


def snake(values: Tensor, alpha: Tensor, inverses: Tensor, slope: float = 0.0) -> Tensor:
    """Snake, and leaky ReLU of what channels ``alpha`` does not reach.

    ``values``: ``(batch, channels, count)``, unchanged. ``alpha`` and ``inverses``: ``(snaked,)``
    of the first channels, see :func:`inverse`. ``slope``: of the other channels, below zero.
    Returns the same shape and dtype.
    """
    if KERNEL.serves(values):
        from .snake_triton import launch

        with device_of(values):
            return launch(values, alpha, inverses, slope)
    return reference(values, alpha, inverses, slope)


def reference(values: Tensor, alpha: Tensor, inverses: Tensor, slope: float = 0.0) -> Tensor:
    """As :func:`snake`, in plain torch: the operations of the codecs' own classes, in their
    order, in one buffer."""
    snaked = alpha.shape[0]
    if snaked == values.shape[1]:
        return _snake(values, alpha, inverses)
    first, second = values[:, :snaked], values[:, snaked:]
    return torch.cat([_snake(first, alpha, inverses), functional.leaky_relu(second, slope)], dim=1)


def _snake(values: Tensor, alpha: Tensor, inverses: Tensor) -> Tensor:
    wave = torch.mul(values, alpha[:, None]).sin_()
    # Not pow(2), and nowhere a new buffer: a fresh one costs more than an operation.
    return wave.mul_(wave).mul_(inverses[:, None]).add_(values)


def _trial(device: torch.device) -> None:
    from .snake_triton import launch

    values = torch.linspace(-300.0, 300.0, 2 * 6 * 37, device=device).view(2, 6, 37)
    alpha = torch.tensor([0.1, 1.0, 9.0, 80.0], device=device)
    inverses = inverse(alpha)
    agree(launch(values, alpha, inverses, 0.01), reference(values, alpha, inverses, 0.01), 1e-6)


KERNEL = Kernel("snake", _trial)
