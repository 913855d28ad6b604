"""The models that are shipped: whole, small, and told apart from placeholders."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from antiphon.engines.diffusion.named import SHIPPED, abilities_of, folder_of
from antiphon.engines.diffusion.switches import DiffuserConfig

MOST_MB = {"embedded-image": 22, "embedded-video": 17}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_model_is_small_trained_and_described(name: str, tmp_path: Path) -> None:
    config = DiffuserConfig(path=name)
    folder, able = folder_of(config, tmp_path), abilities_of(config)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_MB[name] * 1e6
    assert not able.untrained
    assert able.examples
    assert f"{able.kind}" in name
    card = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "SIL Open Font License" in card


@pytest.mark.parametrize("name", SHIPPED)
def test_weights_are_in_bfloat16(name: str, tmp_path: Path) -> None:
    weights = list(folder_of(DiffuserConfig(path=name), tmp_path).rglob("*.safetensors"))
    assert len(weights) == 3
    for path in weights:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        kinds = {each["dtype"] for key, each in header.items() if key != "__metadata__"}
        assert kinds == {"BF16"}, path
