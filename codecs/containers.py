"""Media files as FFmpeg opens them, through PyAV, and their frames as mono samples.

Files come from strangers: only what is listed here is opened, nothing that a file names is, and
no allocation is larger than :data:`MAX_ALLOCATION`, whatever a file states.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from .pcm import from_float
from .resample import FloatStreamResampler

MAX_ALLOCATION = 128 << 20
"""Bytes that FFmpeg may allocate at once, in the whole process."""

_RATES = range(1_000, 384_001)
"""Rates of files: any real recording, and a bound on what converting can make of a sample."""

_CHANNELS = range(1, 65)
_FORMATS = frozenset("u8 u8p s16 s16p s32 s32p flt fltp dbl dblp".split())

_STEPS = 10
"""Parts of a second in which samples are converted."""

CONTAINERS = (
    "aac aiff amr asf au avi caf flac flv matroska mp3 mpeg mpegts ogg wav w64 webm"
).split()

INDEXED = ["mov"]
"""MP4 and its kin, opened only after a look at their index."""

_CODECS = (
    "aac aac_latm ac3 adpcm_ima_qt adpcm_ima_wav adpcm_ms alac amrnb amrwb eac3 flac gsm gsm_ms "
    "libopus mp1 mp1float mp2 mp2float mp3 mp3float opus pcm_alaw pcm_f32be pcm_f32le pcm_f64be "
    "pcm_f64le pcm_mulaw pcm_s16be pcm_s16le pcm_s24be pcm_s24le pcm_s32be pcm_s32le pcm_s8 "
    "pcm_u8 speex vorbis wmapro wmav1 wmav2"
).split()

Samples: TypeAlias = NDArray[np.float32]


class Frame(Protocol):
    """What is used of PyAV's ``AudioFrame``; its types are generic and not bound."""

    samples: int
    sample_rate: int
    format: Any
    layout: Any

    def to_ndarray(self) -> NDArray[Any]:
        """Samples: ``(channels, n)`` if planar, else ``(1, n * channels)``."""
        ...


class Packet(Protocol):
    """What is used of PyAV's ``Packet``."""

    size: int

    def decode(self) -> Sequence[Frame]:
        """Frames that are ready."""
        ...


class Stream(Protocol):
    """What is used of PyAV's ``AudioStream``."""

    duration: int | None
    time_base: Any
    codec_context: Any


class Container(Protocol):
    """What is used of PyAV's ``InputContainer``."""

    duration: int | None
    streams: Any

    def demux(self, stream: Stream) -> Iterator[Packet]:
        """Packets from where it is to the end."""
        ...

    def close(self) -> None:
        """Free it all."""
        ...


class _File:
    """What FFmpeg sees of a file object: no name, which it would read things into."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source

    def read(self, size: int) -> bytes:
        # PyAV copies all that it is given, whatever it asked for.
        return self._source.read(size)[:size]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        return self._source.tell()


class MonoStream:
    """Joins frames of any kind to one stream of s16le mono at one rate."""

    def __init__(self, rate: int) -> None:
        """Begin a stream of ``rate`` samples a second."""
        self._rate = rate
        self._kind: _Kind | None = None
        self._stream = FloatStreamResampler(rate, rate)
        self._held: list[NDArray[Any]] = []
        self._held_samples = 0

    def feed(self, frame: Frame) -> Iterator[bytes]:
        """Return what is ready after a sane frame, in pieces of well below a second."""
        kind = _Kind(frame.sample_rate, frame.layout.nb_channels, frame.format.is_planar)
        if kind != self._kind:
            yield from self.flush()
            self._kind = kind
            self._stream = FloatStreamResampler(kind.rate, self._rate)
        self._held.append(frame.to_ndarray())
        self._held_samples += frame.samples
        # Frames may be as short as a sample, at a cost each.
        if self._held_samples >= kind.rate // _STEPS:
            yield from self._converted(kind)

    def flush(self) -> Iterator[bytes]:
        """Return what is held back. The stream may go on."""
        if self._kind is not None:
            yield from self._converted(self._kind)
            yield from_float(self._stream.flush())

    def _converted(self, kind: _Kind) -> Iterator[bytes]:
        if not self._held:
            return
        samples = _mono(np.concatenate(self._held, axis=1), kind)
        self._held.clear()
        self._held_samples = 0
        # Slices, since what has few samples a second becomes much.
        step = kind.rate // _STEPS
        for at in range(0, len(samples), step):
            yield from_float(self._stream.feed(samples[at : at + step]))


class _Kind(NamedTuple):
    """What frames must have in common to be joined, beside the type of their samples."""

    rate: int
    channels: int
    planar: bool


def is_sane(frame: Frame) -> bool:
    """Whether a frame is of a kind that :class:`MonoStream` takes."""
    return (
        frame.sample_rate in _RATES
        and frame.layout.nb_channels in _CHANNELS
        and frame.format.name in _FORMATS
    )


def is_read(stream: Stream) -> bool:
    """Whether a stream is in a codec that is read."""
    context = stream.codec_context
    return context is not None and context.name in _CODECS


def _mono(values: NDArray[Any], kind: _Kind) -> Samples:
    """Mean of the channels in [-1, 1], shape ``(n,)``; what is not a number is silence."""
    bits = values.dtype.itemsize * 8
    floats = values.astype(np.float32)
    if values.dtype.kind == "f":
        np.nan_to_num(floats, copy=False, posinf=1.0, neginf=-1.0)
        np.clip(floats, -1.0, 1.0, out=floats)
    else:
        if values.dtype.kind == "u":
            floats -= 1 << (bits - 1)
        floats /= 1 << (bits - 1)
    if kind.planar:
        return cast(Samples, floats.mean(axis=0))
    return cast(Samples, floats.reshape(-1, kind.channels).mean(axis=1))


def open_container(
    source: BinaryIO, containers: Sequence[str], codecs: Sequence[str] = _CODECS
) -> Container | None:
    """Return the file opened as one of ``containers``, or ``None`` if it is none.

    ``codecs``: the only ones that are tried.

    Raises:
        ImportError: PyAV is not there.
        OSError: ``source`` could not be read.
    """
    import av
    from av.error import FFmpegError

    _bound_allocations(Path(av.__file__).parent)
    options = {
        "format_whitelist": ",".join(containers),
        "codec_whitelist": ",".join(codecs),
        "protocol_whitelist": "none",
        "max_streams": "64",
    }
    if containers is INDEXED:
        # A list of edits may repeat the whole index, entry by entry.
        options["advanced_editlist"] = "0"
    source.seek(0)
    try:
        opened = av.open(
            _File(source), "r", options=options, metadata_errors="replace", io_open=_refuse
        )
    except OSError as error:
        if isinstance(error, FFmpegError):
            return None
        raise
    except (FFmpegError, ValueError):
        return None
    return cast(Container, opened)


def _refuse(url: str, flags: int, options: dict[str, str]) -> BinaryIO:
    """Stand where FFmpeg would open a second file that the first one names."""
    raise ValueError("a media file may not name others")


@cache
def _bound_allocations(package: Path) -> None:
    """Have FFmpeg refuse what a file makes it allocate, where its library can be found.

    Many of its readers allocate, and clear, what a file says that it holds: up to 2 GiB.
    """
    for path in (*package.parent.glob("av.libs/libavutil*"), *package.glob(".dylibs/libavutil*")):
        library = ctypes.CDLL(str(path))
        library.av_max_alloc.argtypes = [ctypes.c_size_t]
        library.av_max_alloc.restype = None
        library.av_max_alloc(MAX_ALLOCATION)
