"""Tiny pipelines, each written once a session, and the pictures that go into some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.support.tiny_pipelines import MAKERS

from antiphon.engines.diffusion.quiet import hush


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    hush()


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny pipeline by its name in ``tiny_pipelines.MAKERS``."""
    root = tmp_path_factory.mktemp("pipelines")

    def folder(name: str) -> Path:
        if not (root / name).exists():
            MAKERS[name](root / name)
        return root / name

    return folder


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """An image and a mask, of another size than what is made."""
    root = tmp_path_factory.mktemp("pictures")
    noise = np.random.default_rng(0).integers(0, 255, (48, 80, 3), dtype=np.uint8)
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[:32] = 255
    Image.fromarray(noise).save(root / "image.png")
    Image.fromarray(mask).save(root / "mask.png")
    return {"image": root / "image.png", "mask": root / "mask.png"}
