"""WAV files and streams, in and out."""

from __future__ import annotations

import io
import struct
import wave
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .pcm import SAMPLE_BYTES, PcmError, from_float

# RIFF sizes are 32 bits; all ones is what streams say whose length nobody knows yet.
_UNKNOWN_SIZE = 0xFFFFFFFF
# What the RIFF size counts besides the samples: "WAVE", the fmt chunk, the data header.
_HEADER_REST = 36
# Any real recording, and a bound on how much a conversion of the rate can inflate it.
_RATES = range(1_000, 384_001)


class WavError(ValueError):
    """The data is not a WAV file that can be read or written."""


@dataclass(frozen=True, slots=True)
class Wav:
    """The audio of a WAV file."""

    pcm: bytes
    """s16le, mono."""

    rate: int
    """Samples per second."""


def wav_header(rate: int, data_bytes: int | None) -> bytes:
    """Return the 44 bytes that go ahead of ``data_bytes`` of s16le mono.

    ``None`` stands for a stream whose length is not known; its header says 0xFFFFFFFF.

    Raises:
        WavError: the rate or the length does not fit a WAV file.
    """
    if rate not in _RATES:
        raise WavError(f"expected 1000 to 384000 samples a second, got {rate}")
    if data_bytes is not None and not 0 <= data_bytes < _UNKNOWN_SIZE - _HEADER_REST:
        raise WavError(f"expected 0 to 4 GiB of audio, got {data_bytes} bytes")
    data_size = _UNKNOWN_SIZE if data_bytes is None else data_bytes
    riff_size = _UNKNOWN_SIZE if data_bytes is None else data_bytes + _HEADER_REST
    riff = struct.pack("<4sI4s", b"RIFF", riff_size, b"WAVE")
    # PCM, one channel, rate, bytes a second, bytes a frame, bits a sample.
    layout = (1, 1, rate, rate * SAMPLE_BYTES, SAMPLE_BYTES, SAMPLE_BYTES * 8)
    return riff + struct.pack("<4sIHHIIHH4sI", b"fmt ", 16, *layout, b"data", data_size)


def write_wav(pcm: bytes, rate: int) -> bytes:
    """Return a whole WAV file of s16le mono.

    Raises:
        PcmError: ``pcm`` ends within a sample.
        WavError: the rate or the length does not fit a WAV file.
    """
    if len(pcm) % SAMPLE_BYTES:
        raise PcmError(f"expected an even number of s16le bytes, got {len(pcm)}")
    return wav_header(rate, len(pcm)) + pcm


def read_wav(data: bytes) -> Wav:
    """Return the audio of a WAV file of PCM, 8 to 32 bits, its channels mixed to one.

    A file that is shorter than it says, or says that it is a stream, gives the whole frames
    that are there.

    Raises:
        WavError: ``data`` is anything else.
    """
    frames, (channels, width, rate) = _read_frames(data)
    if width not in _DECODERS:
        raise WavError(f"expected 8, 16, 24 or 32 bits a sample, got {width * 8}")
    if rate not in _RATES:
        raise WavError(f"expected 1000 to 384000 samples a second, got {rate}")
    whole = len(frames) - len(frames) % (channels * width)
    samples = _DECODERS[width](frames[:whole])
    return Wav(from_float(samples.reshape(-1, channels).mean(axis=1)), rate)


def _from_u8(frames: bytes) -> NDArray[np.float64]:
    return (np.frombuffer(frames, np.uint8) - 128.0) / 2**7


def _from_s16(frames: bytes) -> NDArray[np.float64]:
    return np.frombuffer(frames, "<i2") / 2**15


def _from_s24(frames: bytes) -> NDArray[np.float64]:
    # Each sample becomes the upper three bytes of an int32, which carries its sign.
    padded = np.zeros((len(frames) // 3, 4), np.uint8)
    padded[:, 1:] = np.frombuffer(frames, np.uint8).reshape(-1, 3)
    return _from_s32(padded.tobytes())


def _from_s32(frames: bytes) -> NDArray[np.float64]:
    return np.frombuffer(frames, "<i4") / 2**31


_DECODERS = {1: _from_u8, 2: _from_s16, 3: _from_s24, 4: _from_s32}
"""From frames to samples in [-1, 1), by bytes a sample."""


def _read_frames(data: bytes) -> tuple[bytes, tuple[int, int, int]]:
    """Raw frames, and their channels, bytes a sample, and rate."""
    try:
        with wave.open(io.BytesIO(data), "rb") as reader:
            layout = (reader.getnchannels(), reader.getsampwidth(), reader.getframerate())
            return reader.readframes(reader.getnframes()), layout
    except wave.Error as error:
        raise WavError(f"not a WAV file of PCM: {error}") from error
    except (EOFError, RuntimeError) as error:
        # Raised by the standard library where a chunk is cut short or reaches too far.
        raise WavError("not a WAV file of PCM: the file is damaged") from error
