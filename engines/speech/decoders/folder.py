"""The folder of a codec: its configuration and its weights, read without running any code."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor

from ...chunks import StageError
from ...stage import StageFailure

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Names of files with weights, the first that is there is read."""


def unusable(what: str) -> StageFailure:
    """That a codec can't be loaded, and why."""
    return StageFailure(StageError("model_unusable", what))


def package(name: str, *, codec: str) -> ModuleType:
    """Import a package that a codec needs.

    Raises:
        StageFailure: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        what = f"the codec {codec} needs the package {name.partition('.')[0]}, which is missing"
        raise StageFailure(StageError("package_missing", what)) from None


def read_config(folder: Path) -> dict[str, Any]:
    """The ``config.json`` of a folder.

    Raises:
        StageFailure: there is none, or it is no JSON object.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise unusable(f"expected a configuration of a codec in {path}: {error}") from None
    if not isinstance(config, dict):
        raise unusable(f"expected an object in {path}, got {type(config).__name__}")
    return cast("dict[str, Any]", config)


def read_weights(folder: Path, names: Sequence[str] = WEIGHTS) -> dict[str, Tensor]:
    """The weights of a folder, by name, on the CPU.

    A pickled file is read as tensors only: one that would run code is refused.

    Raises:
        StageFailure: there are none, or they can't be read.
    """
    for name in names:
        path = folder / name
        if path.is_file():
            return _weights_of(path)
    raise unusable(f"expected one of {', '.join(names)} in {folder}")


def _weights_of(path: Path) -> dict[str, Tensor]:
    """Those of one file."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            tensors: dict[str, Tensor] = load_file(path)
            return tensors
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise unusable(f"the weights in {path} can't be read: {type(error).__name__}") from None
    if not isinstance(weights, dict):
        raise unusable(f"expected weights by name in {path}")
    return cast("dict[str, Tensor]", weights)


def fill(model: torch.nn.Module, weights: dict[str, Tensor], folder: Path) -> None:
    """Put weights into a model, every one of which must fit.

    Raises:
        StageFailure: some are missing, too many, or of another shape.
    """
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        first = " ".join(str(error).split())[:300]
        raise unusable(f"the weights in {folder} don't fit its configuration: {first}") from None
