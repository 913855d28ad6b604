"""G.711 telephone audio: one byte a sample, µ-law or A-law (ITU-T G.711).

Decoding gives the 14-bit (µ-law) or 13-bit (A-law) values of the Recommendation, scaled
to 16 bits. Encoding takes the code whose decision interval holds the sample.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .pcm import SAMPLE_BYTES, PcmError

# Added to a 14-bit magnitude, so that every segment starts at a power of two.
_ULAW_BIAS = 33
# The largest 14-bit magnitude with a code of its own; louder ones share the last.
_ULAW_CLIP = 8158
# A-law flips every second bit, to give idle lines transitions.
_ALAW_FLIP = 0x55


def ulaw_decode(data: bytes) -> bytes:
    """Return the s16le samples of µ-law ``data``, one a byte. Any bytes are valid."""
    return _ULAW_TO_S16[np.frombuffer(data, np.uint8)].tobytes()


def ulaw_encode(pcm: bytes) -> bytes:
    """Return s16le ``pcm`` as µ-law.

    Raises:
        PcmError: ``pcm`` ends within a sample.
    """
    return _S16_TO_ULAW[_table_index(pcm)].tobytes()


def alaw_decode(data: bytes) -> bytes:
    """Return the s16le samples of A-law ``data``, one a byte. Any bytes are valid."""
    return _ALAW_TO_S16[np.frombuffer(data, np.uint8)].tobytes()


def alaw_encode(pcm: bytes) -> bytes:
    """Return s16le ``pcm`` as A-law.

    Raises:
        PcmError: ``pcm`` ends within a sample.
    """
    return _S16_TO_ALAW[_table_index(pcm)].tobytes()


def _table_index(pcm: bytes) -> NDArray[np.uint16]:
    if len(pcm) % SAMPLE_BYTES:
        raise PcmError(f"expected an even number of s16le bytes, got {len(pcm)}")
    return np.frombuffer(pcm, "<u2")


def _ulaw_to_s16() -> NDArray[np.int16]:
    code = ~np.arange(256) & 0xFF
    segment = code >> 4 & 7
    magnitude = (((code & 15) * 2 + _ULAW_BIAS) << segment) - _ULAW_BIAS
    return (np.where(code & 0x80, -magnitude, magnitude) * 4).astype("<i2")


def _s16_to_ulaw() -> NDArray[np.uint8]:
    value = _every_int16() >> 2
    biased = np.minimum(np.abs(value), _ULAW_CLIP) + _ULAW_BIAS
    segment = _bit_length(biased) - 6
    code: NDArray[np.int64] = segment << 4 | biased >> (segment + 1) & 15
    code ^= np.where(value < 0, 0x7F, 0xFF)
    return code.astype(np.uint8)


def _alaw_to_s16() -> NDArray[np.int16]:
    code = np.arange(256) ^ _ALAW_FLIP
    segment = code >> 4 & 7
    step = (code & 15) * 2 + 1
    magnitude = np.where(segment == 0, step, (step + 32) << np.maximum(segment - 1, 0))
    return (np.where(code & 0x80, magnitude, -magnitude) * 8).astype("<i2")


def _s16_to_alaw() -> NDArray[np.uint8]:
    value = _every_int16() >> 3
    # One's complement: the intervals of negative values end where the positive ones start.
    magnitude = np.where(value < 0, ~value, value)
    segment = np.maximum(_bit_length(magnitude) - 5, 0)
    code: NDArray[np.int64] = segment << 4 | magnitude >> np.maximum(segment, 1) & 15
    code ^= np.where(value < 0, _ALAW_FLIP, _ALAW_FLIP | 0x80)
    return code.astype(np.uint8)


def _every_int16() -> NDArray[np.int64]:
    """All samples in the order of their bits, read as an unsigned number."""
    return np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int64)


def _bit_length(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.frexp(values)[1].astype(np.int64)


_ULAW_TO_S16 = _ulaw_to_s16()
_S16_TO_ULAW = _s16_to_ulaw()
_ALAW_TO_S16 = _alaw_to_s16()
_S16_TO_ALAW = _s16_to_alaw()
