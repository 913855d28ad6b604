from pathlib import Path

import pytest

from antiphon.engines.text.cpu_numbers import CpuNumbers, choose_numbers, cpu_flags

AVX2 = {"fma", "avx2"}
SAPPHIRE_RAPIDS = AVX2 | {"avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"}
CASCADE_LAKE = AVX2 | {"avx512f", "avx512_vnni"}
GRAVITON_3 = {"asimd", "i8mm", "bf16"}


@pytest.mark.parametrize(
    ("flags", "best"),
    [
        (AVX2, CpuNumbers(False, "float32")),
        (CASCADE_LAKE, CpuNumbers(False, "float32")),
        (SAPPHIRE_RAPIDS, CpuNumbers(True, "bfloat16")),
        (GRAVITON_3, CpuNumbers(True, "bfloat16")),
        (set[str](), CpuNumbers(False, "float32")),
    ],
)
def test_auto_takes_what_the_processor_multiplies(flags: set[str], best: CpuNumbers) -> None:
    assert choose_numbers("auto", flags) == best


def test_weights_are_left_alone_or_packed_when_told_so() -> None:
    assert choose_numbers("unchanged", SAPPHIRE_RAPIDS) == CpuNumbers(False, "bfloat16")
    assert choose_numbers("unchanged", AVX2) == CpuNumbers(False, "float32")
    assert choose_numbers("int8", AVX2).int8_weights


@pytest.mark.parametrize("name", ["flags\t\t", "Features\t"])
def test_flags_are_read_by_both_names_that_linux_has(tmp_path: Path, name: str) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\n{name}: fma avx2\n\nprocessor\t: 1\n{name}: other\n")
    assert cpu_flags(file) == {"fma", "avx2"}


def test_a_file_that_says_nothing_promises_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor : 0\n")
    assert cpu_flags(file) == frozenset()
