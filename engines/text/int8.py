# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""A copy of a model with 8-bit weights, for CPUs.

Every token reads all weights, so their size decides how fast a CPU writes. One scale a
row, and inputs quantized token by token as they come, err by 1% and take a third of the
time. The copy is an ordinary checkpoint in the ``compressed-tensors`` format.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

LINEAR = "_proj.weight"
"""How the names of the weights end that are quantized: the linear layers of Llama, Qwen,
Gemma, Mistral and their kin. Embeddings and the output layer stay as they are."""

LEVELS = 127

_FORMAT: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["re:.*_proj$"],
            "weights": {
                "num_bits": 8,
                "type": "int",
                "symmetric": True,
                "strategy": "channel",
                "dynamic": False,
            },
            "input_activations": {
                "num_bits": 8,
                "type": "int",
                "symmetric": True,
                "strategy": "token",
                "dynamic": True,
            },
        }
    },
}


def int8_copy(folder: Path, work: Path) -> Path:
    """The folder of the 8-bit copy of a model, made below ``work`` unless it is there.

    A model that is quantized already, has experts, or lies in files of another kind is
    returned as it is.
    """
    config: dict[str, Any] = msgspec.json.decode((folder / "config.json").read_bytes())
    files = sorted(folder.glob("*.safetensors"))
    if not files or "quantization_config" in config or _has_experts(config):
        return folder
    target = work / f"{folder.name}-int8-{_fingerprint([folder / 'config.json', *files])}"
    if not target.is_dir():
        # In a process of its own, so that the memory it takes is given back.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            process.submit(_make, folder, files, config, target).result()
    return target


def _has_experts(config: dict[str, Any]) -> bool:
    return any("experts" in key for key in config)


def _fingerprint(files: list[Path]) -> str:
    """Changes whenever one of the files does."""
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(msgspec.json.encode(states)).hexdigest()[:12]


def _make(folder: Path, files: list[Path], config: dict[str, Any], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Made aside and renamed, so that what has the right name is always complete.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".int8-") as aside:
        made = Path(aside, "model")
        others = shutil.ignore_patterns("*.safetensors", "*.safetensors.index.json", "config.json")
        shutil.copytree(folder, made, ignore=others)
        for file in files:
            _quantize_file(file, made / file.name)
        whole = config | {"quantization_config": _FORMAT}
        (made / "config.json").write_bytes(msgspec.json.encode(whole))
        # Another server may have been faster; its copy is as good.
        with contextlib.suppress(OSError):
            os.rename(made, target)


def _quantize_file(source: Path, target: Path) -> None:
    from safetensors.torch import load_file, save_file

    made: dict[str, Any] = {}
    for name, weight in load_file(source).items():
        if name.endswith(LINEAR) and weight.ndim == 2 and weight.is_floating_point():
            made[name], made[f"{name}_scale"] = quantize_rows(weight)
        else:
            made[name] = weight
    save_file(made, target, metadata={"format": "pt"})


def quantize_rows(weight: Any) -> tuple[Any, Any]:
    """Quantize a matrix with one scale a row.

    ``weight``: a floating-point tensor ``(rows, columns)``. Returns int8 of the same shape
    and the scales ``(rows, 1)`` in the type of ``weight``; their product is near ``weight``.
    """
    import torch

    largest = weight.float().abs().amax(dim=1, keepdim=True).clamp(min=1e-8)
    # Rounded to its stored type first: the weights must fit the scale that is used.
    scale = (largest / LEVELS).to(weight.dtype)
    levels = (weight.float() / scale.float()).round().clamp(-LEVELS, LEVELS)
    return levels.to(torch.int8), scale
