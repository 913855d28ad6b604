"""The description of a cut voice, beside its two graphs in the model's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ..chunks import StageError
from ..stage import StageFailure

TALKER_FILE = "talker.onnx"
CODE2WAV_FILE = "code2wav.onnx"
VOICE_FILE = "voice.json"

Count = Annotated[int, Meta(ge=1)]


class Voice(msgspec.Struct, frozen=True, kw_only=True):
    """What both halves of a voice must know beside their graphs."""

    name: str
    """As clients ask for it."""

    language: str
    """Of the phonemes, as espeak names it."""

    sample_rate: Count
    hop: Count
    """Samples of one frame of latents."""

    channels: Count
    context_frames: Annotated[int, Meta(ge=0)]
    """How far a frame reaches into the waveform of its neighbours, on each side."""

    latents: str
    """Name of the talker's output that is the decoder's input."""

    durations: str
    """Name of the talker's output with the frames of each phoneme id."""

    noise_scale: float
    length_scale: float
    noise_w: float
    phoneme_id_map: dict[str, tuple[int, ...]]

    @property
    def frame_ms(self) -> float:
        """Length of one frame."""
        return 1000 * self.hop / self.sample_rate


def load_voice(folder: Path) -> Voice:
    """Read the description in a model's folder.

    Raises:
        StageFailure: it is not there or does not describe a voice.
    """
    try:
        return msgspec.json.decode((folder / VOICE_FILE).read_bytes(), type=Voice)
    except (OSError, msgspec.DecodeError):
        raise StageFailure(
            StageError("model_unusable", "the model's folder does not hold a voice: fetch it again")
        ) from None
