"""Audio files written while the sound is still being made.

An :class:`Encoder` takes s16le mono at :data:`RATE` in pieces of any size and returns the bytes
of a file, each as soon as its codec has it. No file needs to be gone back to: headers say that
the length is not known, and MP3 has no Xing frame, whose counts would be a guess.

======  ==================  ================  ==================  ==================
form    is                  first bytes of    lead, ms            bits a second
                            sound after, ms
======  ==================  ================  ==================  ==================
mp3     MPEG-2 Layer III    48                46                  64 000, constant
opus    Opus in Ogg         20                none, it is marked  32 000, variable
aac     AAC-LC in ADTS      85                43                  64 000, about
flac    FLAC                20                none                lossless
wav     RIFF, s16le         at once           none                384 000
pcm     s16le               at once           none                384 000
======  ==================  ================  ==================  ==================

"Lead" is the silence that a decoder gives back ahead of the sound: MP3 and ADTS have no place
to say how long it is (:attr:`Encoder.lead_samples`). After it comes all of the sound, then
silence up to the end of the codec's frame; Opus, FLAC, WAV and PCM end with the last sample.

The codecs are PyAV's. It is loaded when the first encoder that needs it is made, which takes
60 ms once, so not on an event loop; WAV and PCM need none.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from struct import pack
from typing import Any, ClassVar, Protocol, SupportsBytes, cast

import numpy as np
from numpy.typing import NDArray

from .opus import PRE_SKIP, OpusEncoder, OpusMissing
from .pcm import SAMPLE_BYTES, to_float
from .wav import wav_header

RATE = 24_000
"""Samples a second of what goes in: what speech has everywhere in the server."""

BIT_RATE = 64_000
"""Bits a second of MP3 and AAC: speech up to 12 kHz is clear at that."""

_FLAC_FRAME = 480
"""Samples of a FLAC frame, 20 ms: larger ones save a few percent and are waited for."""

_PAGE_PACKETS = 50
"""Most Opus packets in an Ogg page: its table has 255 places, a packet takes at most 5."""


_LAME_GAIN = 0.95
"""LAME makes sound softer by this, unasked; here all forms are as loud as what went in."""


class EncoderMissing(RuntimeError):
    """PyAV is not installed, or was built without the codec."""


class Shaper(Protocol):
    """Changes a stream of s16le at :data:`RATE`, and not how long it is."""

    def feed(self, pcm: bytes) -> bytes:
        """Return what is ready after ``pcm``, which may end within a sample."""
        ...

    def flush(self) -> bytes:
        """Return what was held back."""
        ...


class Encoder(ABC):
    """Writes one file. It starts no threads and holds back less than a tenth of a second."""

    content_type: ClassVar[str]
    """Of the file, as HTTP names it."""

    lead_samples: ClassVar[int] = 0
    """Samples at :data:`RATE` that a decoder gives back ahead of the sound."""

    def __init__(self) -> None:
        self._header = b""
        self._half_sample = b""
        self._over = False
        self.shaper: Shaper | None = None
        """What the sound goes through first."""

    def feed(self, pcm: bytes) -> bytes:
        """Return what of the file is ready after ``pcm``, s16le mono at :data:`RATE`.

        The first call returns the header too, even if ``pcm`` is empty. ``pcm`` may end within
        a sample, if what follows goes on there.

        Raises:
            ValueError: the file is finished or closed.
        """
        if self._over:
            raise ValueError("this encoder is finished")
        return self._take(pcm if self.shaper is None else self.shaper.feed(pcm))

    def _take(self, pcm: bytes) -> bytes:
        pcm = self._half_sample + pcm
        whole = len(pcm) - len(pcm) % SAMPLE_BYTES
        self._half_sample = pcm[whole:]
        header, self._header = self._header, b""
        return header + self._encode(pcm[:whole])

    def finish(self) -> bytes:
        """Return the rest of the file, and free what the encoder holds; then nothing.

        Half a sample at the end is dropped: its other half never came.
        """
        if self._over:
            return b""
        rest = self._take(b"" if self.shaper is None else self.shaper.flush()) + self._end()
        self.close()
        return rest

    def close(self) -> None:
        """Free what the encoder holds, finished or not. Idempotent."""
        self._over = True
        self._header = self._half_sample = b""
        self._free()

    @abstractmethod
    def _encode(self, pcm: bytes) -> bytes:
        """Return what is ready after whole samples."""

    def _end(self) -> bytes:
        """Return what was held back."""
        return b""

    @abstractmethod
    def _free(self) -> None:
        """Let go of what the library made."""


class _Pcm(Encoder):
    content_type = "audio/pcm"

    def _encode(self, pcm: bytes) -> bytes:
        return pcm

    def _free(self) -> None:
        pass


class _Wav(_Pcm):
    content_type = "audio/wav"

    def __init__(self) -> None:
        super().__init__()
        self._header = wav_header(RATE, None)


class _Context(Protocol):
    """What is used of PyAV's ``AudioCodecContext``, whose types are generic and not bound."""

    sample_rate: int
    bit_rate: int
    thread_count: int
    format: Any
    layout: Any
    options: dict[str, str]
    extradata: bytes | None

    @property
    def frame_size(self) -> int: ...

    def open(self) -> None: ...

    def encode(self, frame: Any) -> Sequence[SupportsBytes]: ...


class _Framed(Encoder):
    """Cuts the sound into the frames of a codec of PyAV."""

    _codec: ClassVar[str]
    _format: ClassVar[str] = "s16"
    _options: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        super().__init__()
        context = _context(self._codec)
        context.sample_rate = RATE
        context.format = self._format
        context.layout = "mono"
        context.bit_rate = BIT_RATE
        context.thread_count = 1
        context.options = dict(self._options)
        context.open()
        self._context: _Context | None = context
        self._frame_bytes = context.frame_size * SAMPLE_BYTES
        self._pending = b""
        self._taken = 0
        """Samples that the codec was given."""

        self._given = 0
        """Frames that it gave back."""

    def _encode(self, pcm: bytes) -> bytes:
        pending = self._pending + pcm
        whole = len(pending) - len(pending) % self._frame_bytes
        self._pending = pending[whole:]
        return b"".join(
            self._frame(pending[start : start + self._frame_bytes])
            for start in range(0, whole, self._frame_bytes)
        )

    def _end(self) -> bytes:
        last = self._frame(self._pending) if self._pending else b""
        # A codec that was given nothing has nothing to return, and some don't expect the question.
        return last + self._packets(None) if self._taken else b""

    def _free(self) -> None:
        self._context = None
        self._pending = b""

    def _frame(self, pcm: bytes) -> bytes:
        from av.audio.frame import AudioFrame

        frame = AudioFrame.from_ndarray(self._samples(pcm)[None, :], self._format, "mono")
        frame.sample_rate = RATE
        frame.pts = self._taken
        self._taken += len(pcm) // SAMPLE_BYTES
        return self._packets(frame)

    def _packets(self, frame: object) -> bytes:
        assert self._context is not None
        packets = [packet for packet in map(bytes, self._context.encode(frame)) if packet]
        if frame is None:
            # LAME ends with a frame more than is needed.
            samples = self.lead_samples + self._taken
            needed = -(-samples * SAMPLE_BYTES // self._frame_bytes)
            del packets[max(0, needed - self._given) :]
        self._given += len(packets)
        return b"".join(map(self._wrap, packets))

    def _samples(self, pcm: bytes) -> NDArray[Any]:
        return np.frombuffer(pcm, "<i2")

    def _wrap(self, packet: bytes) -> bytes:
        return packet


class _Mp3(_Framed):
    content_type = "audio/mpeg"
    lead_samples = 1105
    _codec = "libmp3lame"
    _format = "fltp"
    # Without a reservoir each frame stands alone, and leaves as soon as it is full.
    _options: ClassVar = {"reservoir": "0"}

    def _samples(self, pcm: bytes) -> NDArray[Any]:
        return to_float(pcm) / np.float32(_LAME_GAIN)


class _Aac(_Framed):
    content_type = "audio/aac"
    lead_samples = 1024
    _codec = "aac"
    _format = "fltp"

    def _samples(self, pcm: bytes) -> NDArray[Any]:
        return to_float(pcm)

    def _wrap(self, packet: bytes) -> bytes:
        # Sync without CRC; AAC-LC, rate 6 (24 kHz), one channel; length; fullness unknown.
        length = len(packet) + 7
        bits = 0xFFF1 << 40 | 1 << 38 | 6 << 34 | 1 << 30 | length << 13 | 0x7FF << 2
        return bits.to_bytes(7, "big") + packet


class _Flac(_Framed):
    content_type = "audio/flac"
    _codec = "flac"
    _options: ClassVar = {"frame_size": str(_FLAC_FRAME)}

    def __init__(self) -> None:
        super().__init__()
        assert self._context is not None
        # STREAMINFO as it is before the first frame: no length and no checksum.
        info = bytes(self._context.extradata or b"")
        self._header = b"fLaC" + pack(">I", 0x80 << 24 | len(info)) + info


class _OggOpus(Encoder):
    content_type = "audio/opus"

    def __init__(self) -> None:
        super().__init__()
        try:
            self._opus: OpusEncoder | None = OpusEncoder()
        except OpusMissing as error:
            raise EncoderMissing(str(error)) from None
        self._pages = 0
        self._packets = 0
        self._samples = 0
        vendor = b"antiphon"
        # Version 1, one channel; samples to skip, at 48 kHz; rate that went in; no gain; mono.
        head = b"OpusHead" + pack("<BBHIhB", 1, 1, PRE_SKIP * _GRANULE, RATE, 0, 0)
        tags = b"OpusTags" + pack("<I", len(vendor)) + vendor + pack("<I", 0)
        self._header = self._page([head], 0, _FIRST_PAGE) + self._page([tags], 0)

    def _encode(self, pcm: bytes) -> bytes:
        assert self._opus is not None
        self._samples += len(pcm) // SAMPLE_BYTES
        packets = self._opus.feed(pcm)
        pages: list[bytes] = []
        for start in range(0, len(packets), _PAGE_PACKETS):
            some = packets[start : start + _PAGE_PACKETS]
            self._packets += len(some)
            pages.append(self._page(some, self._packets * _PACKET_GRANULES))
        return b"".join(pages)

    def _end(self) -> bytes:
        assert self._opus is not None
        # The last position tells a decoder how much of the last packet to give back.
        end = (PRE_SKIP + self._samples) * _GRANULE if self._samples else 0
        return self._page(self._opus.flush(), end, _LAST_PAGE)

    def _free(self) -> None:
        self._opus = None

    def _page(self, packets: Sequence[bytes], position: int, kind: int = 0) -> bytes:
        """Return an Ogg page; ``position`` counts samples at 48 kHz up to its end."""
        lacing = b"".join(
            b"\xff" * (len(each) // 255) + bytes([len(each) % 255]) for each in packets
        )
        head = pack("<4sBBqII", b"OggS", 0, kind, position, _SERIAL, self._pages)
        tail = bytes([len(lacing)]) + lacing + b"".join(packets)
        self._pages += 1
        return head + pack("<I", _ogg_crc(head + bytes(4) + tail)) + tail


_GRANULE = 48_000 // RATE
"""Ogg counts Opus at 48 kHz, whatever its rate."""

_PACKET_GRANULES = 960
_FIRST_PAGE, _LAST_PAGE = 2, 4
# One stream in a file, so any number does.
_SERIAL = 1

_REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))
"""Each byte with its bits in the other order."""


def _ogg_crc(page: bytes) -> int:
    """Ogg's checksum: zlib's polynomial, the bits the other way round, from and to zero."""
    mirrored = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_REVERSED), "big")


_MAKERS: dict[str, Callable[[], Encoder]] = {
    "mp3": _Mp3,
    "opus": _OggOpus,
    "aac": _Aac,
    "flac": _Flac,
    "wav": _Wav,
    "pcm": _Pcm,
}

FORMATS: tuple[str, ...] = tuple(_MAKERS)
"""What :func:`new_encoder` can be asked for."""


def new_encoder(form: str) -> Encoder:
    """Begin a file of one of :data:`FORMATS`.

    Raises:
        EncoderMissing: its codec is not there.
        ValueError: there is no such format.
    """
    if form not in _MAKERS:
        raise ValueError(f"expected one of {', '.join(FORMATS)}, got {form!r}")
    return _MAKERS[form]()


def _context(codec: str) -> _Context:
    try:
        from av.codec.codec import UnknownCodecError
        from av.codec.context import CodecContext
    except ImportError as error:
        raise EncoderMissing(f"encoding needs PyAV: {error}") from None
    try:
        return cast(_Context, CodecContext.create(codec, "w"))
    except UnknownCodecError:
        raise EncoderMissing(f"PyAV was built without {codec}") from None
