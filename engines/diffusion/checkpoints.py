# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""What is kept of work under way, as bytes: latents, the scheduler, the generator.

The file is one of *safetensors*. Its tensors are numbered; ``tree`` is msgpack and says what
they are. Nothing in it can run when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

NOT_STATE = frozenset({"_internal_dict", "_watch"})
"""Attributes of a scheduler that are no state: its fixed settings, and what watches it."""

FORMAT = 1


class NotKept(Exception):
    """Something can't be written down, so the work can't be taken up again."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The state after ``done`` steps."""

    done: int
    model: str
    """Which model, code and task it is of; it fits no other."""

    latents: torch.Tensor
    scheduler: dict[str, Any]
    generator: torch.Tensor
    """Of ``torch.Generator.get_state``."""


def scheduler_state(scheduler: Any) -> dict[str, Any]:
    """All that a scheduler's steps depend on and change."""
    return {name: value for name, value in vars(scheduler).items() if name not in NOT_STATE}


def restore_scheduler(scheduler: Any, state: Mapping[str, Any], device: torch.device) -> None:
    """Set it; tensors that are not on the CPU by nature go to ``device``."""
    for name, value in state.items():
        setattr(scheduler, name, _placed(value, device))


def _placed(value: Any, device: torch.device) -> Any:
    if isinstance(value, _Moved):
        return value.tensor.to(device)
    if isinstance(value, list):
        return [_placed(item, device) for item in value]
    if isinstance(value, tuple):
        return tuple(_placed(item, device) for item in value)
    if isinstance(value, dict):
        return {key: _placed(item, device) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class _Moved:
    """A tensor that was on the model's device, which is not the CPU."""

    tensor: torch.Tensor


def _order(tensor: torch.Tensor) -> list[int]:
    """Its axes as they lie in memory: kernels are chosen by that, and round differently."""
    strides = tensor.stride()
    return sorted(range(tensor.ndim), key=lambda axis: (-strides[axis], axis))


def _laid_out(tensor: torch.Tensor, order: list[int]) -> torch.Tensor:
    return tensor.permute([order.index(axis) for axis in range(tensor.ndim)])


class _Writer:
    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}

    def node(self, value: Any) -> Any:
        """A value as plain data: what is not plain is a list, its first item says what."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, torch.Tensor):
            name, order = str(len(self.tensors)), _order(value)
            # Cloned: views share memory, which the format has no way to say.
            self.tensors[name] = value.detach().to("cpu").permute(order).contiguous().clone()
            return ["tensor" if value.device.type == "cpu" else "moved", name, order]
        if isinstance(value, np.generic):
            return ["scalar", str(value.dtype), value.tobytes()]
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            return ["array", str(value.dtype), list(value.shape), value.tobytes()]
        if isinstance(value, torch.dtype):
            return ["dtype", str(value).removeprefix("torch.")]
        if isinstance(value, list | tuple):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return [kind, *(self.node(item) for item in value)]
        if isinstance(value, dict):
            return ["dict", *([self.node(key), self.node(item)] for key, item in value.items())]
        raise NotKept(f"a {type(value).__name__} can't be kept")


def encode(kept: Kept) -> bytes:
    """As bytes.

    Raises:
        NotKept: the scheduler has something that is no number or tensor.
    """
    writer = _Writer()
    tree = {
        "format": FORMAT,
        "done": kept.done,
        "model": kept.model,
        "latents": writer.node(kept.latents),
        "scheduler": writer.node(kept.scheduler),
        "generator": writer.node(kept.generator),
    }
    content = msgspec.msgpack.encode(tree)
    writer.tensors["tree"] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    found: bytes = save_tensors(writer.tensors)
    return found


def decode(state: bytes) -> Kept:
    """What :func:`encode` gave; tensors on the CPU.

    Raises:
        ValueError: it is something else, or of another version of this code.
    """
    try:
        tensors = load_tensors(state)
        tree = msgspec.msgpack.decode(tensors["tree"].numpy().tobytes())
        if tree["format"] != FORMAT:
            raise ValueError(f"it is of format {tree['format']}, not {FORMAT}")
        latents = _value(tree["latents"], tensors)
        return Kept(
            done=tree["done"],
            model=tree["model"],
            latents=latents.tensor if isinstance(latents, _Moved) else latents,
            scheduler=_value(tree["scheduler"], tensors),
            generator=_value(tree["generator"], tensors),
        )
    except (SafetensorError, msgspec.DecodeError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"no checkpoint: {error}") from error


def _value(node: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if not isinstance(node, list):
        return node
    kind, *rest = node
    if kind in ("tensor", "moved"):
        tensor = _laid_out(tensors[rest[0]], rest[1])
        return tensor if kind == "tensor" else _Moved(tensor)
    if kind == "scalar":
        return np.frombuffer(rest[1], dtype=rest[0])[0]
    if kind == "array":
        return np.frombuffer(rest[2], dtype=rest[0]).reshape(rest[1]).copy()
    if kind == "dtype":
        return getattr(torch, rest[0])
    if kind == "dict":
        return {_value(key, tensors): _value(item, tensors) for key, item in rest}
    items = [_value(item, tensors) for item in rest]
    return tuple(items) if kind == "tuple" else items
