"""Kernels compile for a GPU. That takes none: Triton brings the assembler."""

from __future__ import annotations

from importlib import import_module

import pytest

VALUES = "*fp32"
PLACES = "*i64"
NUMBER = "i32"

CASES = {
    "snake": (
        "snake_kernel",
        {
            **dict.fromkeys(("values", "out", "alpha", "inverse"), VALUES),
            **dict.fromkeys(("rows", "channels", "snaked_channels", "count"), NUMBER),
            "slope": "fp32",
        },
        {"ROWS": 2, "BLOCK": 256},
    ),
    "codebooks": (
        "gather_sum_kernel",
        {
            "tables": VALUES,
            "codes": PLACES,
            "levels": PLACES,
            "out": VALUES,
            **dict.fromkeys(("steps", "channels", "size"), NUMBER),
        },
        {"BOOKS": 3, "STEPS": 16, "CHANNELS": 64},
    ),
    "transposed": (
        "transposed_kernel",
        {
            **dict.fromkeys(
                ("product", "tail", "bias", "alpha", "inverse", "out", "waved"), VALUES
            ),
            **dict.fromkeys(("channels", "stride", "count"), NUMBER),
        },
        {"HAS_BIAS": True, "HAS_WAVE": True, "CHANNELS": 2, "BLOCK": 256},
    ),
    "residual": (
        "residual_kernel",
        {
            **dict.fromkeys(("values", "tail", "alpha", "inverse", "weight", "bias"), VALUES),
            **dict.fromkeys(("alpha_after", "inverse_after", "out"), VALUES),
            **dict.fromkeys(("rows", "channels", "count"), NUMBER),
        },
        {"DILATION": 9, "HAS_BIAS": True, "ROWS": 1, "WIDE": 128, "LONG": 4},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_compiles_without_rough_sines(compiler: None, name: str) -> None:
    triton = pytest.importorskip("triton")
    targets = pytest.importorskip("triton.backends.compiler")
    kernel, types, constants = CASES[name]
    module = import_module(f"antiphon.engines.speech.kernels.{name}_triton")
    source = triton.compiler.ASTSource(
        fn=getattr(module, kernel),
        signature={**types, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
    )
    made = triton.compile(source, target=targets.GPUTarget("cuda", 90, 32))
    assert ".target sm_90" in made.asm["ptx"]
    assert "sin.approx" not in made.asm["ptx"]
