"""In which numbers a CPU should keep a language model: pure, from what it says it can do."""

from __future__ import annotations

import sys
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Weights: TypeAlias = Literal["auto", "int8", "unchanged"]

CPUINFO = Path("/proc/cpuinfo")

BF16_FLAGS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
"""Instructions that multiply bfloat16: on Intel, on AMD since Zen 4, and on ARM."""

INT8_FLAGS = frozenset({"amx_int8", "avx512_vnni", "i8mm"})
"""Instructions that multiply 8-bit integers, on the same."""


@dataclass(frozen=True, slots=True)
class CpuNumbers:
    """How a model is kept and computed with."""

    int8_weights: bool
    dtype: Literal["bfloat16", "float32"]
    """Of everything else."""


def choose_numbers(weights: Weights, flags: Set[str]) -> CpuNumbers:
    """The numbers that a CPU with these flags is quickest with.

    Without instructions of their own both kinds of small number are slower than float32:
    on AVX2 alone SmolLM2-135M took 185 ms a token with 8-bit weights and 56 with float32,
    and a prompt in bfloat16 four times as long.
    """
    bf16, int8 = bool(flags & BF16_FLAGS), bool(flags & INT8_FLAGS)
    wanted = weights == "int8" or (weights == "auto" and int8 and bf16)
    return CpuNumbers(wanted, "bfloat16" if bf16 or wanted else "float32")


def cpu_flags(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """What this machine's processor can do, by the names that Linux has for it."""
    if sys.platform != "linux":
        return frozenset()
    for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
