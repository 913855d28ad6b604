"""Tiny models of codecs that stream exactly, with loud random weights: Mimi, EnCodec, NanoCodec,
Vocos and Soprano. Those of other codecs are in :mod:`tests.support.decoders`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from antiphon.engines.speech.decoders import encodec, mimi, nanocodec, vocos
from antiphon.engines.speech.decoders.nanocodec import NanoCodec, NanoSettings
from antiphon.engines.speech.decoders.soprano import SopranoRunner
from antiphon.engines.speech.decoders.vocos import VocosCodec
from antiphon.engines.speech.decoders.vocos_model import Vocoder, VocosSettings
from antiphon.engines.speech.streaming.runner import StreamRunner

from .decoders import loud

NAMES = ("mimi", "encodec", "nanocodec", "vocos", "soprano")


@cache
def tiny_decoder(name: str, dtype: torch.dtype = torch.float64) -> StreamRunner:
    """A decoder out of :data:`NAMES`; the same one each time."""
    if name == "mimi":
        return mimi.decoder_of(tiny_mimi(dtype=dtype))
    if name == "encodec":
        return encodec.decoder_of(tiny_encodec(dtype=dtype))
    if name == "nanocodec":
        return nanocodec.decoder_of(tiny_nanocodec(dtype=dtype))
    if name == "vocos":
        return vocos.decoder_of(tiny_vocos(dtype=dtype))
    return SopranoRunner(tiny_qwen(dtype=dtype), tiny_vocoder(dtype=dtype))


def tiny_mimi(*, dtype: torch.dtype = torch.float64, **changed: Any) -> Any:
    """A ``MimiModel`` whose attention sees 24 positions, of which a step has two."""
    import transformers

    settings: dict[str, Any] = {
        "hidden_size": 16,
        "num_filters": 4,
        "upsampling_ratios": [6, 4, 2],
        "num_quantizers": 4,
        "codebook_size": 64,
        "codebook_dim": 8,
        "vector_quantization_hidden_dimension": 8,
        "upsample_groups": 16,
        "num_hidden_layers": 2,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "sliding_window": 24,
    }
    model = loud(transformers.MimiModel(transformers.MimiConfig(**settings | changed)))
    for part in model.modules():
        if hasattr(part, "embed_sum"):
            part.embed_sum.normal_()
        elif type(part).__name__ == "MimiLayerScale":
            part.scale.data.uniform_(0.5, 1.0)
    return model.to(dtype)


def tiny_encodec(*, dtype: torch.dtype = torch.float64, **changed: Any) -> Any:
    """An ``EncodecModel`` with the rates of the 24 kHz one."""
    import transformers

    settings: dict[str, Any] = {
        "hidden_size": 16,
        "num_filters": 2,
        "codebook_size": 64,
        "target_bandwidths": [0.9, 1.8],
    }
    torch.manual_seed(0)
    model: Any = transformers.EncodecModel(transformers.EncodecConfig(**settings | changed))
    for part in model.modules():
        buffers = dict(part.named_buffers(recurse=False))
        if isinstance(part, nn.Conv1d | nn.ConvTranspose1d) and is_parametrized(part, "weight"):
            turned = isinstance(part, nn.ConvTranspose1d)
            taps = part.kernel_size[0] / (part.stride[0] if turned else 1)
            # Set as a whole: its size and its direction are kept apart.
            part.weight = torch.randn_like(part.weight) * (0.5 / (part.in_channels * taps)) ** 0.5
        elif "embed_avg" in buffers:
            buffers["embed"].normal_()
    return model.eval().requires_grad_(False).to(dtype)


def tiny_nanocodec(*, dtype: torch.dtype = torch.float64) -> NanoCodec:
    """A :class:`NanoCodec` with fewer stages and chains than the published one, narrow."""
    model = NanoCodec(NanoSettings(channels=32, rates=(7, 6, 2), kernels=(3, 7)))
    loud(model)
    for name, parameter in model.named_parameters():
        if name.endswith("alpha"):
            parameter.uniform_(0.3, 3.0)
    model.leave.weight.normal_(0.0, 0.2)
    return model.to(dtype)


def tiny_vocos(*, dtype: torch.dtype = torch.float64) -> VocosCodec:
    """A :class:`VocosCodec` of three codebooks."""
    settings = VocosSettings(
        channels=8, width=16, inner=32, blocks=2, conditions=4, size=64, hop=16, padding="same"
    )
    model = VocosCodec(settings, books=3, codes=64, rate=24_000)
    loud(model)
    model.vectors.normal_()
    model.vocoder.choose(2)
    return model.to(dtype)


def tiny_qwen(*, dtype: torch.dtype = torch.float64) -> Any:
    """A ``Qwen3Model`` whose two heads share their keys."""
    import transformers

    config = transformers.Qwen3Config(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=96,
    )
    model = loud(transformers.Qwen3Model(config)).to(dtype)
    _widen_norms(model)
    return model


def _widen_norms(module: Any) -> None:
    """Norms that compute in the model's precision: Qwen's own round to single precision, and
    what is all but equal comes out as different as that."""
    for name, part in list(module.named_children()):
        if type(part).__name__ == "Qwen3RMSNorm":
            norm = nn.RMSNorm(part.weight.shape, eps=part.variance_epsilon)
            norm.weight = part.weight
            setattr(module, name, norm)
        else:
            _widen_norms(part)


def tiny_vocoder(*, dtype: torch.dtype = torch.float64) -> Vocoder:
    """The vocoder of Soprano, with its eight blocks, narrow."""
    settings = VocosSettings(
        channels=16,
        width=16,
        inner=32,
        blocks=8,
        enter_kernel=1,
        kernel=3,
        size=64,
        hop=16,
        padding="center",
        silent=True,
    )
    vocoder: Vocoder = loud(Vocoder(settings)).to(dtype)
    return vocoder
