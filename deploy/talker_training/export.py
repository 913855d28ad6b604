# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Writes a student into a folder as stock vLLM loads it, with the codec that it speaks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
from torch import Tensor

from ...engines.speech.decoders.joe_codes import SHAPE_FILE, WEIGHTS_FILE
from ...engines.speech.decoders.joe_latents import LatentNet
from ...engines.speech.families.joe_units import ASK, BEGIN, STOP, code_name, pair_name
from ...engines.speech.voices.family import VOICE_FILE
from .student import Student

DECODER_FILES = "code2wav*.onnx"
"""Of a Piper voice, its second half."""


def write(student: Student, net: LatentNet, voice: Path, folder: Path) -> int:
    """Write model and vocabulary, and into ``codec`` the codec; returns the size of all, bytes.

    ``voice``: the teacher's folder, of which the second half becomes part of the codec.
    """
    from safetensors.torch import save_file

    codec = folder / "codec"
    codec.mkdir(parents=True, exist_ok=True)
    weights, config = student.exported()
    save_file(_halved(weights), folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    _write_vocabulary(names(student), folder / "tokenizer.json")
    save_file(_halved(dict(net.state_dict())), codec / WEIGHTS_FILE, {"format": "pt"})
    (codec / SHAPE_FILE).write_bytes(msgspec.json.encode(net.shape))
    for path in (voice / VOICE_FILE, *voice.glob(DECODER_FILES)):
        shutil.copy(path, codec / path.name)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def names(student: Student) -> list[str]:
    """The name of every token, in the order of their ids."""
    codes = [code_name(book, code) for book in (0, 1) for code in range(student.codes)]
    return [BEGIN, ASK, STOP, *codes, *(pair_name(*pair) for pair in student.pairs)]


def _halved(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().half().contiguous() for name, tensor in weights.items()}


def _write_vocabulary(tokens: list[str], path: Path) -> None:
    from tokenizers import Tokenizer, models

    ids = {name: number for number, name in enumerate(tokens)}
    if len(ids) != len(tokens):
        raise ValueError("expected names that differ")
    # No text is ever encoded: it goes in as sounds.
    Tokenizer(models.WordLevel(ids, unk_token=BEGIN)).save(str(path))
