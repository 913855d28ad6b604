"""SNAC: codebooks of different speeds, and a convolutional decoder with noise.

Siuzdak et al. 2024, "SNAC: Multi-Scale Neural Audio Codec", by the authors' own package
``snac``. A step is a code of the fastest codebook; those of slower ones are repeated. The noise
that the decoder adds after each upsampling is addressed (see :mod:`..streaming.noise`), in
whole decodes as well: with the original's, no two decodes are alike.

Models with local attention (44 kHz and 32 kHz) are refused: it works in blocks of 32 values, all
of which see each other, and there is no layer here that does.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import warnings
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ...chunks import Samples
from ..streaming.activations import Snake
from ..streaming.chain import Chain, Pointwise, Residual
from ..streaming.convolution import same_conv
from ..streaming.fused import SnakeConvSnake
from ..streaming.layer import StreamLayer
from ..streaming.noise import AddressedNoise, WholeNoise
from ..streaming.runner import StreamRunner, as_samples, exact_card
from ..streaming.walking import Walk, walk
from .codebooks import projected_sum
from .decoder import Codes, DecoderOptions
from .folder import fill, package, read_config, read_weights, unusable


def load(folder: Path, options: DecoderOptions) -> StreamRunner:
    """Load the decoder of a folder with ``config.json`` and the weights.

    Raises:
        StageFailure: the package is missing, or the folder can't be used.
    """
    return decoder_of(_loaded(folder, options), options)


def load_encoder(folder: Path, options: DecoderOptions) -> SnacEncoder:
    """Load its encoder.

    Raises:
        StageFailure: as :func:`load`.
    """
    return SnacEncoder(_loaded(folder, options))


def _loaded(folder: Path, options: DecoderOptions) -> Any:
    """The original's model."""
    with warnings.catch_warnings():
        # The package scripts its activation, which torch no longer likes.
        warnings.simplefilter("ignore", DeprecationWarning)
        snac = package("snac", codec="snac")
    config = read_config(folder)
    if config.get("attn_window_size") is not None:
        raise unusable(
            f"expected a SNAC model without attention (attn_window_size null), got one in {folder}"
        )
    try:
        model = snac.SNAC(**config)
    except TypeError as error:
        raise unusable(f"the configuration in {folder} is none of SNAC: {error}") from None
    fill(model, read_weights(folder), folder)
    return model.eval().requires_grad_(False).to(options.device, getattr(torch, options.dtype))


def decoder_of(model: Any, options: DecoderOptions | None = None) -> StreamRunner:
    """The decoder of a model of the package ``snac``, which is changed: its weight norm is
    folded and its noise addressed."""
    body = _body(model.decoder)
    books = model.quantizer.quantizers
    card = exact_card(
        "snac",
        sample_rate=int(model.sampling_rate),
        sizes=(int(model.codebook_size),) * len(books),
        body=body,
    )
    return StreamRunner(
        card,
        front=projected_sum(list(books)),
        body=body,
        whole=lambda codes: _whole(model, codes),
        options=options,
    )


def _body(decoder: nn.Module) -> StreamLayer:
    """What follows the codebooks, out of streaming layers. Noise is addressed, in ``decoder``
    as well."""
    layers = import_module("snac.layers")
    noises = count(1)

    def noise(module: nn.Module) -> StreamLayer:
        return AddressedNoise(cast("nn.Conv1d", module.linear), layer=next(noises))

    def residual(module: nn.Module) -> StreamLayer:
        first, conv, second, last = cast("nn.Sequential", module.block)
        front = SnakeConvSnake(_snake(first), same_conv(cast("nn.Conv1d", conv)), _snake(second))
        return Residual(Chain([front, Pointwise(last)]))

    own: dict[type[nn.Module], Walk] = {
        layers.Snake1d: lambda module: Pointwise(_snake(module)),
        layers.NoiseBlock: noise,
        layers.ResidualUnit: residual,
        layers.DecoderBlock: lambda module: walk(cast("nn.Module", module.block), own),
    }
    body = walk(cast("nn.Module", decoder.model), own)
    sequences = [part for part in decoder.modules() if isinstance(part, nn.Sequential)]
    noises = count(1)
    for sequence in sequences:
        for at, part in enumerate(sequence):
            if isinstance(part, layers.NoiseBlock):
                linear = cast("nn.Conv1d", part.linear)
                sequence[at] = WholeNoise(linear, layer=next(noises))
    return body


def _snake(module: nn.Module) -> Snake:
    """The original's activation, as ours."""
    return Snake(cast("Tensor", module.alpha))


def _strides(model: Any) -> list[int]:
    """Steps of one code of each codebook."""
    return [int(book.stride) for book in model.quantizer.quantizers]


def _whole(model: Any, codes: Codes) -> Samples:
    """A whole decode, of utterances too that end within the code of a slow codebook."""
    steps = codes.shape[1]
    strides = _strides(model)
    longest = max(strides)
    padded = np.pad(codes, ((0, 0), (0, -steps % longest)), mode="edge")
    device = next(model.parameters()).device
    books = [
        torch.from_numpy(row[::stride].astype(np.int64))[None].to(device)
        for row, stride in zip(padded, strides, strict=True)
    ]
    latents = model.quantizer.from_codes(books)[..., :steps]
    return as_samples(model.decoder(latents)[0, 0])


class SnacEncoder:
    """SNAC's own encoder."""

    def __init__(self, model: Any) -> None:
        """``model``: of the package ``snac``."""
        self._model = model

    @property
    def sample_rate(self) -> int:
        """That it wants."""
        return int(self._model.sampling_rate)

    def encode(self, samples: Samples) -> Codes:
        """The codes of a recording; slower codebooks' are repeated."""
        weight = next(self._model.parameters())
        steps = samples.shape[0] // int(self._model.hop_length)
        with torch.inference_mode():
            values = torch.from_numpy(samples).to(weight.device, weight.dtype)
            books = self._model.encode(values[None, None])
        rows = [
            book[0].repeat_interleave(stride)[:steps].cpu().numpy().astype(np.int32)
            for book, stride in zip(books, _strides(self._model), strict=True)
        ]
        return np.stack(rows)
