# pyright: reportUnknownVariableType=false
"""8-bit copies of models: near enough, made once, and only where they are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from antiphon.engines.text.int8 import int8_copy, quantize_rows

WEIGHTS = {
    "model.embed_tokens.weight": torch.randn(8, 4),
    "model.layers.0.self_attn.q_proj.weight": torch.randn(6, 4),
    "model.layers.0.self_attn.q_proj.bias": torch.randn(6),
    "model.layers.0.input_layernorm.weight": torch.randn(4),
}


def a_model(folder: Path, **config: Any) -> Path:
    folder.mkdir()
    save_file(WEIGHTS, folder / "model.safetensors")
    (folder / "config.json").write_bytes(msgspec.json.encode({"model_type": "llama"} | config))
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_err_by_half_a_level_at_most(dtype: torch.dtype) -> None:
    weight = (torch.randn(50, 300) * torch.logspace(-6, 3, 50)[:, None]).to(dtype)
    levels, scale = quantize_rows(weight)
    error = (levels.float() * scale.float() - weight.float()).abs()
    assert levels.dtype is torch.int8
    assert scale.dtype is dtype
    assert scale.shape == (50, 1)
    # The scale itself is rounded: by a 256th in bfloat16, which the largest levels feel.
    assert (error <= scale.float() * (0.51 if dtype is torch.float32 else 1.0)).all()


def test_a_row_of_zeros_stays_zero() -> None:
    levels, scale = quantize_rows(torch.zeros(2, 5))
    assert not (levels.float() * scale).any()


def test_linear_layers_are_quantized_and_the_rest_is_as_it_was(tmp_path: Path) -> None:
    copy = int8_copy(a_model(tmp_path / "m"), tmp_path / "work")
    made = load_file(copy / "model.safetensors")
    name = "model.layers.0.self_attn.q_proj.weight"
    assert set(made) == set(WEIGHTS) | {f"{name}_scale"}
    assert made[name].dtype is torch.int8
    assert torch.allclose(made[name] * made[f"{name}_scale"], WEIGHTS[name], atol=0.05)
    assert all(made[other].equal(WEIGHTS[other]) for other in set(WEIGHTS) - {name})
    assert (copy / "tokenizer.json").exists()
    config = msgspec.json.decode((copy / "config.json").read_bytes())
    assert config["model_type"] == "llama"
    assert config["quantization_config"]["quant_method"] == "compressed-tensors"


def test_the_copy_is_made_once_for_each_state_of_the_model(tmp_path: Path) -> None:
    folder, work = a_model(tmp_path / "m"), tmp_path / "work"
    first = int8_copy(folder, work)
    before = (first / "model.safetensors").stat().st_mtime_ns
    assert int8_copy(folder, work) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == before
    (folder / "config.json").write_bytes(b'{"model_type": "llama", "changed": true}')
    assert int8_copy(folder, work) != first
    assert not list(work.glob(".int8-*"))


@pytest.mark.parametrize("config", [{"quantization_config": {}}, {"num_local_experts": 8}])
def test_other_models_are_left_alone(tmp_path: Path, config: dict[str, Any]) -> None:
    folder = a_model(tmp_path / "m", **config)
    assert int8_copy(folder, tmp_path / "work") == folder


def test_a_model_without_safetensors_is_left_alone(tmp_path: Path) -> None:
    folder = a_model(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    assert int8_copy(folder, tmp_path / "work") == folder
