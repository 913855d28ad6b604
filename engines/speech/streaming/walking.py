"""Streaming layers of the modules that all codecs are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from .chain import Chain, Pointwise
from .convolution import same_conv, same_transposed
from .layer import StreamLayer

Walk = Callable[[nn.Module], StreamLayer]
"""Makes a streaming layer of a module of a decoder."""


def walk(module: nn.Module, own: Mapping[type[nn.Module], Walk]) -> StreamLayer:
    """The streaming layer that does what ``module`` does in a whole decode.

    ``own``: how the codec's own kinds of modules are taken apart. Known besides: convolutions
    padded with zeros, transposed ones, sequences, and activations without a state.

    Raises:
        ValueError: it is of another kind, or holds one.
    """
    made = own.get(type(module))
    if made is not None:
        return made(module)
    if isinstance(module, nn.Sequential):
        return Chain([walk(part, own) for part in module])
    if isinstance(module, nn.ConvTranspose1d):
        return same_transposed(module)
    if isinstance(module, nn.Conv1d):
        if module.kernel_size == (1,) and module.stride == (1,) and module.padding == (0,):
            return Pointwise(module)
        return same_conv(module)
    if isinstance(module, nn.Tanh | nn.ELU | nn.Identity):
        return Pointwise(module)
    raise ValueError(f"expected a module that can stream, got {type(module).__name__}")
