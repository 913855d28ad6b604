"""The description of a cut voice, beside its three graphs in the model's folder.

The *front* turns phoneme ids into durations and a sample of the prior, a whole clause at
once; the *flow* turns any stretch of that into latents; *code2wav* any stretch of those
into samples. The first two are the talker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ..chunks import StageError
from ..stage import StageFailure

FRONT_FILE = "front.onnx"
FLOW_FILE = "flow.onnx"
CODE2WAV_FILE = "code2wav.onnx"
VOICE_FILE = "voice.json"

Count = Annotated[int, Meta(ge=1)]


class Voice(msgspec.Struct, frozen=True, kw_only=True):
    """What the stages of a voice must know beside its graphs."""

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

    flow_context_frames: Annotated[int, Meta(ge=0)]
    """The same of the prior and the latents."""

    prior: str
    """Name of the front's output that is the flow's input, ``(1, channels, frames)``."""

    mask: str
    """Name of the flow's other input, ``(1, 1, frames)``: 1 where there are frames."""

    durations: str
    """Name of the front's output with the frames of each phoneme id."""

    latents: str
    """Name of the flow's output that is the decoder's input, ``(1, channels, frames)``."""

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
