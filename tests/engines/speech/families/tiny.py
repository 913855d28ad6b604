"""Tiny models of all families that stock vLLM loads, and tiny codecs for what they say.

Of one architecture one model speaks for several families: what it says next depends on the last
token alone, and the ends of their prompts differ.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tests.support.decoders import loud, tiny_dac, tiny_snac
from tests.support.semantic import write_semantic
from tests.support.token_models import Chain, TinyModel, frames, write_model, write_tokenizer

from antiphon.engines.speech.decoders import dac, nanocodec, neucodec, snac, soprano, xcodec2
from antiphon.engines.speech.decoders.decoder import Decoder, DecoderOptions
from antiphon.engines.speech.families.family import PromptRequest, Reference, family
from antiphon.engines.speech.tokens.layout import TokenBlock
from antiphon.engines.speech.tokens.vocabulary import load_vocabulary

from . import made

SIZE = 64
"""Codes of a codebook, but for Orpheus, which has its real ids."""

FIRST = 300
"""First id of a name; below are bytes."""

SPOKEN = 12
"""Tokens that Soprano speaks with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One family, as a tiny model says it."""

    decoder: Decoder
    asked: PromptRequest
    within: float
    """By how much the sound may differ from that of a whole decode."""


def ids(names: Iterable[str], first: int) -> dict[int, str]:
    return dict(enumerate(dict.fromkeys(names), first))


def llama(folder: Path) -> None:
    """Orpheus with its real ids, and what NeuTTS and Llasa have behind them."""
    names = {128000: "<|begin_of_text|>", 128009: "<|eot_id|>"}
    names |= {128256 + n: f"<custom_token_{n}>" for n in range(28_684)}
    more = [*made.NEUTTS, *made.LLASA, *made.numbers("<|speech_{}|>", SIZE)]
    more += made.numbers("<|s_{}|>", SIZE)
    names |= ids([name for name in more if name not in LLAMA_MARKS], 156_940)
    at = {name: number for number, name in names.items()}
    slots = {f"slot{n}": range(128266 + 4096 * n, 132362 + 4096 * n) for n in range(7)}
    classes: dict[str, range | list[int]] = {"start": [128257], **slots, "stop": [128258]}
    classes["begin"] = [at["<|SPEECH_GENERATION_START|>"]]
    classes["end"] = [at["<|SPEECH_GENERATION_END|>"]]
    classes["speech"] = range(at["<|speech_0|>"], at["<|speech_0|>"] + SIZE)
    classes["s"] = range(at["<|s_0|>"], at["<|s_0|>"] + SIZE)
    follow = {f"slot{n}": {f"slot{n + 1}": 1.0} for n in range(6)}
    follow |= {"start": {"slot0": 1.0}, "slot6": {"slot0": 0.7, "stop": 0.3}}
    follow |= {"begin": {"s": 1.0}, **{name: {name: 0.97, "end": 0.03} for name in ("s", "speech")}}
    # Names in texts would be slow, of so many; no prompt has any.
    write_model(
        folder,
        TinyModel(
            chain=Chain(classes=classes, follow=follow),
            size=max(names) + 1,
            names=names,
            added=False,
        ),
    )


LLAMA_MARKS = ("<|begin_of_text|>", "<|eot_id|>")


def qwen3(folder: Path) -> None:
    """OuteTTS and Soprano."""
    numbered = [made.numbers(f"<|{name}_{{}}|>", SIZE + 1) for name in ("c1", "c2")]
    numbered.append([f"<|t_{n / 100:.2f}|>" for n in range(101)])
    measures = ("energy", "spectral_centroid", "pitch")
    numbered += [made.numbers(f"<|{name}_{{}}|>", 101) for name in measures]
    marks = [*made.OUTETTS, "[STOP]", "[TEXT]", "[START]"]
    names = ids([*marks, *(name for group in numbered for name in group)], FIRST)
    size = max(names) + 1 + SPOKEN
    write_tokenizer(folder, size, names)
    encode, at = load_vocabulary(folder).encode, {name: n for n, name in names.items()}
    classes: dict[str, list[int]] = {mark: [at[mark]] for mark in made.OUTETTS[5:]}
    classes |= {
        name: [at[one] for one in group[:SIZE]]
        for name, group in zip(("c1", "c2", "t", *measures), numbered, strict=True)
    }
    classes |= {"newline": encode("\n"), "letters": encode("abcdefgh")}
    classes |= {"[START]": [at["[START]"]], "[STOP]": [at["[STOP]"]]}
    classes["spoken"] = list(range(size - SPOKEN, size))
    line = ["<|features|>", "t", *measures, "<|code|>", "c1", "c2"]
    follow: dict[str, Mapping[str, float]] = {
        one: {other: 1.0} for one, other in zip(line, line[1:], strict=False)
    }
    follow |= {
        "newline": {"<|word_start|>": 0.7, "<|audio_end|>": 0.3},
        "<|word_start|>": {"letters": 1.0},
        "letters": {"letters": 0.6, "<|features|>": 0.4},
        "c2": {"c1": 0.8, "<|word_end|>": 0.2},
        "<|word_end|>": {"newline": 1.0},
        "[START]": {"spoken": 1.0},
        "spoken": {"spoken": 0.2, "[STOP]": 0.8},
    }
    chain = Chain(classes=classes, follow=follow, temperature=0.4)
    model = TinyModel(
        chain=chain, size=size, names=names, architecture="Qwen3ForCausalLM", context=512
    )
    write_model(folder, model)


def lfm2(folder: Path) -> None:
    """Kani, by names."""
    marks = [mark.name for mark in family("kani").marks.values()]
    audio = [f"<|audio_{book}_{code}|>" for book in range(4) for code in range(SIZE)]
    names = ids([*marks, *audio], FIRST)
    at = {name: number for number, name in names.items()}
    blocks = [TokenBlock(at[f"<|audio_{book}_0|>"], SIZE) for book in range(4)]
    lead = [at["<|start_of_ai|>"], at["<|start_of_speech|>"]]
    chain = frames(blocks, at["<|end_of_speech|>"], mean=8, lead=lead, temperature=0.6)
    write_model(
        folder,
        TinyModel(chain=chain, size=max(names) + 1, names=names, architecture="Lfm2ForCausalLM"),
    )


def codecs(families: Iterable[str], folder: Path) -> dict[str, Spoken]:
    """What the families are asked, and who makes sound of the answers.

    ``folder``: of the language model; further ones may be made beside it.
    """
    return {name: _SPOKEN[name](folder) for name in families}


def _orpheus(folder: Path) -> Spoken:
    decoder = snac.decoder_of(tiny_snac(codebook_size=4096, dtype=torch.float32))
    return Spoken(decoder=decoder, asked=PromptRequest(text="Hi.", voice="leo"), within=1e-5)


def _outetts(folder: Path) -> Spoken:
    asked = PromptRequest(text="Hello there.")
    return Spoken(decoder=dac.decoder_of(tiny_dac(dtype=torch.float32)), asked=asked, within=1e-5)


def _kani(folder: Path) -> Spoken:
    settings = nanocodec.NanoSettings(levels=(4, 4, 4), channels=32)
    model = loud(nanocodec.NanoCodec(settings)).float()
    decoder = nanocodec.decoder_of(model)
    return Spoken(decoder=decoder, asked=PromptRequest(text="Hi."), within=1e-5)


def _soprano(folder: Path) -> Spoken:
    """From the language model's own folder, as its authors publish it."""
    from antiphon.engines.speech.decoders.vocos_model import Vocoder, VocosSettings

    shape = VocosSettings(
        channels=64,
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
    weights = loud(Vocoder(shape)).state_dict()
    names = {name: name.replace("backbone.", "decoder.") for name in weights}
    torch.save({names[name]: value for name, value in weights.items()}, folder / "decoder.pth")
    decoder = soprano.load(folder, DecoderOptions())
    return Spoken(decoder=decoder, asked=PromptRequest(text="hello."), within=1e-4)


def _neutts(folder: Path) -> Spoken:
    return _semantic("neucodec", folder.parent)


def _llasa(folder: Path) -> Spoken:
    return _semantic("xcodec2", folder.parent)


def _semantic(kind: str, folder: Path) -> Spoken:
    write_semantic(kind, folder / kind)
    module = neucodec if kind == "neucodec" else xcodec2
    codes = np.arange(20, dtype=np.int32)[None]
    reference = Reference(text="Yes.", codes=codes) if kind == "neucodec" else None
    decoder = module.load(folder / kind, DecoderOptions())
    asked = PromptRequest(text="Hello.", reference=reference)
    return Spoken(decoder=decoder, asked=asked, within=1e-5)


_SPOKEN = {
    "orpheus": _orpheus,
    "neutts": _neutts,
    "llasa": _llasa,
    "outetts": _outetts,
    "kani": _kani,
    "soprano": _soprano,
}
