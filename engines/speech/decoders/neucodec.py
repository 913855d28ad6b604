"""NeuCodec: 24 kHz out of 50 steps a second, encoded from 16 kHz; transformers' NeuCodecModel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import semantic
from .decoder import Decoder, DecoderOptions, Encoder


def _rate(config: Any) -> int:
    return int(config.output_sampling_rate)


CODEC = semantic.SemanticCodec(name="neucodec", kind="neucodec", model="NeuCodecModel", rate=_rate)


def load(folder: Path, options: DecoderOptions) -> Decoder:
    """As :meth:`.decoder.DecoderModule.load`."""
    return semantic.load_decoder(CODEC, folder, options)


def load_encoder(folder: Path, options: DecoderOptions) -> Encoder:
    """As :meth:`.decoder.DecoderModule.load_encoder`."""
    return semantic.load_encoder(CODEC, folder, options)
