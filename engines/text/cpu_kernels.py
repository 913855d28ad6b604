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
from vllm.model_executor.layers.activation import SiluAndMul
from vllm.model_executor.layers.layernorm import RMSNorm

_ops: Any = torch.ops._C
_original_norm: Any = RMSNorm.forward_native


class CpuKernels:
    """The extension of the worker: adds nothing to it by itself."""


def _norm(self: Any, x: Any, residual: Any = None, *others: Any, **named: Any) -> Any:
    """``x`` normalized, and ``residual + x`` where there is a residual."""
    weight = getattr(self, "weight", None)
    plain = weight is not None and weight.dtype == x.dtype and not others and not named
    if not plain or self.variance_size_override is not None or not x.is_contiguous():
        return _original_norm(self, x, residual, *others, **named)
    if residual is None:
        out = torch.empty_like(x)
        _ops.rms_norm.default(out, x, weight, self.variance_epsilon)
        return out
    _ops.fused_add_rms_norm.default(x, residual, weight, self.variance_epsilon)
    return x, residual


def _silu_and_mul(self: Any, x: Any) -> Any:
    """``silu`` of the first half of each row, times the second half."""
    out = torch.empty((*x.shape[:-1], x.shape[-1] // 2), dtype=x.dtype)
    _ops.silu_and_mul.default(out, x.contiguous())
    return out


def _install() -> None:
    # Without a kernel the layer stays as it was: slower, and right.
    if hasattr(_ops, "rms_norm") and hasattr(_ops, "fused_add_rms_norm"):
        RMSNorm.forward_native = RMSNorm.forward_cpu = _norm
    if hasattr(_ops, "silu_and_mul"):
        SiluAndMul.forward_native = SiluAndMul.forward_cpu = _silu_and_mul


_install()
