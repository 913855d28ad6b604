"""The loudness meter of FFmpeg: what ours is held against."""

from __future__ import annotations

from typing import Any

import av
import av.audio.frame
import av.filter
import numpy as np

RATE = 24_000
_PIECE = 2400


def measured(pcm: bytes) -> tuple[float, float]:
    """Return integrated loudness in LUFS and true peak in dBTP of s16le mono at 24 kHz."""
    graph: Any = av.filter.Graph()
    source = graph.add_abuffer(sample_rate=RATE, format="s16", layout="mono", time_base="1/24000")
    meter = graph.add("ebur128", "metadata=1:peak=true")
    sink = graph.add("abuffersink")
    source.link_to(meter)
    meter.link_to(sink)
    graph.configure()
    samples = np.frombuffer(pcm, "<i2")
    told: dict[str, str] = {}
    for start in range(0, samples.size, _PIECE):
        frame: Any = av.audio.frame.AudioFrame.from_ndarray(
            samples[None, start : start + _PIECE].copy(), "s16", "mono"
        )
        frame.sample_rate, frame.pts = RATE, start
        source.push(frame)
        _drain(sink, told)
    source.push(None)
    _drain(sink, told)
    peak = float(told["lavfi.r128.true_peak"])
    return float(told["lavfi.r128.I"]), 20 * float(np.log10(max(peak, 1e-9)))


def _drain(sink: Any, told: dict[str, str]) -> None:
    while True:
        try:
            told.update(sink.pull().metadata)
        except (BlockingIOError, EOFError):
            return
