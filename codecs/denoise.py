# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Noise reduction of a stream, by WebRTC's noise suppressor."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, cast

from webrtc_noise_gain import AudioProcessor

from .pcm import SAMPLE_BYTES

RATE = 24_000
"""Samples a second, in and out."""

Field: TypeAlias = Literal["near_field", "far_field"]
"""A microphone at the mouth, or one across the room."""

FRAME_SAMPLES = 160
"""What the suppressor takes at once. It is made for 16 kHz, where this is 10 ms, and judges
each band by itself; at 24 kHz the frames last 6.7 ms, and no band is lost to resampling."""

DELAY_SAMPLES = 96
"""By which the suppressor's output lags behind: the overlap of its windows, 4 ms."""

LEVELS: dict[Field, int] = {"near_field": 1, "far_field": 2}
"""How much noise is taken away, of 1 to 4. More of it takes away speech as well."""

_FRAME_BYTES = FRAME_SAMPLES * SAMPLE_BYTES
_DELAY_BYTES = DELAY_SAMPLES * SAMPLE_BYTES


class _Processed(Protocol):
    @property
    def audio(self) -> bytes: ...


class _Suppressor(Protocol):
    def Process10ms(self, audio: bytes) -> _Processed: ...


class Denoiser:
    """Takes steady noise out of one stream of s16le, mono, 24 kHz.

    However the bytes are split, also within a sample, the outputs concatenate to the same
    bytes, as many as went in: each sample of the output lies where it lay in the input. At
    most 10.6 ms are held back.
    """

    def __init__(self, field: Field) -> None:
        """Begin a stream; ``field`` is where the microphone is."""
        self._level = LEVELS[field]
        self._pending = b""
        self._begin()

    def feed(self, pcm: bytes) -> bytes:
        """Return the whole samples that are ready after ``pcm``, which may end within one."""
        heard = self._pending + pcm
        whole = len(heard) - len(heard) % _FRAME_BYTES
        self._pending = heard[whole:]
        return self._aligned(heard[:whole])

    def flush(self) -> bytes:
        """Return the samples still held back, then be ready for a new stream.

        Half a sample at the end is dropped: its other half never came.
        """
        left = len(self._pending) - len(self._pending) % SAMPLE_BYTES
        held = left + _DELAY_BYTES - self._ahead
        filled = -(-(left + _DELAY_BYTES) // _FRAME_BYTES) * _FRAME_BYTES
        tail = self._aligned(self._pending[:left].ljust(filled, b"\0"))[:held]
        self._begin()
        return tail

    def _begin(self) -> None:
        self._suppressor = cast(_Suppressor, AudioProcessor(0, self._level))
        self._pending = b""
        self._ahead = _DELAY_BYTES
        """Output still to be dropped: it lies ahead of the first sample."""

    def _aligned(self, frames: bytes) -> bytes:
        process = self._suppressor.Process10ms
        starts = range(0, len(frames), _FRAME_BYTES)
        clean = b"".join(process(frames[at : at + _FRAME_BYTES]).audio for at in starts)
        dropped = min(self._ahead, len(clean))
        self._ahead -= dropped
        return clean[dropped:]
