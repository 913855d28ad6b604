# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Calls of one model joined into one, and what comes of it taken apart: plain functions.

An argument is a tensor with a block of each row, a list with an item of each, a dict of such
things, or something that batch mates must have alike. Which it is, is seen from its shape:
a tensor whose first axis is a multiple of the rows has a block of each.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import torch

Arguments: TypeAlias = Mapping[str, Any]
"""Of one call, by name."""

PLAIN = (type(None), bool, int, float, str)


def rows_of(arguments: Arguments) -> int:
    """Rows of a call: those of its first argument, the latents."""
    first = next(iter(arguments.values()))
    return len(first) if isinstance(first, list) else int(first.shape[0])


def per_row(arguments: Arguments, time: str) -> dict[str, Any]:
    """With one time for each row, ``(rows,)``, where there was one for all."""
    found, when = dict(arguments), arguments.get(time)
    if isinstance(when, torch.Tensor) and when.ndim < 2 and when.numel() == 1:
        found[time] = when.reshape(1).expand(rows_of(arguments))
    return found


def digest(tensor: torch.Tensor) -> str:
    """Tells tensors of other content apart."""
    content = tensor.detach().to("cpu").contiguous().view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(content).hexdigest()


def likeness(value: Any, rows: int, *, shared: bool = False) -> Hashable:
    """A key that is equal of arguments that can go in one batch.

    ``shared``: the tensor has no rows, whatever its shape.
    """
    if isinstance(value, torch.Tensor):
        about = (str(value.dtype), str(value.device))
        if not shared and value.ndim and value.shape[0] and value.shape[0] % rows == 0:
            return ("rows", value.shape[0] // rows, tuple(value.shape[1:]), *about)
        return ("same", tuple(value.shape), digest(value), *about)
    if isinstance(value, list | tuple):
        if isinstance(value, list) and len(value) == rows:
            return ("list", *sorted({_item_likeness(item) for item in value}))
        return (type(value).__name__, *(likeness(item, rows, shared=True) for item in value))
    if isinstance(value, dict):
        return ("dict", *((key, likeness(item, rows)) for key, item in sorted(value.items())))
    if isinstance(value, PLAIN):
        return ("is", type(value).__name__, value)
    # Nothing is known of it: only itself is like it.
    return ("object", id(value))


def _item_likeness(item: Any) -> str:
    """Of an item for one row: tensors may have any size, other things are alike in a batch."""
    if isinstance(item, torch.Tensor):
        return f"{item.dtype} {item.device} {item.ndim}"
    return repr(likeness(item, 1, shared=True))


def join(values: Sequence[Any], rows: Sequence[int], keys: Sequence[Hashable], fill: int) -> Any:
    """One argument of several calls as that of one; ``keys`` are their likenesses, all equal.

    The last row is repeated ``fill`` times.
    """
    first = values[0]
    kind = keys[0][0] if isinstance(keys[0], tuple) else None
    if kind == "rows":
        block = first.shape[0] // rows[0]
        parts = list(values)
        if fill:
            last = values[-1][-block:]
            parts.append(last.repeat(fill, *([1] * (last.ndim - 1))))
        return parts[0] if len(parts) == 1 else torch.cat(parts)
    if kind == "list":
        return [item for value in values for item in value] + [values[-1][-1]] * fill
    if kind == "dict":
        return {
            name: join(
                [value[name] for value in values],
                rows,
                [likeness(value[name], count) for value, count in zip(values, rows, strict=True)],
                fill,
            )
            for name in first
        }
    return first


def split(output: Any, rows: Sequence[int], total: int) -> list[Any]:
    """What came of a batch of ``total`` rows, in the parts of the calls; fillers are dropped.

    Raises:
        ValueError: something in it has no rows.
    """
    if isinstance(output, torch.Tensor):
        if output.shape[0] % total:
            raise ValueError(f"{output.shape[0]} rows came of {total}")
        block = output.shape[0] // total
        begins = [0, *itertools.accumulate(count * block for count in rows)]
        return [output[begin:end] for begin, end in itertools.pairwise(begins)]
    if output is None:
        return [None] * len(rows)
    if isinstance(output, dict):
        parts = {name: split(item, rows, total) for name, item in output.items()}
        return [
            type(output)(**{name: part[place] for name, part in parts.items()})
            for place in range(len(rows))
        ]
    if isinstance(output, list) and len(output) == total:
        begins = [0, *itertools.accumulate(rows)]
        return [output[begin:end] for begin, end in itertools.pairwise(begins)]
    if isinstance(output, tuple | list):
        columns = [split(item, rows, total) for item in output]
        return [type(output)(column[place] for column in columns) for place in range(len(rows))]
    raise ValueError(f"no rows are known of a {type(output).__name__}")
