"""Silero's voice detector, a small recurrent network, run by onnxruntime."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....codecs.pcm import to_float
from ...chunks import StageError
from ...stage import StageFailure
from ..graph import Graph
from .levels import FRAME_SAMPLES

RATE = 16_000

WINDOW_SAMPLES = 512
"""What the network judges at once at 16 kHz: 32 ms."""

CONTEXT_SAMPLES = 64
"""The end of the window before, put ahead of each window."""

STATE_SHAPE = (2, 1, 128)


class SileroDetector:
    """Speech probabilities of one stream.

    Windows of 32 ms are judged, and each frame of 20 ms takes the probability of the
    window that holds its middle; so a frame is known up to 22 ms after it was heard.
    """

    def __init__(self, graph: Graph) -> None:
        """``graph``: shared by all streams, the state being each stream's own."""
        self._graph = graph
        self._state = np.zeros(STATE_SHAPE, np.float32)
        self._context = np.zeros(CONTEXT_SAMPLES, np.float32)
        self._pending: NDArray[np.float32] = np.zeros(0, np.float32)
        self._windows: list[float] = []
        self._first_window = 0
        self._frames_heard = 0
        self._frames_judged = 0

    def judge(self, pcm: bytes) -> list[float]:
        """Probabilities of the frames now known; ``pcm`` is s16le of 16 kHz, whole frames."""
        samples = to_float(pcm)
        self._frames_heard += len(samples) // FRAME_SAMPLES
        self._pending = np.concatenate([self._pending, samples])
        while len(self._pending) >= WINDOW_SAMPLES:
            self._windows.append(self._run(self._pending[:WINDOW_SAMPLES]))
            self._pending = self._pending[WINDOW_SAMPLES:]
        return self._spread()

    def flush(self) -> list[float]:
        """Probabilities of the frames held back; silence fills the last window."""
        if len(self._pending):
            missing = WINDOW_SAMPLES - len(self._pending)
            self._windows.append(self._run(np.pad(self._pending, (0, missing))))
            self._pending = self._pending[:0]
        return self._spread()

    def _run(self, window: NDArray[np.float32]) -> float:
        heard = np.concatenate([self._context, window])
        inputs = {"input": heard[None], "state": self._state, "sr": np.array(RATE, np.int64)}
        probability, self._state = self._graph.run(inputs, ("output", "stateN"))
        self._context = window[-CONTEXT_SAMPLES:]
        return float(probability[0, 0])

    def _spread(self) -> list[float]:
        frames: list[float] = []
        while self._frames_judged < self._frames_heard:
            middle = self._frames_judged * FRAME_SAMPLES + FRAME_SAMPLES // 2
            window = middle // WINDOW_SAMPLES - self._first_window
            if window >= len(self._windows):
                break
            frames.append(self._windows[window])
            self._frames_judged += 1
            # Windows before this frame's are done with.
            del self._windows[:window]
            self._first_window += window
        return frames


def load_silero() -> Graph:
    """The network out of the installed package, whose own code needs torch and isn't run.

    Raises:
        StageFailure: the package is not installed; the message says what to run.
    """
    found = importlib.util.find_spec("silero_vad")
    if found is None or not found.submodule_search_locations:
        hint = "silero-vad is not installed: run `pip install 'antiphon[silero]'`"
        raise StageFailure(StageError("package_missing", hint))
    folder = Path(next(iter(found.submodule_search_locations)), "data")
    return Graph(folder / "silero_vad.onnx", threads=1)
