"""NanoCodec: 12.5 steps a second, a causal HiFi-GAN behind four codebooks without tables.

Casanova et al. 2025, "NanoCodec: towards high-quality ultra fast speech LLM inference"; the
quantiser is finite scalar quantisation, Mentzer et al. 2023. The class is our own, as its makers'
is part of a large toolkit: whole decodes are those of :class:`NanoCodec`, which states what is
published of the structure. With the published settings it has 31.5 million weights, as said of
the original.

A folder holds ``config.json``, whose fields are those of :class:`NanoSettings`, and the weights
in the names of :class:`NanoCodec`. :func:`from_nemo` makes these of the toolkit's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...chunks import Samples, StageError
from ...stage import StageFailure
from ..streaming.activations import HalfSnake
from ..streaming.chain import Chain, Mean, Pointwise, Residual
from ..streaming.convolution import StreamConv, StreamTransposed
from ..streaming.layer import StreamLayer
from ..streaming.runner import StreamRunner, as_samples, exact_card
from .decoder import Codes, DecoderOptions
from .folder import fill, read_config, read_weights, unusable

NAME = "nanocodec"

SLOPE = 0.01
"""Of the leaky half of the activations."""

EPSILON = 1e-9
"""Added to what the snaking half is divided by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoSettings:
    """The shape of a model; the defaults are those of 22 kHz and 0.6 kbit/s."""

    sample_rate: int = 22_050
    codebooks: int = 4
    levels: tuple[int, ...] = (9, 8, 8, 7)
    """Of each number of a codebook's vector."""

    channels: int = 864
    """Of the first convolution; half as many after each stage."""

    rates: tuple[int, ...] = (7, 7, 6, 3, 2)
    """How much each stage makes longer."""

    kernels: tuple[int, ...] = (3, 7, 11)
    """Of the chains of a stage, which are side by side."""

    dilations: tuple[int, ...] = (1, 3, 5)
    """Of the units of a chain."""

    in_kernel: int = 7
    out_kernel: int = 3


class NanoUnit(nn.Module):
    """Two convolutions with activations before them, and a skip."""

    def __init__(self, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.first_alpha = nn.Parameter(torch.ones(channels // 2))
        self.first = nn.Conv1d(channels, channels, kernel, dilation=dilation)
        self.second_alpha = nn.Parameter(torch.ones(channels // 2))
        self.second = nn.Conv1d(channels, channels, kernel)

    def forward(self, values: Tensor) -> Tensor:
        """``(batch, channels, count)``, the same shape out."""
        inner = _causal(self.first, half_snake(values, self.first_alpha))
        return values + _causal(self.second, half_snake(inner, self.second_alpha))

    def stream(self) -> StreamLayer:
        """The same, a stretch at a time."""
        branch = Chain(
            [
                Pointwise(HalfSnake(self.first_alpha, negative_slope=SLOPE)),
                _stream_causal(self.first),
                Pointwise(HalfSnake(self.second_alpha, negative_slope=SLOPE)),
                _stream_causal(self.second),
            ]
        )
        return Residual(branch)


class NanoStage(nn.Module):
    """Makes longer by a transposed convolution of a group a channel, then takes the mean of
    some chains."""

    def __init__(self, channels: int, rate: int, settings: NanoSettings) -> None:
        super().__init__()
        out = channels // 2
        self.alpha = nn.Parameter(torch.ones(channels // 2))
        self.up = nn.ConvTranspose1d(channels, out, 2 * rate, rate, groups=out)
        self.chains = nn.ModuleList(
            nn.Sequential(*(NanoUnit(out, kernel, each) for each in settings.dilations))
            for kernel in settings.kernels
        )

    def forward(self, values: Tensor) -> Tensor:
        """``(batch, channels, count)`` to ``(batch, channels // 2, count * rate)``."""
        longer = self.up(half_snake(values, self.alpha))[..., : -self.up.stride[0]]
        total = torch.stack([chain(longer) for chain in self.chains]).sum(0)
        return total / len(self.chains)

    def stream(self) -> StreamLayer:
        """The same, a stretch at a time."""
        chains = [
            Chain(
                [
                    unit.stream()
                    for unit in cast("nn.Sequential", chain)
                    if isinstance(unit, NanoUnit)
                ]
            )
            for chain in self.chains
        ]
        return Chain(
            [
                Pointwise(HalfSnake(self.alpha, negative_slope=SLOPE)),
                StreamTransposed(self.up, trim_left=0, trim_right=self.up.stride[0]),
                Mean(chains),
            ]
        )


class NanoCodec(nn.Module):
    """The decoder as a whole."""

    vectors: Tensor

    def __init__(self, settings: NanoSettings) -> None:
        super().__init__()
        self.settings = settings
        self.enter = nn.Conv1d(
            settings.codebooks * len(settings.levels), settings.channels, settings.in_kernel
        )
        width = [settings.channels >> stage for stage in range(len(settings.rates) + 1)]
        self.stages = nn.ModuleList(
            NanoStage(channels, rate, settings)
            for channels, rate in zip(width, settings.rates, strict=False)
        )
        self.last_alpha = nn.Parameter(torch.ones(width[-1] // 2))
        self.leave = nn.Conv1d(width[-1], 1, settings.out_kernel)
        vectors = vectors_of(settings.levels).to(torch.get_default_dtype())
        self.register_buffer("vectors", vectors, persistent=False)

    def front(self, codes: Tensor) -> Tensor:
        """Codes, ``(batch, codebooks, count)``, to ``(batch, codebooks * levels, count)``."""
        return self.vectors[codes].transpose(2, 3).flatten(1, 2)

    def forward(self, codes: Tensor) -> Tensor:
        """Codes to ``(batch, 1, samples)``."""
        values = _causal(self.enter, self.front(codes))
        for stage in self.stages:
            values = stage(values)
        return _causal(self.leave, half_snake(values, self.last_alpha)).clamp(-1, 1)

    def stream(self) -> StreamLayer:
        """What comes after :meth:`front`, a stretch at a time."""
        stages = [stage.stream() for stage in self.stages if isinstance(stage, NanoStage)]
        return Chain(
            [
                _stream_causal(self.enter),
                *stages,
                Pointwise(HalfSnake(self.last_alpha, negative_slope=SLOPE)),
                _stream_causal(self.leave),
                Pointwise(nn.Hardtanh()),
            ]
        )


def vectors_of(levels: tuple[int, ...]) -> Tensor:
    """What each code of a codebook stands for: ``(codes, levels)`` float64 from -1 to 1.

    The first number is the fastest digit; a digit's middle is zero.
    """
    codes = torch.arange(prod(levels))
    columns: list[Tensor] = []
    for level in levels:
        columns.append((codes % level - level // 2).double() / (level // 2))
        codes = codes // level
    return torch.stack(columns, dim=1)


def half_snake(values: Tensor, alpha: Tensor) -> Tensor:
    """``x + sin(alpha x)^2 / alpha`` of the first half of the channels (Ziyin et al. 2020), and
    leaky ReLU of the others."""
    wide = alpha[:, None]
    first, other = values[:, : alpha.shape[0]], values[:, alpha.shape[0] :]
    snaking = first + (wide + EPSILON).reciprocal() * (wide * first).sin().square()
    return torch.cat((snaking, functional.leaky_relu(other, SLOPE)), dim=1)


def _causal(conv: nn.Conv1d, values: Tensor) -> Tensor:
    """With zeros on the left, as many values as before."""
    span = (conv.kernel_size[0] - 1) * conv.dilation[0]
    return cast("Tensor", conv(functional.pad(values, (span, 0))))


def _stream_causal(conv: nn.Conv1d) -> StreamLayer:
    """:func:`_causal`, a stretch at a time."""
    return StreamConv(conv, left=(conv.kernel_size[0] - 1) * conv.dilation[0], right=0)


def load(folder: Path, options: DecoderOptions) -> StreamRunner:
    """As :meth:`.decoder.DecoderModule.load`."""
    try:
        model = NanoCodec(_settings(read_config(folder)))
    except (TypeError, ValueError, RuntimeError) as error:
        raise unusable(f"the configuration in {folder} is none of NanoCodec: {error}") from None
    fill(model, read_weights(folder), folder)
    model = model.eval().requires_grad_(False)
    return decoder_of(model.to(options.device, getattr(torch, options.dtype)), options)


def load_encoder(folder: Path, options: DecoderOptions) -> NoReturn:
    """There is none: the decoder alone is stated here.

    Raises:
        StageFailure: always, ``encoder_missing``.
    """
    what = "NanoCodec has no encoder here, so that no voices can be made of recordings"
    raise StageFailure(StageError("encoder_missing", what))


def decoder_of(model: NanoCodec, options: DecoderOptions | None = None) -> StreamRunner:
    """The decoder of a model, which it shares."""
    settings = model.settings
    body = model.stream()
    card = exact_card(
        NAME,
        sample_rate=settings.sample_rate,
        sizes=(prod(settings.levels),) * settings.codebooks,
        body=body,
    )

    def whole(codes: Codes) -> Samples:
        if not codes.shape[1]:
            return np.zeros(0, np.float32)
        ids = torch.as_tensor(codes.astype(np.int64))[None].to(model.vectors.device)
        return as_samples(model(ids)[0, 0])

    return StreamRunner(card, front=model.front, body=body, whole=whole, options=options)


def _settings(config: Mapping[str, Any]) -> NanoSettings:
    """The settings that a ``config.json`` tells."""
    known = {field.name for field in fields(NanoSettings)} | {"model_type"}
    if unknown := sorted(set(config) - known):
        raise ValueError(f"unknown fields {', '.join(unknown)}")
    told = {
        key: tuple(cast("list[int]", value)) if isinstance(value, list) else value
        for key, value in config.items()
        if key != "model_type"
    }
    return NanoSettings(**cast("dict[str, Any]", told))


_PLACES = (
    (r"pre_conv\.conv", "enter"),
    (r"post_conv\.conv", "leave"),
    (r"post_activation\.activation\.snake_act\.alpha", "last_alpha"),
    (r"activations\.(\d+)\.activation\.snake_act\.alpha", r"stages.\1.alpha"),
    (r"up_sample_conv_layers\.(\d+)\.conv", r"stages.\1.up"),
    (r"(?:res_layers\.(\d+)\.res_blocks\.(\d+)\.res_blocks\.(\d+))", r"stages.\1.chains.\2.\3"),
    (r"input_activation\.activation\.snake_act\.alpha", "first_alpha"),
    (r"skip_activation\.activation\.snake_act\.alpha", "second_alpha"),
    (r"input_conv\.conv", "first"),
    (r"skip_conv\.conv", "second"),
)
"""Names of NeMo's decoder, and what they are here."""


def from_nemo(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of NeMo's audio codec model, in the names of :class:`NanoCodec`.

    Its decoder's names begin with ``audio_decoder.``; the others (encoder, discriminators,
    quantiser, which has no weights) are left out. Weight norm is folded: a weight is its
    direction ``original1`` by its length ``original0``, a length for each first index.
    """
    prefix = "audio_decoder."
    found: dict[str, Tensor] = {}
    sizes = ".parametrizations.weight.original0"
    for name, tensor in weights.items():
        if not name.startswith(prefix) or name.endswith(sizes):
            continue
        place = name.removeprefix(prefix)
        if place.endswith(direction := ".parametrizations.weight.original1"):
            place = place.removesuffix(direction)
            length = weights[f"{prefix}{place}{sizes}"]
            norm = tensor.square().sum((1, 2), keepdim=True).sqrt()
            tensor = tensor * (length / norm)
            place += ".weight"
        for pattern, ours in _PLACES:
            place = re.sub(rf"(?<![a-z_]){pattern}(?![a-z_])", ours, place)
        found[place] = tensor.flatten() if place.endswith("alpha") else tensor
    return found
