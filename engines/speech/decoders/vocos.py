"""Vocos on EnCodec's codes: 75 steps a second, spectra out of convolutions.

See :mod:`.vocos_model`. The folder is one as its makers publish them: ``config.yaml``, which
names the parts and their settings, and the weights. In ``config.yaml``, ``bandwidth`` (kbit/s,
one of the model's ``bandwidths``) says how many codebooks there are; 6.0 where it doesn't.

Computed in single precision, whatever is asked for: what overlaps is added up over time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
import torch
import yaml
from torch import Tensor, nn

from ...chunks import Samples, StageError
from ...stage import StageFailure
from ..streaming.chain import Chain
from ..streaming.runner import StreamRunner, as_samples, exact_card
from .decoder import Codes, DecoderOptions
from .folder import fill, read_weights, unusable
from .vocos_model import Vocoder, VocosSettings

NAME = "vocos"

CODES = 1024
"""Of each of EnCodec's codebooks, 10 bit at 75 steps a second."""

DEFAULT_BANDWIDTH = 6.0


class VocosCodec(nn.Module):
    """Codebooks and vocoder."""

    def __init__(self, settings: VocosSettings, *, books: int, codes: int, rate: int) -> None:
        """``books``: that are decoded. ``codes``: of each. ``rate``: samples a second."""
        super().__init__()
        self.books = books
        self.codes = codes
        self.rate = rate
        self.vectors = nn.Parameter(torch.zeros(books * codes, settings.channels))
        self.vocoder = Vocoder(settings)
        self.register_buffer("offsets", torch.arange(books)[:, None] * codes, persistent=False)

    offsets: Tensor

    def front(self, codes: Tensor) -> Tensor:
        """Codes, ``(batch, books, count)``, to the sum of their vectors, ``(batch, any, count)``."""
        return self.vectors[codes + self.offsets].sum(1).transpose(1, 2)

    def forward(self, codes: Tensor) -> Tensor:
        """Codes to ``(batch, 1, samples)``."""
        return cast("Tensor", self.vocoder(self.front(codes)))


def load(folder: Path, options: DecoderOptions) -> StreamRunner:
    """As :meth:`.decoder.DecoderModule.load`."""
    config = _read_yaml(folder)
    try:
        model = _described(config)
        weights = _renamed(read_weights(folder), model)
    except (KeyError, TypeError, ValueError) as error:
        raise unusable(f"the configuration in {folder} is none of Vocos: {error!r}") from None
    fill(model, weights, folder)
    return decoder_of(model.eval().requires_grad_(False).to(options.device), options)


def load_encoder(folder: Path, options: DecoderOptions) -> NoReturn:
    """There is none: EnCodec's is to be used, and its codes are the same.

    Raises:
        StageFailure: always, ``encoder_missing``.
    """
    what = "Vocos has no encoder, so that no voices can be made of recordings"
    raise StageFailure(StageError("encoder_missing", what))


def decoder_of(model: VocosCodec, options: DecoderOptions | None = None) -> StreamRunner:
    """The decoder of a model, which it shares."""
    body = Chain(model.vocoder.layers())
    card = exact_card(NAME, sample_rate=model.rate, sizes=(model.codes,) * model.books, body=body)

    def whole(codes: Codes) -> Samples:
        if not codes.shape[1]:
            return np.zeros(0, np.float32)
        ids = torch.as_tensor(codes.astype(np.int64))[None].to(model.vectors.device)
        return as_samples(model(ids)[0, 0])

    return StreamRunner(card, front=model.front, body=body, whole=whole, options=options)


def _read_yaml(folder: Path) -> dict[str, Any]:
    """The ``config.yaml`` of a folder."""
    path = folder / "config.yaml"
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        what = f"expected a configuration of Vocos in {path}: {type(error).__name__}"
        raise unusable(what) from None
    if not isinstance(config, dict):
        raise unusable(f"expected a mapping in {path}, got {type(config).__name__}")
    return cast("dict[str, Any]", config)


def _described(config: Mapping[str, Any]) -> VocosCodec:
    """An empty model of what a configuration says."""
    features = _part(config, "feature_extractor", "EncodecFeatures")
    backbone = _part(config, "backbone", "VocosBackbone")
    head = _part(config, "head", "ISTFTHead")
    bandwidths = [float(each) for each in features["bandwidths"]]
    bandwidth = float(config.get("bandwidth", DEFAULT_BANDWIDTH))
    if bandwidth not in bandwidths:
        raise ValueError(f"expected a bandwidth out of {bandwidths}, got {bandwidth}")
    settings = VocosSettings(
        channels=int(backbone["input_channels"]),
        width=int(backbone["dim"]),
        inner=int(backbone["intermediate_dim"]),
        blocks=int(backbone["num_layers"]),
        conditions=int(backbone.get("adanorm_num_embeddings") or 0),
        size=int(head["n_fft"]),
        hop=int(head["hop_length"]),
        padding="center" if head.get("padding") == "center" else "same",
    )
    rate = int(config.get("sample_rate", 24_000))
    books = int(bandwidth * 1000 * settings.hop / rate / np.log2(CODES))
    model = VocosCodec(settings, books=books, codes=CODES, rate=rate)
    model.vocoder.choose(bandwidths.index(bandwidth))
    return model


def _part(config: Mapping[str, Any], name: str, kind: str) -> Mapping[str, Any]:
    """The settings of a part, which has to be of a kind."""
    part = config[name]
    got = str(part["class_path"]).rpartition(".")[2]
    if got != kind:
        raise ValueError(f"expected {kind} as {name}, got {got}")
    return cast("Mapping[str, Any]", part["init_args"])


def _renamed(weights: Mapping[str, Tensor], model: VocosCodec) -> dict[str, Tensor]:
    """Published weights in the names of :class:`VocosCodec`; those of an encoder left out."""
    found = {
        f"vocoder.{name}": tensor
        for name, tensor in weights.items()
        if name.startswith(("backbone.", "head.out."))
    }
    vectors = weights["feature_extractor.codebook_weights"]
    found["vectors"] = vectors[: model.books * model.codes]
    return found
