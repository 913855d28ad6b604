"""The decoder that Mimi and EnCodec share, SEANet, out of streaming layers.

Tagliasacchi et al. 2020, "SEANet: A multi-modal speech enhancement network", made causal by
Défossez et al. 2022, "High fidelity neural audio compression". Both classes of ``transformers``
have modules of one layout: convolutions with a module ``conv`` inside and padding around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ..streaming.chain import Chain, Pointwise, Residual
from ..streaming.convolution import StreamConv, StreamTransposed
from ..streaming.edges import ReflectedConv
from ..streaming.layer import StreamLayer
from ..streaming.recurrent import StreamLSTM
from .folder import unusable


def seanet(layers: Sequence[Any]) -> Chain:
    """The layers of a decoder.

    Raises:
        StageFailure: it is not causal, is normalised over time, or pads in an unknown way.
    """
    return Chain([seanet_layer(layer) for layer in layers])


def seanet_layer(module: Any) -> StreamLayer:
    """One of them; as :func:`seanet`."""
    if isinstance(module, nn.ELU):
        return Pointwise(module)
    if hasattr(module, "lstm"):
        return Residual(StreamLSTM(module.lstm))
    if hasattr(module, "block"):
        plain = isinstance(module.shortcut, nn.Identity)
        shortcut = None if plain else seanet_layer(module.shortcut)
        return Residual(seanet(module.block), shortcut)
    if not module.causal or hasattr(module, "norm"):
        raise unusable("expected a causal codec without norms over time, such as that of 24 kHz")
    if isinstance(module.conv, nn.ConvTranspose1d):
        return _transposed(module)
    return _convolution(module)


def _transposed(module: Any) -> StreamLayer:
    """One that trims what is left over, all on the right as a rule."""
    left_over = module.conv.kernel_size[0] - module.conv.stride[0]
    if module.trim_right_ratio != 1.0:
        raise unusable(f"expected to trim on the right alone, got {module.trim_right_ratio}")
    return StreamTransposed(module.conv, trim_left=0, trim_right=left_over)


def _convolution(module: Any) -> StreamLayer:
    """One that pads on the left."""
    conv = module.conv
    span = (conv.kernel_size[0] - 1) * conv.dilation[0]
    if not span:
        return Pointwise(conv)
    if module.pad_mode == "constant":
        return StreamConv(conv, left=span, right=0)
    if module.pad_mode == "reflect":
        return ReflectedConv(conv)
    raise unusable(f"expected padding by zeros or by reflection, got {module.pad_mode}")
