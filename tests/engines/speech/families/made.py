"""Vocabularies of the families: their names, at ids of ours but where a test needs the real ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from tests.support.vocabularies import Letters, compact

from antiphon.engines.speech.decoders.decoder import Codes
from antiphon.engines.speech.tokens.layout import Layout
from antiphon.engines.speech.tokens.splitter import Splitter

LLAMA = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
NEUTTS = (
    "<|TEXT_PROMPT_START|>",
    "<|TEXT_PROMPT_END|>",
    "<|SPEECH_GENERATION_START|>",
    "<|SPEECH_GENERATION_END|>",
)
LLASA = (
    *LLAMA,
    "<|TEXT_UNDERSTANDING_START|>",
    "<|TEXT_UNDERSTANDING_END|>",
    "<|SPEECH_GENERATION_START|>",
    "<|SPEECH_GENERATION_END|>",
)
OUTETTS = (
    *("<|im_start|>", "<|im_end|>", "<|text_start|>", "<|text_end|>"),
    *("<|audio_start|>", "<|audio_end|>", "<|word_start|>", "<|word_end|>"),
    *("<|features|>", "<|code|>"),
)


def numbers(name: str, count: int) -> list[str]:
    return [name.format(n) for n in range(count)]


def orpheus(size: int = 64) -> Letters:
    """With a few tokens more than codes, as the real one has."""
    return compact(LLAMA, numbers("<custom_token_{}>", 10 + 7 * size + 2))


def real_orpheus() -> Letters:
    names = {"<|begin_of_text|>": 128000, "<|eot_id|>": 128009}
    names |= {f"<custom_token_{n}>": 128256 + n for n in range(28_684)}
    return Letters(names)


def neutts(size: int = 64) -> Letters:
    return compact(NEUTTS, numbers("<|speech_{}|>", size))


def llasa(size: int = 64) -> Letters:
    return compact(LLASA, numbers("<|s_{}|>", size))


def outetts(size: int = 64) -> Letters:
    return compact(
        OUTETTS,
        numbers("<|c1_{}|>", size + 1),
        numbers("<|c2_{}|>", size + 1),
        (f"<|t_{n / 100:.2f}|>" for n in range(101)),
        numbers("<|energy_{}|>", 101),
        numbers("<|spectral_centroid_{}|>", 101),
        numbers("<|pitch_{}|>", 101),
    )


def kani() -> Letters:
    """The real numbers: what is behind 64,400 has no names."""
    return Letters({"<|startoftext|>": 1}, size=80_538, opening=(1,))


def soprano() -> Letters:
    return compact(("[STOP]", "[TEXT]", "[START]"))


def all_of(names: Iterable[str]) -> dict[str, Letters]:
    made = {
        "orpheus": orpheus,
        "neutts": neutts,
        "llasa": llasa,
        "outetts": outetts,
        "kani": kani,
        "soprano": soprano,
    }
    return {name: made[name]() for name in names}


def tokens_of(layout: Layout, codes: Codes) -> list[int]:
    """Whole frames as a model says them."""
    return [
        block.base + int(codes[slot.codebook, frame + slot.first])
        for frame in range(0, codes.shape[1], layout.steps)
        for slot, block in zip(layout.slots, layout.blocks, strict=True)
    ]


def split(layout: Layout, tokens: Iterable[int]) -> Codes:
    """What is read of some tokens, joined."""
    splitter = Splitter(layout)
    stretches = [stretch.codes for token in tokens for stretch in splitter.feed([token])]
    splitter.end()
    return np.concatenate([np.empty((layout.codebooks, 0), np.int32), *stretches], axis=1)
