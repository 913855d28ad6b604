# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportArgumentType=false
"""Codecs of full size with random weights: what a decode costs does not depend on them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from antiphon.engines.speech.decoders import dac, mimi, nanocodec, snac
from antiphon.engines.speech.decoders.decoder import Codes, DecoderOptions
from antiphon.engines.speech.streaming.runner import StreamRunner


@dataclass(frozen=True, slots=True)
class Codec:
    """One codec."""

    name: str
    make: Callable[[], Any]
    """The original's model."""

    decoder_of: Callable[[Any, DecoderOptions], StreamRunner]
    frame: int = 1
    """Steps of a frame of the language model."""

    window: tuple[int, int, int] | None = None
    """Frames before, given and after, of each decode by others who decode windows anew."""

    def decoder(self, options: DecoderOptions) -> StreamRunner:
        """Ours, on the device and of the dtype that are asked for."""
        torch.manual_seed(0)
        model = self.make().eval().requires_grad_(False)
        model = model.to(options.device, getattr(torch, options.dtype))
        return self.decoder_of(model, options)

    def codes(self, decoder: StreamRunner, frames: int, seed: int = 0) -> Codes:
        """Random ones; those of slow codebooks are repeated."""
        random = np.random.default_rng(seed)
        rows: list[Codes] = []
        repeated = self.frame
        for size in decoder.card.sizes:
            codes = random.integers(0, size, frames * self.frame // repeated).astype(np.int32)
            rows.append(np.repeat(codes, repeated))
            repeated = max(1, repeated // 2)
        return np.stack(rows)


def _snac() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import snac as package
    return package.SNAC(
        sampling_rate=24_000,
        # The encoder is not used, and small.
        encoder_dim=4,
        encoder_rates=[2, 4, 8, 8],
        latent_dim=768,
        decoder_dim=1024,
        decoder_rates=[8, 8, 4, 2],
        attn_window_size=None,
        codebook_size=4096,
        codebook_dim=8,
        vq_strides=[4, 2, 1],
    )


def _dac() -> Any:
    import transformers

    settings: dict[str, Any] = {
        "encoder_hidden_size": 64,
        "downsampling_ratios": [2, 4, 5, 8],
        "decoder_hidden_size": 1536,
        "n_codebooks": 2,
        "codebook_size": 1024,
        "codebook_dim": 8,
        "sampling_rate": 24_000,
    }
    return transformers.DacModel(transformers.DacConfig(**settings))


def _mimi() -> Any:
    import transformers

    return transformers.MimiModel(transformers.MimiConfig(num_quantizers=8))


def _nanocodec() -> Any:
    return nanocodec.NanoCodec(nanocodec.NanoSettings())


CODECS = (
    # Four frames, of which the second is given.
    Codec("snac-24k", _snac, snac.decoder_of, frame=4, window=(1, 1, 2)),
    # The least that is exact, for eight frames at a time.
    Codec("dac-24k", _dac, dac.decoder_of, window=(10, 8, 10)),
    Codec("nanocodec", _nanocodec, nanocodec.decoder_of, window=(15, 1, 0)),
    Codec("mimi", _mimi, mimi.decoder_of),
)
