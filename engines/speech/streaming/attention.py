"""Transformers that are fed a stretch at a time: causal attention over the last positions.

Keys and values of the positions that can still be seen lie in a ring of fixed size, each in the
slot of its position modulo the ring's. A stretch writes its own into the ring and attends to all
of it; which slots a position sees follows from the positions alone, so that streams of any age
share a batch, and one shape of stretch is always one shape of work. A stretch that is longer than
the ring has room for is attended to in pieces, which makes the work of a long one linear.

The layers are walked: weights, norms and feed-forward parts are the original's own modules. Any
layer fits that is laid out and named as those of Llama, Qwen and Mimi are in ``transformers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .layer import Extent, Rate, State, StreamLayer

RING_MULTIPLE = 32
"""Rings are rounded up to it: what is left over is room for a stretch."""

PIECE = 32
"""The fewest positions that a ring has room for besides its window."""


class RingAttention(nn.Module):
    """One attention with rotary positions (Su et al. 2021, RoFormer), over a ring."""

    def __init__(self, original: Any, *, window: int | None, room: int) -> None:
        super().__init__()
        self.q_proj: nn.Module = original.q_proj
        self.k_proj: nn.Module = original.k_proj
        self.v_proj: nn.Module = original.v_proj
        self.o_proj: nn.Module = original.o_proj
        self.q_norm: nn.Module = getattr(original, "q_norm", None) or nn.Identity()
        self.k_norm: nn.Module = getattr(original, "k_norm", None) or nn.Identity()
        self.head_dim = int(original.head_dim)
        self.scaling = float(original.scaling)
        self.kv_heads = int(original.k_proj.out_features) // self.head_dim
        self.window = room if window is None else window
        self.room = room
        self.piece = room if window is None else room - window + 1

    def forward(self, values: Tensor, turn: tuple[Tensor, Tensor], see: Ring) -> Tensor:
        """Attend; ``values`` are ``(batch, count, hidden)``, and so is what is returned."""
        batch, count, _ = values.shape
        heads = (batch, count, -1, self.head_dim)
        queries = _rotated(self.q_norm(self.q_proj(values).view(heads)).transpose(1, 2), turn)
        keys = _rotated(self.k_norm(self.k_proj(values).view(heads)).transpose(1, 2), turn)
        fresh = self.v_proj(values).view(heads).transpose(1, 2)
        # Heads that share keys are more queries of one head: keys are never repeated.
        queries = queries.reshape(batch, self.kv_heads, -1, count, self.head_dim)
        groups = queries.shape[2]
        parts: list[Tensor] = []
        for piece in see.pieces:
            where = piece.slots[:, None, :, None].expand(-1, self.kv_heads, -1, self.head_dim)
            see.keys.scatter_(2, where, keys[:, :, piece.first : piece.last])
            see.values.scatter_(2, where, fresh[:, :, piece.first : piece.last])
            asked = queries[:, :, :, piece.first : piece.last].flatten(2, 3)
            told = functional.scaled_dot_product_attention(
                asked,
                see.keys,
                see.values,
                attn_mask=piece.seen.repeat(1, 1, groups, 1),
                scale=self.scaling,
            )
            parts.append(told.reshape(batch, self.kv_heads, groups, -1, self.head_dim))
        attended = parts[0] if len(parts) == 1 else torch.cat(parts, dim=3)
        mixed: Tensor = self.o_proj(attended.flatten(1, 2).transpose(1, 2).flatten(2))
        return mixed


class Piece:
    """Some positions of a stretch: where they go in the ring, and what they see of it.

    A position sees itself and those before it as far as the window goes and the stream does. One
    ahead of the start sees itself, so that it comes to a number; nothing is made of it.
    """

    def __init__(self, positions: Tensor, first: int, last: int, window: int, room: int) -> None:
        self.first = first
        self.last = last
        mine = positions[:, first:last]
        self.slots = torch.remainder(mine, room)
        newest = mine[:, -1:]
        ring = torch.arange(room, device=positions.device)
        held = (newest - torch.remainder(newest - ring, room))[:, None]
        asking = mine[:, :, None]
        seen = (held >= 0) & (held <= asking) & (held > asking - window)
        self.seen = (seen | (held == asking))[:, None]


class Ring:
    """What an attention works on: its keys and values, ``(batch, heads, room, head_dim)``."""

    def __init__(self, keys: Tensor, values: Tensor, pieces: Sequence[Piece]) -> None:
        self.keys = keys
        self.values = values
        self.pieces = pieces


class Block(nn.Module):
    """One layer of a transformer: attention, then a feed-forward part, both with a skip."""

    def __init__(self, original: Any, *, window: int | None, room: int) -> None:
        super().__init__()
        self.attention = RingAttention(original.self_attn, window=window, room=room)
        self.norm: nn.Module = original.input_layernorm
        self.scale: nn.Module = getattr(original, "self_attn_layer_scale", None) or nn.Identity()
        self.mlp: nn.Module = original.mlp
        self.mlp_norm: nn.Module = original.post_attention_layernorm
        self.mlp_scale: nn.Module = getattr(original, "mlp_layer_scale", None) or nn.Identity()

    def forward(self, values: Tensor, turn: tuple[Tensor, Tensor], see: Ring) -> Tensor:
        """Go through; ``(batch, count, hidden)`` in and out."""
        values = values + self.scale(self.attention(self.norm(values), turn, see))
        done: Tensor = values + self.mlp_scale(self.mlp(self.mlp_norm(values)))
        return done


class StreamTransformer(StreamLayer):
    """A causal transformer without its embedding and its head.

    Args:
        original: has ``layers`` and ``rotary_emb``, and may have a last ``norm``.
        window: positions that one sees, itself among them; ``None`` for all.
        room: where it sees all, how many positions a stream can have.

    Raises:
        ValueError: its positions are not plain rotary ones.
    """

    inverse: Tensor

    def __init__(self, original: Any, *, window: int | None, room: int | None = None) -> None:
        super().__init__()
        if original.rotary_emb.rope_type != "default":
            raise ValueError(
                f"expected plain rotary positions, got {original.rotary_emb.rope_type}"
            )
        held = window - 1 + PIECE if window is not None else room
        if held is None:
            raise ValueError("expected a window or how many positions there can be")
        self.room = -(-held // RING_MULTIPLE) * RING_MULTIPLE
        self.window = window
        self.blocks = nn.ModuleList(
            Block(layer, window=window, room=self.room) for layer in original.layers
        )
        self.norm: nn.Module = getattr(original, "norm", None) or nn.Identity()
        self.attention_scaling = float(original.rotary_emb.attention_scaling)
        # Angles are computed in single precision in the original too, whatever the model's.
        self.register_buffer("inverse", original.rotary_emb.inv_freq.float(), persistent=False)

    def _joined(self, before: Rate) -> Rate:
        return before

    def new_state(self, batch: int, like: Tensor) -> State:
        """Empty rings: keys and values of each layer."""
        state: State = []
        for block in self._blocks():
            shape = (batch, block.attention.kv_heads, self.room, block.attention.head_dim)
            state += [like.new_zeros(shape), like.new_zeros(shape)]
        return state

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """Go on by a stretch; see :class:`~.layer.StreamLayer`."""
        positions = extent.positions(self.before, values.shape[-1])
        return self.run(values.transpose(1, 2), positions, state).transpose(1, 2)

    def run(self, values: Tensor, positions: Tensor, state: State) -> Tensor:
        """Go on by ``values``, ``(batch, count, hidden)``, at ``positions``, ``(batch, count)``.

        Positions of a stream follow each other, from push to push as well.
        """
        turn = self._turn(positions, values)
        attention = self._blocks()[0].attention
        count = values.shape[1]
        pieces = [
            Piece(positions, at, min(at + attention.piece, count), attention.window, self.room)
            for at in range(0, count, attention.piece)
        ]
        for index, block in enumerate(self._blocks()):
            ring = Ring(state[2 * index], state[2 * index + 1], pieces)
            values = block(values, turn, ring)
        normed: Tensor = self.norm(values)
        return normed

    def _blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]

    def _turn(self, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the angles, ``(batch, 1, count, head_dim)``."""
        angles = positions[:, None, :, None].float() * self.inverse.float()
        angles = torch.cat((angles, angles), dim=-1)
        scaling = self.attention_scaling
        return (angles.cos() * scaling).to(like.dtype), (angles.sin() * scaling).to(like.dtype)


def _rotated(values: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Turn pairs of a head's values, which lie half a head apart, by their position's angle."""
    low, high = values.chunk(2, dim=-1)
    return values * turn[0] + torch.cat((-high, low), dim=-1) * turn[1]
