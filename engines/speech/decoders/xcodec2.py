"""XCodec2: 16 kHz out of 50 steps a second; transformers' Xcodec2Model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import semantic
from .decoder import Decoder, DecoderOptions, Encoder


def _rate(config: Any) -> int:
    return int(config.sampling_rate)


CODEC = semantic.SemanticCodec(
    name="xcodec2",
    kind="xcodec2",
    model="Xcodec2Model",
    rate=_rate,
    margin=semantic.HOP // 2,
)


def load(folder: Path, options: DecoderOptions) -> Decoder:
    """As :meth:`.decoder.DecoderModule.load`."""
    return semantic.load_decoder(CODEC, folder, options)


def load_encoder(folder: Path, options: DecoderOptions) -> Encoder:
    """As :meth:`.decoder.DecoderModule.load_encoder`."""
    return semantic.load_encoder(CODEC, folder, options)
