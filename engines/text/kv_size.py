"""What a model keeps of what it has read, keys and values mostly: from what its folder says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

LEAST_BYTES, MOST_BYTES = 64 << 20, 4 << 30

BLOCK_TOKENS = 128
"""Each request may leave as many unused."""


def kv_cache_bytes(folder: Path, requests: int, tokens: int, width: int) -> int:
    """Bytes for so many requests at once of so many tokens each, within bounds.

    ``width``: bytes of a number. Layers that keep something else than keys and values keep
    less. Of a model that doesn't say its shape in the usual words it is the least.
    """
    config = _about(folder)
    try:
        heads: int = config["num_attention_heads"]
        head: int = config.get("head_dim") or config["hidden_size"] // heads
        kept: int = config.get("num_key_value_heads") or heads
        layers: int = config["num_hidden_layers"]
    except (KeyError, TypeError):
        return LEAST_BYTES
    row = 2 * layers * kept * head * width
    return min(max(row * requests * (tokens + BLOCK_TOKENS), LEAST_BYTES), MOST_BYTES)


def keeps_more_than_attention(folder: Path) -> bool:
    """Whether some layers keep a state, such as that of a convolution, which has to be kept at
    each block of a prompt if the prompt is to be found again."""
    kinds: list[object] = _about(folder).get("layer_types") or []
    return any("attention" not in str(kind) for kind in kinds)


def _about(folder: Path) -> dict[str, Any]:
    return msgspec.json.decode((folder / "config.json").read_bytes(), type=dict[str, Any])
