# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""The student: a small Llama whose tables know what they stand for.

Codes that sound alike begin with like rows, both where they are read and where they are said:
a row is a linear function of what its codebook has for it, and a part of its own that begins at
nothing. Pairs of sounds are sums over what they are made of. Written out, all of that is one
table for reading and one for saying, as any Llama has them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...engines.speech.decoders.joe_latents import LatentNet
from ...engines.speech.families.joe_units import sound_of

MARKS = 3
"""Begin, ask, stop: the first ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentShape:
    """How large the student is."""

    hidden: int = 256
    layers: int = 4
    heads: int = 4
    inner: int = 704
    theta: float = 10_000.0
    epsilon: float = 1e-5


class Layer(nn.Module):
    """One of a Llama."""

    def __init__(self, shape: StudentShape) -> None:
        super().__init__()
        self.heads, self.epsilon = shape.heads, shape.epsilon
        wide = shape.hidden
        self.attention_norm = nn.Parameter(torch.ones(wide))
        self.query_key_value = nn.Linear(wide, 3 * wide, bias=False)
        self.output = nn.Linear(wide, wide, bias=False)
        self.inner_norm = nn.Parameter(torch.ones(wide))
        self.gate_up = nn.Linear(wide, 2 * shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, wide, bias=False)
        for each in (self.query_key_value, self.gate_up):
            nn.init.normal_(each.weight, std=wide**-0.5)
        for each in (self.output, self.down):
            nn.init.normal_(each.weight, std=0.3 * wide**-0.5 / math.sqrt(2 * shape.layers))

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], past: list[Tensor] | None, mask: Tensor | None
    ) -> Tensor:
        """``x``: ``(batch, n, hidden)``. ``past``: keys and values so far, which grow."""
        batch, count, wide = x.shape
        normed = functional.rms_norm(x, (wide,), self.attention_norm, self.epsilon)
        split = self.query_key_value(normed).view(batch, count, 3, self.heads, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        query, key = _turned(query, turn), _turned(key, turn)
        if past is not None:
            if past:
                key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
            past[:] = [key, value]
        seen = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None and count > 1
        )
        x = x + self.output(seen.transpose(1, 2).reshape(batch, count, wide))
        normed = functional.rms_norm(x, (wide,), self.inner_norm, self.epsilon)
        gate, up = self.gate_up(normed).chunk(2, -1)
        grown: Tensor = x + self.down(functional.silu(gate) * up)
        return grown


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    cosine, sine = turn
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


class Student(nn.Module):
    """See the module. Reads ids; says codes of the first book or *ask*, and of the second."""

    features: Tensor
    pair_parts: Tensor

    def __init__(
        self, shape: StudentShape, net: LatentNet, pairs: Sequence[tuple[str, str]]
    ) -> None:
        """``pairs``: the units with what follows, in the order of their ids."""
        super().__init__()
        self.shape = shape
        self.pairs = tuple(pairs)
        self.codes = net.shape.codes
        units = sorted({unit for unit, _ in pairs})
        sounds = sorted({sound_of(unit) for unit in units} | {after for _, after in pairs})
        parts = [
            (
                units.index(unit),
                len(units) + sounds.index(sound_of(unit)),
                len(units) + len(sounds) + sounds.index(after),
            )
            for unit, after in pairs
        ]
        self.register_buffer("pair_parts", torch.tensor(parts), persistent=False)
        self.register_buffer("features", _features(net), persistent=False)
        wide, codes = shape.hidden, net.shape.books * self.codes
        self.mark_table = nn.Parameter(torch.randn(MARKS, wide) * 0.5)
        self.part_table = nn.Parameter(torch.randn(len(units) + 2 * len(sounds), wide) * 0.5)
        self.pair_table = nn.Parameter(torch.zeros(len(pairs), wide))
        size = self.features.shape[-1]
        self.read_map = nn.Parameter(torch.randn(2, size, wide) * size**-0.5)
        self.read_own = nn.Parameter(torch.randn(codes, wide) * 0.02)
        self.say_map = nn.Parameter(torch.randn(2, size, wide) * 0.06 / size**0.5)
        self.say_own = nn.Parameter(torch.zeros(codes, wide))
        self.ask_row = nn.Parameter(torch.randn(wide) * 0.02)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(wide))
        self.guess = nn.Linear(wide, net.shape.size)
        """Of what the frame stands for: only while it learns."""

    def reading(self) -> Tensor:
        """The table of all ids: ``(vocabulary, hidden)``."""
        coded = torch.einsum("bks,bsw->bkw", self.features.to(self.read_map.dtype), self.read_map)
        paired = self.part_table[self.pair_parts].sum(1) + self.pair_table
        return torch.cat([self.mark_table, coded.flatten(0, 1) + self.read_own, paired])

    def saying(self) -> Tensor:
        """The rows of all codes: ``(2, codes, hidden)``."""
        coded = torch.einsum("bks,bsw->bkw", self.features.to(self.say_map.dtype), self.say_map)
        return coded + self.say_own.view_as(coded)

    def forward(
        self, ids: Tensor, past: list[list[Tensor]] | None = None, table: Tensor | None = None
    ) -> Tensor:
        """``(batch, n)`` to ``(batch, n, hidden)``, normed. ``past`` grows, a list a layer."""
        x = functional.embedding(ids, self.reading() if table is None else table)
        begin = past[0][0].shape[2] if past and past[0] else 0
        turn = self._turn(begin, ids.shape[1], x)
        for number, layer in enumerate(self.layers):
            x = layer(x, turn, None if past is None else past[number], None)
        return functional.rms_norm(x, (x.shape[-1],), self.norm, self.shape.epsilon)

    def _turn(self, begin: int, count: int, like: Tensor) -> tuple[Tensor, Tensor]:
        half = self.shape.hidden // self.shape.heads // 2
        speed = self.shape.theta ** (-torch.arange(half, dtype=torch.float32) / half)
        angle = torch.arange(begin, begin + count, dtype=torch.float32)[:, None] * speed
        return angle.cos().to(like.dtype), angle.sin().to(like.dtype)

    def exported(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Weights and configuration, as Hugging Face's Llama has them."""
        shape, wide = self.shape, self.shape.hidden
        with torch.no_grad():
            read, say = self.reading().float(), self.saying().float()
            said = torch.zeros_like(read)
            said[1] = self.ask_row
            said[MARKS : MARKS + say.shape[0] * say.shape[1]] = say.flatten(0, 1)
            weights = {"model.embed_tokens.weight": read, "lm_head.weight": said}
            weights["model.norm.weight"] = self.norm.float()
            for number, layer in enumerate(self.layers):
                assert isinstance(layer, Layer)
                at = f"model.layers.{number}"
                parts = layer.query_key_value.weight.float().chunk(3)
                for name, part in zip("qkv", parts, strict=True):
                    weights[f"{at}.self_attn.{name}_proj.weight"] = part.contiguous()
                weights[f"{at}.self_attn.o_proj.weight"] = layer.output.weight.float()
                gate, up = layer.gate_up.weight.float().chunk(2)
                weights[f"{at}.mlp.gate_proj.weight"] = gate.contiguous()
                weights[f"{at}.mlp.up_proj.weight"] = up.contiguous()
                weights[f"{at}.mlp.down_proj.weight"] = layer.down.weight.float()
                weights[f"{at}.input_layernorm.weight"] = layer.attention_norm.float()
                weights[f"{at}.post_attention_layernorm.weight"] = layer.inner_norm.float()
        config: dict[str, Any] = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": len(read),
            "hidden_size": wide,
            "intermediate_size": shape.inner,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.heads,
            "head_dim": wide // shape.heads,
            "hidden_act": "silu",
            "rms_norm_eps": shape.epsilon,
            "rope_theta": shape.theta,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": 0,
            "eos_token_id": 2,
            "torch_dtype": "bfloat16",
        }
        return weights, config

    def described(self) -> dict[str, object]:
        """What it is made of, for a checkpoint."""
        return {"shape": asdict(self.shape), "pairs": [list(pair) for pair in self.pairs]}


def _features(net: LatentNet) -> Tensor:
    """What each code stands for, and its square: ``(2, codes, size + 2)``, about unit size."""
    books = torch.stack([book.detach() for book in net.books])
    scale = books.square().mean((1, 2), keepdim=True).sqrt().clamp(min=1e-6)
    # Each direction in its own measure, tempered: the strongest would hide the others.
    spread = books.std(1, keepdim=True).clamp(min=1e-6)
    plain = books / (spread * scale).sqrt()
    plain = plain / plain.square().mean((1, 2), keepdim=True).sqrt()
    power = (books / scale).square().mean(2, keepdim=True)
    return torch.cat([plain, power, torch.ones_like(power)], 2)
