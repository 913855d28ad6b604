# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""WebRTC's voice detector: the one file that imports ``webrtcvad``."""

from __future__ import annotations

from typing import Any

from ....codecs.pcm import SAMPLE_BYTES, to_float
from ...chunks import StageError
from ...stage import StageFailure
from .levels import FRAME_SAMPLES, Hush, frame_levels

RATE = 16_000

MODES = (0, 1, 2, 3)
"""From the most lenient to the strictest."""

PROBABILITY = (0.0, 0.15, 0.3, 0.7, 0.95)
"""By how many modes agree. The two lenient ones nearly always agree with each other and
take steady loud noise for speech, so the usual threshold of 0.5 asks for a third."""


class WebrtcDetector:
    """Speech probabilities of one stream; each frame is known as soon as it is heard."""

    def __init__(self) -> None:
        module = load_webrtcvad()
        self._modes = [module.Vad(mode) for mode in MODES]
        self._hush = Hush()

    def judge(self, pcm: bytes) -> list[float]:
        """One probability a frame; ``pcm`` is s16le of 16 kHz, whole frames of 20 ms."""
        size = FRAME_SAMPLES * SAMPLE_BYTES
        frames = (pcm[start : start + size] for start in range(0, len(pcm), size))
        levels = frame_levels(to_float(pcm))
        return [
            self._probability(frame, float(level))
            for frame, level in zip(frames, levels, strict=True)
        ]

    def flush(self) -> list[float]:
        """Nothing: no frame is held back."""
        return []

    def _probability(self, frame: bytes, level: float) -> float:
        # All modes hear every frame, quiet ones too: each learns the noise from them.
        votes = sum(mode.is_speech(frame, RATE) for mode in self._modes)
        return 0.0 if self._hush.is_quiet(level) else PROBABILITY[votes]


def load_webrtcvad() -> Any:
    """The module.

    Raises:
        StageFailure: it is not installed; the message says what to run.
    """
    try:
        import webrtcvad
    except ImportError:
        hint = "webrtcvad is not installed: run `pip install 'antiphon[speech]'`"
        raise StageFailure(StageError("package_missing", hint)) from None
    return webrtcvad
