"""Kernels run by Triton's interpreter, as if this machine had a GPU."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

PACKAGE = "antiphon.engines.speech.kernels."


def _forget() -> None:
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        if name.endswith("_triton"):
            del sys.modules[name]


@contextmanager
def _imported_anew() -> Generator[pytest.MonkeyPatch]:
    pytest.importorskip("triton")
    _forget()
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    _forget()


@pytest.fixture(scope="module")
def interpreter() -> Iterator[torch.device]:
    """The device on which kernels can be launched."""
    with _imported_anew() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        yield torch.device("cpu")


@pytest.fixture
def compiler(tmp_path: Path) -> Iterator[None]:
    """Kernels are as they are on a machine with a GPU; they can be compiled, not launched."""
    with _imported_anew() as patch:
        patch.setenv("TRITON_INTERPRET", "0")
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path))
        yield
