# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingImports=false
"""Faster small layers for vLLM's CPU build; imported by the engine's process only.

The build has fused kernels for normalization and activation, but runs these layers as
five to eight PyTorch operations each when nothing is compiled: ninety layers a token,
about 9 ms of 36. Naming :class:`CpuKernels` as the worker's extension makes the process
import this file before it loads a model, and importing it puts the kernels in place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from vllm.model_executor.layers.activation import SiluAndMul
from vllm.model_executor.layers.layernorm import RMSNorm

from .leash import Leashed

_ops: Any = torch.ops._C


class CpuKernels(Leashed):
    """The extension of the worker: adds nothing to it by itself."""


def _norm(self: Any, x: Any, residual: Any = None, *others: Any, **named: Any) -> Any:
    """``x`` normalized, and ``residual + x`` where there is a residual."""
    if others or named or not _fits(self, x, residual):
        return self.forward_native(x, residual, *others, **named)
    if residual is None:
        out = torch.empty_like(x)
        _ops.rms_norm.default(out, x, self.weight, self.variance_epsilon)
        return out
    _ops.fused_add_rms_norm.default(x, residual, self.weight, self.variance_epsilon)
    return x, residual


def _fits(layer: Any, x: Any, residual: Any) -> bool:
    """Whether the kernels can do this layer: they want a weight, and dense rows."""
    return (
        layer.pass_weight
        and layer.pass_weight_add
        and layer.variance_size_override is None
        and layer.weight.dtype == x.dtype
        and x.is_contiguous()
        and (residual is None or residual.is_contiguous())
    )


def _silu_and_mul(self: Any, x: Any) -> Any:
    """``silu`` of the first half of each row, times the second half."""
    out = torch.empty((*x.shape[:-1], x.shape[-1] // 2), dtype=x.dtype)
    _ops.silu_and_mul.default(out, x.contiguous())
    return out


def _norm_is_right() -> bool:
    """Whether the kernels do here what this file takes them to do."""
    x, added, weight = (torch.randn(size, dtype=torch.bfloat16) for size in ((3, 64), (3, 64), 64))
    out, scaled, total = torch.empty_like(x), x.clone(), added.clone()
    try:
        _ops.rms_norm.default(out, x, weight, 1e-5)
        _ops.fused_add_rms_norm.default(scaled, total, weight, 1e-5)
    except Exception:
        return False
    pairs = ((out, x.float()), (scaled, (x + added).float()))
    return all(
        torch.allclose(
            got.float(), functional.rms_norm(given, (64,), weight.float(), 1e-5), 0.05, 0.05
        )
        for got, given in pairs
    )


def _silu_is_right() -> bool:
    x = torch.randn(3, 64, dtype=torch.bfloat16)
    try:
        got = _silu_and_mul(None, x)
    except Exception:
        return False
    gate, up = x.float().chunk(2, dim=-1)
    return torch.allclose(got.float(), functional.silu(gate) * up, 0.05, 0.05)


def _install() -> None:
    # Without the right kernel a layer stays as it was, which is slower only.
    norm: Any = RMSNorm
    activation: Any = SiluAndMul
    if _norm_is_right():
        norm.forward_cpu = _norm
    if _silu_is_right():
        activation.forward_cpu = _silu_and_mul


_install()
