"""Tiny codecs with loud random weights, and what every exact decoder has to do."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from antiphon.engines.chunks import Samples
from antiphon.engines.speech.decoders.decoder import Codes, Decoder
from antiphon.engines.speech.streaming.layer import UNKNOWN, Extent, Rate, StreamLayer

# Tensors this small are faster without threads, which wait for each other.
torch.set_num_threads(1)

Cut = TypeVar("Cut", Codes, torch.Tensor)

FLOAT64 = 1e-12
"""By how much a decoder in float64 may differ from a whole decode."""

FLOAT32 = 1e-6
"""The same in float32."""


def loud(module: nn.Module, *, seed: int = 0) -> Any:
    """Give ``module`` weights whose sound is loud and changes with every code.

    As modules are made, many codecs are all but silent, and a test of differences blind.
    """
    torch.manual_seed(seed)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.Conv1d | nn.ConvTranspose1d | nn.Linear):
                weight = torch.randn(part.weight.shape) * _gain(part)
                if is_parametrized(part, "weight"):
                    part.weight = weight
                else:
                    part.weight.copy_(weight)
                if part.bias is not None:
                    part.bias.normal_(0.0, 0.1)
            elif isinstance(part, nn.Embedding):
                part.weight.normal_()
            for name, parameter in part.named_parameters(recurse=False):
                if name == "alpha":
                    parameter.uniform_(0.5, 1.5)
    return module.eval().requires_grad_(False)


def _gain(part: nn.Conv1d | nn.ConvTranspose1d | nn.Linear) -> float:
    """So large that a codec is loud, so small that float32 is enough to compare."""
    if isinstance(part, nn.ConvTranspose1d):
        taps = part.kernel_size[0] / part.stride[0]
        return 0.7 / math.sqrt(part.in_channels / part.groups * taps)
    return 0.45 / math.sqrt(part.weight[0].numel())


def tiny_snac(*, noise: bool = True, dtype: torch.dtype = torch.float64, **changed: Any) -> Any:
    """A model of the package ``snac`` with the rates of the 24 kHz one, narrow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import snac
    config = dict(SNAC_CONFIG, noise=noise) | changed
    return loud(snac.SNAC(**config)).to(dtype)


SNAC_CONFIG: dict[str, Any] = {
    "sampling_rate": 24_000,
    "encoder_dim": 4,
    "encoder_rates": [2, 4, 8, 8],
    "decoder_dim": 32,
    "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None,
    "codebook_size": 64,
    "vq_strides": [4, 2, 1],
}
"""Of :func:`tiny_snac`."""

DAC_RATES = {"24k": (8, 5, 4, 2), "44k": (8, 8, 4, 2), "higgs": (8, 5, 4, 2, 3)}
"""How much each block of a decoder makes longer."""


def tiny_dac(kind: str = "24k", *, dtype: torch.dtype = torch.float64) -> Any:
    """A ``DacModel`` with the rates of one of :data:`DAC_RATES`, narrow."""
    import transformers

    rates = DAC_RATES[kind]
    config = transformers.DacConfig(
        encoder_hidden_size=2,
        downsampling_ratios=rates[::-1],
        decoder_hidden_size=32,
        n_codebooks=2,
        codebook_size=64,
        sampling_rate=44_100 if kind == "44k" else 24_000,
    )
    model: Any = transformers.DacModel(config)
    if kind == "higgs":
        for block in model.decoder.block:
            block.conv_t1.output_padding = (block.conv_t1.stride[0] % 2,)
    return loud(model).to(dtype)


def random_codes(decoder: Decoder, steps: int, *, seed: int = 0, frame: int = 1) -> Codes:
    """Codes of ``steps`` steps. ``frame``: steps of a code of the slowest codebook of SNAC,
    each following one being twice as fast."""
    rng = np.random.default_rng(seed)
    rows: list[np.ndarray[Any, np.dtype[np.int32]]] = []
    for size in decoder.card.sizes:
        codes = rng.integers(0, size, -(-steps // frame)).astype(np.int32)
        rows.append(np.repeat(codes, frame)[:steps])
        frame = max(1, frame // 2)
    return np.stack(rows)


def chunks_of(codes: Cut, sizes: Iterable[int]) -> list[Cut]:
    """Cut ``codes`` up along their steps: by the sizes in turn, the last of them as often as
    needed."""
    chunks: list[Cut] = []
    at = 0
    size = 1
    turn = iter(sizes)
    while at < codes.shape[1]:
        size = next(turn, size)
        chunks.append(codes[:, at : at + size])
        at += size
    return chunks


def streamed(
    decoder: Decoder, codes: Codes, sizes: Iterable[int], *, seed: int = 0
) -> list[Samples]:
    """Push ``codes`` through by ``sizes``; the samples of each push."""
    state = decoder.open(seed)
    chunks = chunks_of(codes, sizes)
    return [
        decoder.push([state], [chunk], [at == len(chunks) - 1])[0]
        for at, chunk in enumerate(chunks)
    ]


def difference(these: Samples, those: Samples) -> float:
    """The largest between two sounds of one length."""
    assert these.shape == those.shape, f"{these.shape} samples against {those.shape}"
    return float(np.abs(these - those).max(initial=0.0))


def assert_streams(
    decoder: Decoder, codes: Codes, sizes: Sequence[int], *, within: float = FLOAT64
) -> None:
    """Pushed by ``sizes``, ``codes`` give what a whole decode gives, and as soon as the card says.

    Also that the sound is loud enough for that to mean something.
    """
    whole = decoder.decode(codes)
    pieces = streamed(decoder, codes, sizes)
    card = decoder.card
    assert whole.shape[0] == codes.shape[1] * card.hop - card.short
    assert float(np.std(whole)) > 0.01, "too quiet to be a test"
    assert difference(np.concatenate(pieces), whole) < within
    pushed = given = 0
    for chunk, piece in zip(chunks_of(codes, sizes)[:-1], pieces, strict=False):
        pushed += chunk.shape[1] * card.hop
        given += piece.shape[0]
        assert given == max(0, pushed - card.lookahead)


def fed(layer: StreamLayer, values: torch.Tensor, sizes: Iterable[int]) -> torch.Tensor:
    """Feed a layer ``values``, ``(1, channels, count)``, by ``sizes``; what of its output a whole
    decode has. What is fed after the end is loud, and so is what went through ahead of it."""
    after = layer.join(Rate())
    count = values.shape[-1]
    flush = max(0, -(-(after.delay - after.short) // after.per_step))
    padded = torch.cat((values, torch.full_like(values[..., :1], 9.0).expand(-1, -1, flush)), -1)
    with torch.inference_mode():
        state = layer.new_state(1, values)
        made: list[torch.Tensor] = []
        at = 0
        for stretch in [*chunks_of(values[0], sizes), padded[0, :, count:]]:
            known = count if at >= count else UNKNOWN
            first, length, seed = torch.tensor([[at], [known], [0]])
            if stretch.shape[1]:
                made.append(layer.feed(stretch[None], state, Extent(first, length, seed)))
            at += stretch.shape[1]
    end = after.delay + count * after.per_step - after.short
    return torch.cat(made, -1)[..., after.delay : end]
