"""A decoder without a model: its samples are sums over neighbouring frames."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.engines.catalog import ModelCard
from antiphon.engines.chunks import Samples
from antiphon.engines.speech import code2wav
from antiphon.engines.speech.decoding import Decoder
from antiphon.engines.speech.voice import Voice

REACH = 2
"""Frames of context."""

FRAME_MS = 10
RATE = 24_000
HOP = RATE * FRAME_MS // 1000

VOICE = Voice(
    name="played",
    language="none",
    sample_rate=RATE,
    hop=HOP,
    channels=1,
    context_frames=REACH,
    flow_context_frames=0,
    prior="p",
    mask="m",
    durations="d",
    latents="z",
    noise_scale=0,
    length_scale=1,
    noise_w=0,
    phoneme_id_map={},
)


class PlayedDecoder(Decoder):
    """Costs what it is told to, by ``costs_ms``, and notes what it decodes."""

    def __init__(self, *, fixed_ms: float = 1.0, frame_ms: float = 0.5, pays: bool = False) -> None:
        self.voice = VOICE
        self.told = (fixed_ms, frame_ms)
        self.pays = pays
        self.runs: list[NDArray[np.float32]] = []
        self.open = threading.Event()
        """Jobs wait for it."""

        self.entered = threading.Event()
        """Set by the first job."""

        self.open.set()

    def run(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        self.entered.set()
        assert self.open.wait(30)
        self.runs.append(frames)
        return np.stack([wave(each[0]) for each in frames])

    def warm_up(self, sizes: object) -> None:
        pass

    def costs_ms(self, sizes: object) -> tuple[float, float]:
        return self.told

    def batch_pays(self, size: int, batch: int) -> bool:
        return self.pays

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have stages load this one."""

        def require(name: str, root: Path) -> tuple[ModelCard | None, Path]:
            return None, root

        def load(folder: Path, threads: int) -> Decoder:
            return self

        monkeypatch.setattr(code2wav, "require", require)
        monkeypatch.setattr(code2wav, "Decoder", load)


def wave(frames: NDArray[np.float32]) -> Samples:
    """What ``frames``, of one channel, sound like."""
    summed = np.convolve(np.pad(frames, REACH), np.ones(2 * REACH + 1), "valid")
    return np.repeat(summed, HOP).astype(np.float32)
