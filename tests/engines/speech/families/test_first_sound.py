"""What the families promise of their codecs, against the decoders themselves, made small."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.support.decoders import tiny_dac, tiny_snac

from antiphon.engines.speech.decoders import dac, nanocodec, snac
from antiphon.engines.speech.decoders.decoder import Decoder, DecoderCard
from antiphon.engines.speech.decoders.semantic import SCHEDULE
from antiphon.engines.speech.decoders.windowed import WindowedDecoder
from antiphon.engines.speech.families.binding import bind
from antiphon.engines.speech.families.family import family
from antiphon.engines.speech.tokens.splitter import Splitter

from . import made


def _nanocodec() -> Decoder:
    settings = nanocodec.NanoSettings(channels=32)
    return nanocodec.decoder_of(nanocodec.NanoCodec(settings).eval().float())


def _soprano() -> Decoder:
    import transformers

    from antiphon.engines.speech.decoders.soprano import SopranoRunner
    from antiphon.engines.speech.decoders.vocos_model import Vocoder, VocosSettings

    vocabulary = made.soprano()
    config = transformers.Qwen3Config(
        vocab_size=vocabulary.size,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=64,
    )
    shape = VocosSettings(
        channels=16,
        width=16,
        inner=16,
        blocks=8,
        enter_kernel=1,
        kernel=3,
        size=2048,
        hop=512,
        padding="center",
        silent=True,
    )
    return SopranoRunner(transformers.Qwen3Model(config).eval(), Vocoder(shape).eval())


def _windowed(name: str, rate: int) -> Decoder:
    """Windows as they are cut for both, of silence."""
    hop = rate // 50
    card = DecoderCard(name=name, sample_rate=rate, hop=hop, sizes=(64,), mode="windowed")

    def decode(codes: torch.Tensor) -> torch.Tensor:
        return torch.zeros(codes.shape[0], codes.shape[2] * hop)

    return WindowedDecoder(card, SCHEDULE, decode, torch.device("cpu"))


DECODERS: dict[str, Callable[[], Decoder]] = {
    "orpheus": lambda: snac.decoder_of(tiny_snac(dtype=torch.float32)),
    "neutts": lambda: _windowed("neucodec", 24_000),
    "llasa": lambda: _windowed("xcodec2", 16_000),
    "outetts": lambda: dac.decoder_of(tiny_dac(dtype=torch.float32)),
    "kani": _nanocodec,
    "soprano": _soprano,
}


@pytest.mark.parametrize("name", DECODERS)
def test_the_first_sound_comes_after_as_many_tokens_as_is_said(name: str) -> None:
    torch.set_num_threads(1)
    known, decoder = family(name), DECODERS[name]()
    layout = bind(known, made.all_of([name])[name]).layout
    assert (decoder.card.name, decoder.card.mode) == (known.codec, known.mode)
    assert layout.codebooks == len(decoder.card.sizes)
    tokens = made.tokens_of(layout, np.zeros((layout.codebooks, 10 * layout.steps), np.int32))
    splitter, state, first = Splitter(layout), decoder.open(), 0
    for count, token in enumerate(tokens * 4, 1):
        pushed = [
            decoder.push([state], [stretch.codes], [False])[0].size
            for stretch in splitter.feed([token])
        ]
        if any(pushed):
            first = count
            break
    assert first == known.first_audio_tokens
    rate = 1000 / decoder.card.step_ms * len(layout.slots) / layout.steps
    assert rate <= known.tokens_per_second < rate * (1.35 if known.markup else 1.01)
