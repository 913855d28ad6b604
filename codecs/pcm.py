"""Raw audio as it travels: signed 16-bit little-endian mono samples, "s16le"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLE_BYTES = 2
"""Bytes of one s16le sample."""

FLOOR_DBFS = -100.0
"""What :func:`level_dbfs` calls silence: below the rounding noise of 16 bits (-98 dBFS), and
finite, so that it can be averaged and written as JSON."""

# A power of two: the way from s16le to float32 and back loses nothing.
_FULL_SCALE = 32768.0


class PcmError(ValueError):
    """The bytes or samples are not what s16le mono audio is made of."""


def to_float(pcm: bytes) -> NDArray[np.float32]:
    """Return the samples of ``pcm`` in [-1, 1), shape ``(n,)``.

    Raises:
        PcmError: ``pcm`` ends within a sample.
    """
    samples = _int16(pcm).astype(np.float32)
    samples *= 1 / _FULL_SCALE
    return samples


def from_float(samples: NDArray[np.floating[Any]]) -> bytes:
    """Return ``samples`` as s16le: scaled by 32768, rounded to nearest, clipped to 16 bits.

    ``samples`` has the shape ``(n,)``. NaN becomes silence.

    Raises:
        PcmError: ``samples`` has more than one axis.
    """
    if samples.ndim != 1:
        raise PcmError(f"expected mono samples of shape (n,), got shape {samples.shape}")
    # Clipped before scaling: the largest floats would overflow.
    scaled = np.clip(samples, -1.0, 1.0)
    scaled *= _FULL_SCALE
    np.rint(scaled, out=scaled)
    np.minimum(scaled, _FULL_SCALE - 1, out=scaled)
    np.nan_to_num(scaled, copy=False)
    return scaled.astype("<i2").tobytes()


def duration_ms(pcm_bytes_len: int, rate: int) -> float:
    """Return how long ``pcm_bytes_len`` bytes of s16le last at ``rate`` samples a second.

    Raises:
        PcmError: the length is negative or odd, or the rate is not positive.
    """
    if pcm_bytes_len < 0 or pcm_bytes_len % SAMPLE_BYTES:
        raise PcmError(f"expected an even number of s16le bytes, got {pcm_bytes_len}")
    return pcm_bytes_len / SAMPLE_BYTES * 1000 / _checked_rate(rate)


def silence(ms: float, rate: int) -> bytes:
    """Return ``ms`` milliseconds of silence, to the nearest sample.

    Raises:
        PcmError: ``ms`` is negative or not finite, or the rate is not positive.
    """
    return bytes(_samples_in(ms, rate) * SAMPLE_BYTES)


def fade_in(pcm: bytes, ms: float, rate: int) -> bytes:
    """Return ``pcm`` with its first ``ms`` milliseconds rising linearly from zero.

    Shorter audio rises over its whole length.

    Raises:
        PcmError: ``pcm`` ends within a sample, or ``ms`` or ``rate`` is impossible.
    """
    samples = _int16(pcm)
    count = min(_samples_in(ms, rate), samples.size)
    return _scaled(samples[:count], _ramp(count)) + pcm[count * SAMPLE_BYTES :]


def fade_out(pcm: bytes, ms: float, rate: int) -> bytes:
    """Return ``pcm`` with its last ``ms`` milliseconds falling linearly to zero.

    Shorter audio falls over its whole length.

    Raises:
        PcmError: ``pcm`` ends within a sample, or ``ms`` or ``rate`` is impossible.
    """
    samples = _int16(pcm)
    count = min(_samples_in(ms, rate), samples.size)
    kept = samples.size - count
    return pcm[: kept * SAMPLE_BYTES] + _scaled(samples[kept:], _ramp(count)[::-1])


def level_dbfs(pcm: bytes) -> float:
    """Return the RMS level in dB of a full-scale square wave; ``FLOOR_DBFS`` at the least.

    Raises:
        PcmError: ``pcm`` ends within a sample.
    """
    samples = to_float(pcm).astype(np.float64)
    power = float(samples @ samples) / max(samples.size, 1)
    return max(FLOOR_DBFS, 10 * math.log10(power)) if power else FLOOR_DBFS


def _int16(pcm: bytes) -> NDArray[np.int16]:
    if len(pcm) % SAMPLE_BYTES:
        raise PcmError(f"expected an even number of s16le bytes, got {len(pcm)}")
    return np.frombuffer(pcm, "<i2")


def _ramp(count: int) -> NDArray[np.float32]:
    return np.arange(count, dtype=np.float32) / np.float32(max(count, 1))


def _scaled(samples: NDArray[np.int16], gains: NDArray[np.float32]) -> bytes:
    scaled: NDArray[np.float32] = np.rint(samples * gains)
    return scaled.astype("<i2").tobytes()


def _samples_in(ms: float, rate: int) -> int:
    if not 0 <= ms < math.inf:
        raise PcmError(f"expected a length of 0 ms or more, got {ms}")
    return round(ms * _checked_rate(rate) / 1000)


def _checked_rate(rate: int) -> int:
    if rate <= 0:
        raise PcmError(f"expected a positive sample rate, got {rate}")
    return rate
