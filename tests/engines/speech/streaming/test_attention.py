"""Attention over a ring, against attention spelled out."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from antiphon.engines.speech.streaming.attention import StreamTransformer
from antiphon.engines.speech.streaming.layer import UNKNOWN, Extent, Rate

HIDDEN = 8
HEAD = 4
INVERSE = torch.tensor([1.0, 0.1])
"""Of the angles of a head's two pairs."""


class Attention(nn.Module):
    """Two heads, which share their keys."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, 2 * HEAD, bias=False)
        self.k_proj = nn.Linear(HIDDEN, HEAD, bias=False)
        self.v_proj = nn.Linear(HIDDEN, HEAD, bias=False)
        self.o_proj = nn.Linear(2 * HEAD, HIDDEN, bias=False)
        self.head_dim = HEAD
        self.scaling = 0.6


class Layer(nn.Module):
    """A layer as transformers lay them out."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = Attention()
        self.input_layernorm = nn.LayerNorm(HIDDEN)
        self.post_attention_layernorm = nn.LayerNorm(HIDDEN)
        self.mlp = nn.Linear(HIDDEN, HIDDEN)


def original(layers: int = 2) -> SimpleNamespace:
    torch.manual_seed(0)
    rotary = SimpleNamespace(rope_type="default", inv_freq=INVERSE, attention_scaling=1.0)
    return SimpleNamespace(
        layers=nn.ModuleList(Layer() for _ in range(layers)).double().requires_grad_(False),
        rotary_emb=rotary,
    )


def turned(vector: Tensor, position: int) -> Tensor:
    """Pairs of numbers, half a head apart, as complex ones, turned."""
    pairs = torch.complex(vector[..., :2], vector[..., 2:])
    angle = (position * INVERSE).double()
    pairs = pairs * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((pairs.real, pairs.imag), -1)


def spelled_out(model: SimpleNamespace, values: Tensor, window: int | None) -> Tensor:
    """``(count, hidden)`` through all layers, one position at a time."""
    for layer in model.layers:
        normed = layer.input_layernorm(values)
        attention = layer.self_attn
        keys = [turned(attention.k_proj(each), at) for at, each in enumerate(normed)]
        rows: list[Tensor] = []
        for at, each in enumerate(normed):
            begin = 0 if window is None else max(0, at - window + 1)
            seen = torch.stack(keys[begin : at + 1])
            told = attention.v_proj(normed[begin : at + 1])
            queries = attention.q_proj(each).view(2, HEAD)
            heads = [
                torch.softmax(seen @ turned(query, at) * attention.scaling, 0) @ told
                for query in queries
            ]
            rows.append(attention.o_proj(torch.cat(heads)))
        values = values + torch.stack(rows)
        values = values + layer.mlp(layer.post_attention_layernorm(values))
    return values


def extent(first: list[int]) -> Extent:
    """Streams that have come so far; without edges, which attention must not rely on."""
    count = torch.tensor(first)
    return Extent(count, torch.full_like(count, UNKNOWN), torch.zeros_like(count), edges=False)


@pytest.mark.parametrize("window", [5, None])
@pytest.mark.parametrize("sizes", [[1], [40, 3], [100]], ids=["ones", "mixed", "all"])
def test_a_ring_sees_what_a_window_sees(window: int | None, sizes: list[int]) -> None:
    model = original()
    layer = StreamTransformer(model, window=window, room=None if window else 128)
    layer.join(Rate())
    values = torch.randn(100, HIDDEN, dtype=torch.float64)
    state = layer.new_state(1, values)
    shapes = [tensor.shape for tensor in state]
    heard: list[Tensor] = []
    at = 0
    while at < 100:
        size = sizes[len(heard) % len(sizes)]
        heard.append(layer(values[None, at : at + size].transpose(1, 2), state, extent([at])))
        at += size
    told = torch.cat(heard, -1)[0].T
    # Angles are of single precision.
    assert torch.allclose(told, spelled_out(model, values, window), rtol=0, atol=1e-5)
    assert [tensor.shape for tensor in state] == shapes


def test_streams_of_any_age_share_a_batch() -> None:
    layer = StreamTransformer(original(), window=5)
    layer.join(Rate())
    values = torch.randn(2, HIDDEN, 90, dtype=torch.float64)
    alone = [layer(values[:1], layer.new_state(1, values), extent([0]))]
    alone.append(layer(values[1:, :, :10], layer.new_state(1, values), extent([0])))
    old = layer.new_state(1, values)
    layer(values[:1, :, :80], old, extent([0]))
    both = [torch.cat(pair) for pair in zip(old, layer.new_state(1, values), strict=True)]
    new = torch.cat((values[:1, :, 80:], values[1:, :, :10]))
    told = layer(new, both, extent([80, 0]))
    assert torch.allclose(told[0], alone[0][0, :, 80:], rtol=0, atol=1e-12)
    assert torch.allclose(told[1], alone[1][0], rtol=0, atol=1e-12)


def test_what_is_ahead_of_the_start_is_not_seen() -> None:
    layer = StreamTransformer(original(), window=5)
    layer.join(Rate(delay=3))
    values = torch.randn(1, HIDDEN, 12, dtype=torch.float64)
    told = layer(values, layer.new_state(1, values), extent([0]))
    layer.join(Rate())
    wanted = layer(values[..., 3:], layer.new_state(1, values), extent([0]))
    assert torch.isfinite(told).all()
    assert torch.allclose(told[..., 3:], wanted, rtol=0, atol=1e-12)


def test_positions_of_another_kind_are_refused() -> None:
    model = original()
    model.rotary_emb.rope_type = "yarn"
    with pytest.raises(ValueError, match="yarn"):
        StreamTransformer(model, window=5)


def test_a_ring_needs_a_size() -> None:
    with pytest.raises(ValueError, match="window"):
        StreamTransformer(original(), window=None)
