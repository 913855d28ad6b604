"""What a model's folder says of what it keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.engines.text.kv_size import (
    LEAST_BYTES,
    MOST_BYTES,
    keeps_more_than_attention,
    kv_cache_bytes,
)

LLAMA_3B = {
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "hidden_size": 3072,
}


def folder_of(folder: Path, about: dict[str, object]) -> Path:
    (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("about", "requests", "expected"),
    [
        # 112 KiB a token in 16-bit numbers.
        (LLAMA_3B, 8, 8 * (2048 + 128) * 112 * 1024),
        (LLAMA_3B | {"head_dim": 64}, 8, 8 * (2048 + 128) * 56 * 1024),
        (LLAMA_3B | {"num_key_value_heads": None}, 2, 2 * (2048 + 128) * 336 * 1024),
        (LLAMA_3B, 1000, MOST_BYTES),
        (LLAMA_3B | {"num_hidden_layers": 1}, 1, LEAST_BYTES),
        ({"n_layer": 12}, 8, LEAST_BYTES),
    ],
)
def test_the_cache_is_for_all_requests_at_once(
    tmp_path: Path, about: dict[str, object], requests: int, expected: int
) -> None:
    assert kv_cache_bytes(folder_of(tmp_path, about), requests, 2048, 2) == expected


@pytest.mark.parametrize(
    ("kinds", "more"),
    [
        (None, False),
        (["full_attention", "sliding_attention"], False),
        (["conv", "full_attention"], True),
    ],
)
def test_layers_that_are_no_attention_are_seen(
    tmp_path: Path, kinds: list[str] | None, more: bool
) -> None:
    assert keeps_more_than_attention(folder_of(tmp_path, {"layer_types": kinds})) is more
