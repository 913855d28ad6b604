"""DAC: residual codebooks and a convolutional decoder that looks ten steps ahead.

Kumar et al. 2023, "High-Fidelity Audio Compression with Improved RVQGAN", by transformers'
``DacModel``. Of any rates: 24 kHz with 8, 5, 4, 2, as speech models use it, whose whole decode
is 8 samples short; 44.1 kHz with 8, 8, 4, 2; with output padding and other rates as well.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ...chunks import Samples
from ..streaming.activations import Snake
from ..streaming.chain import Chain, Pointwise, Residual
from ..streaming.layer import StreamLayer
from ..streaming.runner import StreamRunner, as_samples, exact_card
from ..streaming.walking import Walk, walk
from .codebooks import projected_sum
from .decoder import Codes, DecoderOptions
from .pretrained import load_pretrained


def load(folder: Path, options: DecoderOptions) -> StreamRunner:
    """Load the decoder of a folder as transformers writes it.

    Raises:
        StageFailure: a package is missing, or the folder can't be used.
    """
    return decoder_of(load_pretrained("dac", "DacModel", folder, options), options)


def load_encoder(folder: Path, options: DecoderOptions) -> DacEncoder:
    """Load its encoder.

    Raises:
        StageFailure: as :func:`load`.
    """
    return DacEncoder(load_pretrained("dac", "DacModel", folder, options))


def decoder_of(model: Any, options: DecoderOptions | None = None) -> StreamRunner:
    """The decoder of a ``DacModel``, whose weight norm, if any, is folded."""
    body = _body(model.decoder)
    books = model.quantizer.quantizers
    card = exact_card(
        "dac",
        sample_rate=int(model.config.sampling_rate),
        sizes=tuple(int(book.codebook.num_embeddings) for book in books),
        body=body,
    )

    def whole(codes: Codes) -> Samples:
        given = torch.from_numpy(codes.astype(np.int64))[None].to(model.device)
        return as_samples(model.decode(audio_codes=given).audio_values[0])

    return StreamRunner(
        card, front=projected_sum(list(books)), body=body, whole=whole, options=options
    )


def _body(decoder: Any) -> StreamLayer:
    """What follows the codebooks, out of streaming layers."""
    dac = import_module("transformers.models.dac.modeling_dac")

    def parts(*modules: nn.Module) -> Chain:
        return Chain([walk(module, own) for module in modules])

    def residual(unit: Any) -> StreamLayer:
        return Residual(parts(unit.snake1, unit.conv1, unit.snake2, unit.conv2))

    def block(it: Any) -> StreamLayer:
        return parts(it.snake1, it.conv_t1, it.res_unit1, it.res_unit2, it.res_unit3)

    own: dict[type[nn.Module], Walk] = {
        dac.Snake1d: lambda module: Pointwise(Snake(cast("Tensor", module.alpha))),
        dac.DacResidualUnit: residual,
        dac.DacDecoderBlock: block,
    }
    return parts(decoder.conv1, *decoder.block, decoder.snake1, decoder.conv2, decoder.tanh)


class DacEncoder:
    """DAC's own encoder."""

    def __init__(self, model: Any) -> None:
        """``model``: a ``DacModel``."""
        self._model = model

    @property
    def sample_rate(self) -> int:
        """That it wants."""
        return int(self._model.config.sampling_rate)

    def encode(self, samples: Samples) -> Codes:
        """The codes of a recording; what is over whole steps is left out."""
        hop = int(self._model.config.hop_length)
        whole = samples.shape[0] // hop * hop
        with torch.inference_mode():
            values = torch.from_numpy(samples[:whole]).to(self._model.device, self._model.dtype)
            codes = self._model.encode(values[None, None]).audio_codes
        return cast("Codes", codes[0].cpu().numpy().astype(np.int32))
