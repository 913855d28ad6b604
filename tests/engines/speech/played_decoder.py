"""A decoder without a model: its samples are sums over neighbouring frames."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engines.speech.played_voices import PlayedOffer, PlayedShelf, model

from antiphon.engines.chunks import Samples
from antiphon.engines.speech import code2wav
from antiphon.engines.speech.decoding import Decoder
from antiphon.engines.speech.voices.shelf import Shelf

REACH = 2
"""Frames of context."""

FRAME_MS = 10
RATE = 24_000
HOP = RATE * FRAME_MS // 1000

VOICE = model("played", rate=RATE, hop=HOP, context=REACH)


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
        self.at_work = 0
        """Jobs that wait for it now."""

        self._counting = threading.Lock()

    def run(
        self, frames: NDArray[np.float32], left: int = 0, right: int = 0
    ) -> NDArray[np.float32]:
        self.entered.set()
        self._at_work(1)
        assert self.open.wait(30)
        self._at_work(-1)
        self.runs.append(frames)
        stop = frames.shape[2] - right
        return np.stack([wave(each[0])[left * HOP : stop * HOP] for each in frames])

    def _at_work(self, more: int) -> None:
        with self._counting:
            self.at_work += more

    def warm_up(self, sizes: object) -> None:
        pass

    def costs_ms(self, sizes: object) -> tuple[float, float]:
        return self.told

    def batch_pays(self, size: int, batch: int) -> bool:
        return self.pays

    def use(self, monkeypatch: pytest.MonkeyPatch) -> Shelf:
        """Voices of which the only one has this decoder."""

        def loaded(half: Decoder) -> Decoder:
            return half

        monkeypatch.setattr(code2wav, "Decoder", loaded)
        return PlayedShelf(PlayedOffer(VOICE, decoder=lambda: self))


def wave(frames: NDArray[np.float32]) -> Samples:
    """What ``frames``, of one channel, sound like."""
    summed = np.convolve(np.pad(frames, REACH), np.ones(2 * REACH + 1), "valid")
    return np.repeat(summed, HOP).astype(np.float32)
