"""Sample-rate conversion of mono streams, a chunk at a time.

Speech is converted twice on its way through the server, so delay counts as much as quality.
Input that is held back before the first output, in ms:

====================  =====  =====  =====  =====  ====
rates                  here     HQ     MQ     LQ    QQ
====================  =====  =====  =====  =====  ====
24 000 -> 16 000       10.1   36.6   37.8   20.0   0.1
22 050 -> 24 000       10.9   41.8   42.6    1.0   0.1
48 000 -> 16 000       12.6   36.6   37.8   20.0   0.1
16 000 -> 24 000       15.1   36.6   37.8   20.1   0.2
24 000 ->  8 000       25.2   73.3   75.5   40.1   0.1
 8 000 -> 16 000       30.1  115.9  118.1   61.4   0.4
 8 000 -> 24 000       30.1   73.3   75.5   40.1   0.4
====================  =====  =====  =====  =====  ====

The named columns are soxr's fixed-rate streams, which transform whole blocks; LQ loses the
top fifth of the band, and QQ lets aliases through. "Here" is soxr's variable-rate engine held
at one ratio: it has no blocks, a passband as wide as HQ's, and errors below -110 dB, which
16 bits don't show.
"""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np
import soxr
from numpy.typing import NDArray

from .pcm import SAMPLE_BYTES, PcmError, from_float, to_float


class _SoxrStream(Protocol):
    def resample_chunk(self, x: NDArray[np.float32], last: bool) -> NDArray[np.float32]: ...

    def clear(self) -> None: ...


class FloatStreamResampler:
    """Converts one stream of float32 samples from one rate to another.

    However the input is split, the outputs concatenate to the same samples; their number
    is that of the input times ``to_rate / from_rate``, within one. Equal rates change nothing.
    """

    def __init__(self, from_rate: int, to_rate: int) -> None:
        """Begin a stream; rates are in samples a second.

        Raises:
            ValueError: a rate is not positive.
        """
        if from_rate <= 0 or to_rate <= 0:
            raise ValueError(f"expected positive sample rates, got {from_rate} and {to_rate}")
        self._stream = None if from_rate == to_rate else _open_soxr(from_rate, to_rate)

    def feed(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what is ready after ``samples``; both have the shape ``(n,)``, n may be 0.

        With equal rates that is ``samples`` itself, not a copy.

        Raises:
            PcmError: ``samples`` are not one axis of float32.
        """
        if samples.ndim != 1 or samples.dtype != np.float32:
            raise PcmError(
                f"expected float32 of shape (n,), got {samples.dtype} of shape {samples.shape}"
            )
        if self._stream is None or not samples.size:
            return samples
        return self._stream.resample_chunk(samples, last=False)

    def flush(self) -> NDArray[np.float32]:
        """Return the samples still held back, then be ready for a new stream."""
        nothing = np.empty(0, np.float32)
        if self._stream is None:
            return nothing
        tail = self._stream.resample_chunk(nothing, last=True)
        self._stream.clear()
        return tail


class StreamResampler:
    """Converts one stream of s16le from one rate to another.

    However the bytes are split, also within a sample, the outputs concatenate to the same
    bytes. Equal rates change nothing.
    """

    def __init__(self, from_rate: int, to_rate: int) -> None:
        """Begin a stream; rates are in samples a second.

        Raises:
            ValueError: a rate is not positive.
        """
        self._floats = FloatStreamResampler(from_rate, to_rate)
        self._half_sample = b""

    def feed(self, pcm: bytes) -> bytes:
        """Return the whole samples that are ready after ``pcm``, which may end within one."""
        pcm = self._half_sample + pcm
        whole = len(pcm) - len(pcm) % SAMPLE_BYTES
        self._half_sample = pcm[whole:]
        return from_float(self._floats.feed(to_float(pcm[:whole])))

    def flush(self) -> bytes:
        """Return the samples still held back, then be ready for a new stream.

        Half a sample at the end is dropped: its other half never came.
        """
        self._half_sample = b""
        return from_float(self._floats.flush())


def resample(pcm: bytes, from_rate: int, to_rate: int) -> bytes:
    """Return all of s16le ``pcm`` at another rate: what a stream would give in total.

    Raises:
        PcmError: ``pcm`` ends within a sample.
        ValueError: a rate is not positive.
    """
    if len(pcm) % SAMPLE_BYTES:
        raise PcmError(f"expected an even number of s16le bytes, got {len(pcm)}")
    stream = StreamResampler(from_rate, to_rate)
    return stream.feed(pcm) + stream.flush()


def _open_soxr(from_rate: int, to_rate: int) -> _SoxrStream:
    # Floats, because soxr dithers integers; `vr` for the delay, see the table above.
    return cast(_SoxrStream, soxr.ResampleStream(from_rate, to_rate, 1, dtype="float32", vr=True))
