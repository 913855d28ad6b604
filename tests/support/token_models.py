# pyright: reportUnknownMemberType=false
"""Tiny codec language models with a grammar, made of random weights in well under a second.

Each is a chain of *classes* of tokens: what it says next depends on the class of the last
token alone, and on a little noise of that token. Which class follows which, and how often, is
a table; within a class all tokens are about as likely. Stock vLLM loads them as what they say
they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from antiphon.engines.speech.tokens.layout import TokenBlock

Weights = dict[str, NDArray[np.float32]]

OTHER = "other"
"""The class of all tokens that are in no class."""

RIGHT, WRONG = 20.0, -20.0
"""Logits: of a class that follows surely and has one token, and of one that never follows."""

NOISE = 0.7
"""Variance of the logits within a class."""

HEAD = 64
"""Size of an attention head."""

FACTOR = 10.0
"""Of a gate that is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Which tokens follow which."""

    classes: Mapping[str, Sequence[int]]
    """Ids by the name of their class."""

    follow: Mapping[str, Mapping[str, float]]
    """How likely each class is after each, in sum 1; :data:`OTHER` is a class as well."""

    temperature: float = 1.0
    """At which it is so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """A model to be written to a folder."""

    chain: Chain
    size: int
    """Of the vocabulary."""

    names: Mapping[int, str] = field(default_factory=dict[int, str])
    """Texts of tokens by id; the others are bytes, then fillers."""

    architecture: str = "LlamaForCausalLM"
    hidden: int = 64
    layers: int = 2
    context: int = 2048
    seed: int = 0
    eos: int | None = None
    added: bool = True
    """Whether all names are texts that are always one token; slow above some thousand."""


def frames(
    blocks: Sequence[TokenBlock],
    stop: int,
    *,
    mean: float = 20.0,
    lead: Sequence[int] = (),
    temperature: float = 1.0,
) -> Chain:
    """A chain that says frames, ``mean`` of them, and then stops.

    ``lead``: tokens that it says ahead of the first, in this order.
    """
    leads = [f"lead{n}" for n in range(len(lead))]
    slots = [f"slot{n}" for n in range(len(blocks))]
    classes: dict[str, Sequence[int]] = {"stop": [stop]}
    classes |= {name: [token] for name, token in zip(leads, lead, strict=True)}
    for name, block in zip(slots, blocks, strict=True):
        classes[name] = range(block.base, block.base + block.size)
    order = [OTHER, *leads, *slots]
    follow: dict[str, dict[str, float]] = {
        one: {other: 1.0} for one, other in zip(order, order[1:], strict=False)
    }
    follow[slots[-1]] = {slots[0]: 1 - 1 / mean, "stop": 1 / mean}
    follow["stop"] = {slots[0]: 1.0}
    return Chain(classes=classes, follow=follow, temperature=temperature)


def write_model(folder: Path, model: TinyModel) -> Path:
    """Write a model and its tokenizer in the Hugging Face layout; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_config(model)), encoding="utf-8")
    safetensors.save_file(_weights(model), folder / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(folder, model.size, model.names, added=model.added)
    return folder


def write_tokenizer(
    folder: Path, size: int, names: Mapping[int, str], *, added: bool = True
) -> None:
    """A tokenizer that reads bytes, and the named tokens at their ids."""
    symbols = iter(sorted(ByteLevel.alphabet()))
    vocab = {name: number for number, name in names.items()}
    for number in range(size):
        if number not in names:
            vocab[next(symbols, f"<filler {number}>")] = number
    tokenizer: Any = Tokenizer(BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    if added:
        tokenizer.add_special_tokens(
            [AddedToken(name, special=True, normalized=False) for name in names.values()]
        )
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 2048}
    (folder / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")


# The table of logits.


def _classes(model: TinyModel) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The class of each token, and the logit of a token of class ``[, j]`` after ``[i]``."""
    chain = model.chain
    names = [OTHER, *chain.classes]
    of = np.zeros(model.size, np.int64)
    for number, ids in enumerate(chain.classes.values(), 1):
        of[np.asarray(ids)] = number
    sizes = np.bincount(of, minlength=len(names))
    table = np.full((len(names), len(names)), WRONG, np.float32)
    for one, others in chain.follow.items():
        for other, share in others.items():
            number = names.index(other)
            value = chain.temperature * np.log(share / sizes[number])
            table[names.index(one), number] = RIGHT + value
    return of, table


# The weights.


def _config(model: TinyModel) -> dict[str, Any]:
    common: dict[str, Any] = {
        "architectures": [model.architecture],
        "vocab_size": model.size,
        "hidden_size": model.hidden,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.hidden // HEAD,
        "num_key_value_heads": 1,
        "head_dim": HEAD,
        "intermediate_size": model.hidden,
        "max_position_embeddings": model.context,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": model.eos,
    }
    match model.architecture:
        case "LlamaForCausalLM":
            return common | {"model_type": "llama"}
        case "Qwen2ForCausalLM":
            return common | {"model_type": "qwen2", "use_sliding_window": False}
        case "Qwen3ForCausalLM":
            return common | {"model_type": "qwen3", "attention_bias": False}
        case "Lfm2ForCausalLM":
            return common | _lfm2_config(model)
        case other:
            raise ValueError(other)


def _lfm2_config(model: TinyModel) -> dict[str, Any]:
    # vLLM wants all of these said.
    return {
        "model_type": "lfm2",
        "tie_word_embeddings": True,
        "norm_eps": 1e-6,
        "conv_L_cache": 3,
        "conv_bias": False,
        "conv_dim": model.hidden,
        "conv_dim_out": model.hidden,
        "conv_use_xavier_init": True,
        "block_dim": model.hidden,
        "block_ff_dim": model.hidden,
        "block_multiple_of": 1,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv"] + ["full_attention"] * (model.layers - 1),
    }


def _weights(model: TinyModel) -> Weights:
    rng = np.random.default_rng(model.seed)
    of, table = _classes(model)
    if 2 * len(table) > model.hidden:
        raise ValueError(f"expected at most {model.hidden // 2} classes, got {len(table)}")
    # Noise lies in the dimensions that stand for no class; the last one evens out lengths.
    noise = rng.standard_normal((model.size, model.hidden), np.float32)
    noise[:, : len(table)] = noise[:, -1] = 0
    noise *= np.sqrt(NOISE) / np.linalg.norm(noise, axis=1, keepdims=True)
    if model.architecture == "Lfm2ForCausalLM":
        return _tied(model, of, table, noise, rng)
    read = noise.copy()
    read[np.arange(model.size), of] = 1
    said = rng.standard_normal((model.size, model.hidden), np.float32)
    said[:, : len(table)] = table.T[of]
    norm = np.sqrt((1 + NOISE) / model.hidden)
    return {
        "model.embed_tokens.weight": read,
        "lm_head.weight": said,
        "model.norm.weight": np.full(model.hidden, norm, np.float32),
        **_layers(model, rng),
    }


def _layers(model: TinyModel, rng: np.random.Generator) -> Weights:
    """Layers that compute, and add nothing."""
    wide = model.hidden
    made: Weights = {}
    shapes = {"q": (wide, wide), "k": (HEAD, wide), "v": (HEAD, wide), "o": (wide, wide)}
    for number in range(model.layers):
        at = f"model.layers.{number}"
        for name in ("input_layernorm", "post_attention_layernorm"):
            made[f"{at}.{name}.weight"] = np.ones(wide, np.float32)
        for name, shape in shapes.items():
            made[f"{at}.self_attn.{name}_proj.weight"] = _random(rng, *shape)
            if model.architecture == "Qwen2ForCausalLM" and name != "o":
                made[f"{at}.self_attn.{name}_proj.bias"] = _random(rng, shape[0])
        for name in ("gate", "up", "down"):
            made[f"{at}.mlp.{name}_proj.weight"] = _random(rng, wide, wide)
        if model.architecture == "Qwen3ForCausalLM":
            for name in ("q_norm", "k_norm"):
                made[f"{at}.self_attn.{name}.weight"] = np.ones(HEAD, np.float32)
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            made[f"{at}.{name}.weight"] *= 0
    return made


def _tied(
    model: TinyModel,
    of: NDArray[np.int64],
    table: NDArray[np.float32],
    noise: NDArray[np.float32],
    rng: np.random.Generator,
) -> Weights:
    """One table reads and says, so that a layer has to turn a class into what follows it."""
    wide, count = model.hidden, len(table)
    read = 2 * noise
    read[np.arange(model.size), of] = 1
    made: Weights = {"model.embed_tokens.weight": read}
    made |= _lfm2_layers(model, rng)
    gate, up, down = (np.zeros((wide, wide), np.float32) for _ in range(3))
    gate[np.arange(count), np.arange(count)] = FACTOR
    up[np.arange(count), np.arange(count)] = 1
    # Every class gives a vector of the same length, so that the norm does the same to all.
    lengths = (table**2).sum(1)
    most = lengths.max() + 1
    given = np.zeros((count, wide), np.float32)
    given[:, :count] = table - np.eye(count)
    given[:, -1] = np.sqrt(most - lengths)
    down[:, :count] = given.T * (1 + np.exp(-FACTOR)) / FACTOR
    at = "model.layers.0"
    made |= {f"{at}.feed_forward.w{n}.weight": each for n, each in ((1, gate), (2, down), (3, up))}
    power = 4 * NOISE
    made[f"{at}.ffn_norm.weight"] = np.full(wide, np.sqrt((1 + power) / wide), np.float32)
    norm = np.sqrt((most + power) / wide)
    made["model.embedding_norm.weight"] = np.full(wide, norm, np.float32)
    return made


def _lfm2_layers(model: TinyModel, rng: np.random.Generator) -> Weights:
    wide = model.hidden
    made: Weights = {}
    for number in range(model.layers):
        at = f"model.layers.{number}"
        for name in ("operator_norm", "ffn_norm"):
            made[f"{at}.{name}.weight"] = np.ones(wide, np.float32)
        for name in ("w1", "w2", "w3"):
            made[f"{at}.feed_forward.{name}.weight"] = np.zeros((wide, wide), np.float32)
        if number == 0:
            made[f"{at}.conv.conv.weight"] = _random(rng, wide, 1, 3)
            made[f"{at}.conv.in_proj.weight"] = _random(rng, 3 * wide, wide)
            made[f"{at}.conv.out_proj.weight"] = np.zeros((wide, wide), np.float32)
            continue
        for name, rows in (("q", wide), ("k", HEAD), ("v", HEAD)):
            made[f"{at}.self_attn.{name}_proj.weight"] = _random(rng, rows, wide)
        for name in ("q_layernorm", "k_layernorm"):
            made[f"{at}.self_attn.{name}.weight"] = np.ones(HEAD, np.float32)
        made[f"{at}.self_attn.out_proj.weight"] = np.zeros((wide, wide), np.float32)
    return made


def _random(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[-1]))
