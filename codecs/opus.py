"""Opus, the codec of the web: 20 ms of speech in about 80 bytes.

One adapter around the libopus that PyAV brings. It is loaded when the first encoder or
decoder is made, since that takes 60 ms and 17 MiB: see :func:`load`.

An encoder holds audio back in two ways: until a packet is full, at most 20 ms, and by the
6.5 ms that libopus looks ahead. A stream therefore begins with :data:`PRE_SKIP` samples of
nothing, which a decoder drops, and packet i of a stream holds the samples from
``i * FRAME_SAMPLES - PRE_SKIP`` on. A decoder works at 48 kHz, whatever was encoded, and
holds back 5 ms on the way down to 24 kHz.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal, Protocol, SupportsBytes, cast

import numpy as np
from numpy.typing import NDArray

from .pcm import SAMPLE_BYTES
from .resample import StreamResampler

RATE = 24_000
"""Samples a second of what is encoded and of what is decoded."""

FRAME_MS = 20
FRAME_SAMPLES = RATE * FRAME_MS // 1000
"""Samples of one packet of the encoder."""

PRE_SKIP = 156
"""Samples at :data:`RATE` by which libopus delays what it encodes: 6.5 ms."""

BIT_RATE = 32_000
"""Bits a second: speech up to 12 kHz is clear at that."""

MAX_PACKET_MS = 120
"""Most that one packet can hold, by the standard."""

MAX_PACKET_BYTES = 61_440
"""A packet has at most 48 frames of 1275 bytes each."""

_DECODED_RATE = 48_000
_FRAME_BYTES = FRAME_SAMPLES * SAMPLE_BYTES

# As good for speech as the highest at this rate, at 60 % of its cost.
_COMPLEXITY = 5


class _Samples(Protocol):
    def to_ndarray(self) -> NDArray[np.int16]: ...


class _Context(Protocol):
    """What is used of PyAV's ``AudioCodecContext``, whose types are generic and not bound."""

    sample_rate: int
    bit_rate: int
    format: Any
    layout: Any
    options: dict[str, str]

    def open(self) -> None: ...

    def encode(self, frame: Any) -> list[SupportsBytes]: ...

    def decode(self, packet: Any) -> list[_Samples]: ...


class OpusError(ValueError):
    """The bytes are no Opus packet."""


class OpusMissing(RuntimeError):
    """PyAV is not installed, or was built without libopus."""


def installed() -> bool:
    """Whether there is a PyAV to be loaded; costs nothing."""
    return find_spec("av") is not None


_loaded = False


def loaded() -> bool:
    """Whether encoders and decoders can be made without waiting for a library."""
    return _loaded


def load() -> None:
    """Load the library, once; takes 60 ms, so not on an event loop.

    Raises:
        OpusMissing: it is not there.
    """
    global _loaded
    _context("r")
    _loaded = True


class OpusEncoder:
    """Encodes one stream. However its input is split, the packets are the same."""

    def __init__(self, bit_rate: int = BIT_RATE) -> None:
        """Begin a stream of about ``bit_rate`` bits a second, 6,000 to 128,000.

        Raises:
            OpusMissing: libopus is not there.
            ValueError: the bit rate is out of its range.
        """
        if not 6_000 <= bit_rate <= 128_000:
            raise ValueError(f"expected a bit rate from 6000 to 128000, got {bit_rate}")
        self._context = _context("w")
        self._context.sample_rate = RATE
        self._context.format = "s16"
        self._context.bit_rate = bit_rate
        self._context.options = {
            "application": "audio",
            "frame_duration": str(FRAME_MS),
            "compression_level": str(_COMPLEXITY),
        }
        self._context.open()
        self._pending = b""
        self._taken = 0
        """Samples that the encoder was given, in whole packets."""

        self._last = 0
        """Where the last sample that was fed lies among them."""

    def feed(self, pcm: bytes) -> list[bytes]:
        """Return the packets that are full after ``pcm``, s16le at :data:`RATE`.

        It may end within a sample, if what follows goes on there.
        """
        pending = self._pending + pcm
        whole = len(pending) - len(pending) % _FRAME_BYTES
        packets = [
            packet
            for start in range(0, whole, _FRAME_BYTES)
            for packet in self._encode(pending[start : start + _FRAME_BYTES])
        ]
        self._pending = pending[whole:]
        if pcm:
            self._last = self._taken + len(self._pending) // SAMPLE_BYTES
        return packets

    def flush(self) -> list[bytes]:
        """Return the packets that hold the rest of what was fed, then silence.

        The stream may go on: what is fed next comes after that silence, at most 26.5 ms.
        """
        packets: list[bytes] = []
        while self._taken < self._last + PRE_SKIP and self._last:
            packets += self._encode(self._pending.ljust(_FRAME_BYTES, b"\0"))
            self._pending = b""
        self._last = 0
        return packets

    def _encode(self, pcm: bytes) -> list[bytes]:
        from av.audio.frame import AudioFrame

        frame = AudioFrame.from_ndarray(np.frombuffer(pcm, "<i2")[None, :], "s16", "mono")
        frame.sample_rate = RATE
        frame.pts = self._taken
        self._taken += FRAME_SAMPLES
        return [bytes(packet) for packet in self._context.encode(frame)]


class OpusDecoder:
    """Decodes one stream of packets of any length and bandwidth to s16le at :data:`RATE`."""

    def __init__(self) -> None:
        """Begin a stream.

        Raises:
            OpusMissing: libopus is not there.
        """
        self._context = _context("r")
        self._context.sample_rate = _DECODED_RATE
        self._context.open()
        self._down = StreamResampler(_DECODED_RATE, RATE)
        self._skip = PRE_SKIP * _DECODED_RATE // RATE * SAMPLE_BYTES

    def feed(self, packet: bytes) -> bytes:
        """Return what is ready after a packet; at most :data:`MAX_PACKET_MS` and 5 ms.

        Raises:
            OpusError: it is no Opus packet. The stream goes on with the next.
        """
        from av.error import FFmpegError
        from av.packet import Packet

        if not packet:
            # To the library it would be the end of the stream.
            raise OpusError("an Opus packet has at least one byte")
        if len(packet) > MAX_PACKET_BYTES:
            raise OpusError(f"an Opus packet has at most {MAX_PACKET_BYTES} bytes")
        try:
            frames = self._context.decode(Packet(packet))
        except FFmpegError:
            raise OpusError("these bytes are no Opus packet") from None
        pcm = b"".join(frame.to_ndarray().astype("<i2", copy=False).tobytes() for frame in frames)
        skipped = min(self._skip, len(pcm))
        self._skip -= skipped
        return self._down.feed(pcm[skipped:])

    def flush(self) -> bytes:
        """Return the 5 ms that are held back. The stream may go on."""
        return self._down.flush()


def _context(mode: Literal["r", "w"]) -> _Context:
    try:
        from av.codec.codec import UnknownCodecError
        from av.codec.context import CodecContext
    except ImportError as error:
        raise OpusMissing(f"Opus needs PyAV: {error}") from None
    try:
        made = cast(_Context, CodecContext.create("libopus", mode))
    except UnknownCodecError:
        raise OpusMissing("PyAV was built without libopus") from None
    made.layout = "mono"
    return made
