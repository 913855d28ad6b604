"""The audio of one response as binary frames, for clients that asked for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ..codecs.opus import FRAME_SAMPLES, PRE_SKIP, OpusEncoder
from ..codecs.pcm import SAMPLE_BYTES
from ..sessions import effects as fx
from ..sessions.settings import BinaryFormat
from .audio_format import CORE_RATE
from .binary import BinaryFrame, Kind
from .outbox import Frame, SlowFrames
from .wire_events import at_json

Json = dict[str, Any]

FRAME_BYTES = 24_000
"""Samples of one frame, or encoded at once: 500 ms."""

_SAMPLES_PER_MS = CORE_RATE // 1000


class BinaryOutput:
    """Frames the audio of one response.

    PCM costs a copy. Opus costs about 0.1 ms for each 20 ms of audio, so it is encoded in a
    thread when it is its turn to be written; what is purged before then is never encoded.
    """

    def __init__(self, form: BinaryFormat, number: int) -> None:
        """Begin; ``number`` is that of the response in its session."""
        self._form = form
        self._number = number
        self._part: _PcmPart | _OpusPart | None = None
        self._at: fx.PartAt | None = None
        self._samples = 0
        """Of the response so far."""

    def begins(self, at: fx.PartAt) -> bool:
        """Whether nothing of this part was framed yet, and its client is to be told of it."""
        return at != self._at

    def started(self, at: fx.PartAt, epoch: int) -> Json:
        """Begin a part; return what says which one the frames that follow belong to."""
        self._at = at
        made = _PcmPart if self._form is BinaryFormat.PCM16 else _OpusPart
        self._part = made(partial(self._frame, at, epoch), self._samples)
        return {
            **at_json(at),
            "number": self._number,
            "epoch": epoch,
            "format": self._form.value,
            "sample_rate": CORE_RATE,
        }

    def feed(self, pcm: bytes) -> Iterator[Frame]:
        """Yield frames for more of the part, s16le at 24 kHz."""
        assert self._at is not None
        assert self._part is not None
        self._samples += len(pcm) // SAMPLE_BYTES
        for start in range(0, len(pcm), FRAME_BYTES):
            yield self._part.feed(self._at.response_id, pcm[start : start + FRAME_BYTES])

    def flush(self) -> Iterator[Frame]:
        """Yield the end of the part, if it had any audio."""
        if self._at is not None and self._part is not None:
            yield self._part.end(self._at.response_id)
        self._part = self._at = None

    def _frame(
        self,
        at: fx.PartAt,
        epoch: int,
        payload: bytes,
        samples: range,
        last: bool,
    ) -> Frame:
        """Return a frame whose payload stands for ``samples`` of the response."""
        kind = Kind.PCM16 if self._form is BinaryFormat.PCM16 else Kind.OPUS
        position_ms = samples.start // _SAMPLES_PER_MS
        data = BinaryFrame(kind, payload, epoch, self._number, position_ms, last).pack()
        return Frame(data, at.response_id, len(samples) / _SAMPLES_PER_MS)


_Make = Callable[[bytes, range, bool], Frame]


class _PcmPart:
    def __init__(self, make: _Make, begins: int) -> None:
        self._make = make
        self._end = begins

    def feed(self, _response_id: str, pcm: bytes) -> Frame:
        start, self._end = self._end, self._end + len(pcm) // SAMPLE_BYTES
        return self._make(pcm, range(start, self._end), False)

    def end(self, _response_id: str) -> Frame:
        return self._make(b"", range(self._end, self._end), True)


class _OpusPart:
    """Encodes in threads, one call after the other; made where the loop is."""

    def __init__(self, make: _Make, begins: int) -> None:
        self._make = make
        self._begins = begins
        self._encoder: OpusEncoder | None = None
        self._fed = 0
        self._packets = 0

    def feed(self, response_id: str, pcm: bytes) -> Frame:
        ms = len(pcm) / SAMPLE_BYTES / _SAMPLES_PER_MS
        return Frame(SlowFrames(partial(self._encode, pcm), len(pcm)), response_id, ms)

    def end(self, response_id: str) -> Frame:
        return Frame(SlowFrames(self._flush, 0), response_id)

    def _encode(self, pcm: bytes) -> Sequence[Frame]:
        if self._encoder is None:
            self._encoder = OpusEncoder()
        self._fed += len(pcm) // SAMPLE_BYTES
        return [self._packet(packet, False) for packet in self._encoder.feed(pcm)]

    def _flush(self) -> Sequence[Frame]:
        packets = [] if self._encoder is None else self._encoder.flush()
        return [
            self._packet(packet, number == len(packets)) for number, packet in enumerate(packets, 1)
        ]

    def _packet(self, packet: bytes, last: bool) -> Frame:
        start = self._packets * FRAME_SAMPLES - PRE_SKIP
        self._packets += 1
        # Neither what the encoder looks ahead nor the silence at the end is part of it.
        first, end = max(0, start), min(start + FRAME_SAMPLES, self._fed)
        return self._make(packet, range(self._begins + first, self._begins + end), last)
