"""Audio as a client sends and gets it, to and from the core's s16le at 24 kHz."""

from __future__ import annotations

from ..codecs.denoise import Denoiser, Field
from ..codecs.g711 import alaw_decode, alaw_encode, ulaw_decode, ulaw_encode
from ..codecs.resample import StreamResampler, resample
from ..sessions.settings import AudioFormat, NoiseReduction

CORE_RATE = 24_000
G711_RATE = 8_000

_DECODE = {AudioFormat.PCMU: ulaw_decode, AudioFormat.PCMA: alaw_decode}
_ENCODE = {AudioFormat.PCMU: ulaw_encode, AudioFormat.PCMA: alaw_encode}

_FIELDS: dict[NoiseReduction, Field] = {
    NoiseReduction.NEAR_FIELD: "near_field",
    NoiseReduction.FAR_FIELD: "far_field",
}


class InputDecoder:
    """Decodes what is appended, in whatever pieces it comes, and takes the noise out."""

    def __init__(self, form: AudioFormat, noise: NoiseReduction | None = None) -> None:
        self.form = form
        self.noise = noise
        # Neither is made for plain PCM: an idle session shall cost little.
        self._decode = _DECODE.get(form)
        self._upsample = StreamResampler(G711_RATE, CORE_RATE) if self._decode else None
        self._denoise = Denoiser(_FIELDS[noise]) if noise else None

    @property
    def is_pcm(self) -> bool:
        """Whether the client sends 16-bit samples."""
        return self.form is AudioFormat.PCM

    def feed(self, data: bytes) -> bytes:
        """Return s16le at 24 kHz; some of it comes up to 20 ms late, see :meth:`flush`."""
        if self._decode is not None and self._upsample is not None:
            data = self._upsample.feed(self._decode(data))
        return data if self._denoise is None else self._denoise.feed(data)

    def flush(self) -> bytes:
        """Return what is held back, at the end of an utterance."""
        tail = b"" if self._upsample is None else self._upsample.flush()
        if self._denoise is None:
            return tail
        return self._denoise.feed(tail) + self._denoise.flush()


class OutputEncoder:
    """Encodes the audio of one response."""

    def __init__(self, form: AudioFormat) -> None:
        self._encode = _ENCODE.get(form)
        self._downsample = StreamResampler(CORE_RATE, G711_RATE) if self._encode else None

    def feed(self, pcm: bytes) -> bytes:
        """Return ``pcm``, s16le at 24 kHz, as the client gets it."""
        if self._encode is None or self._downsample is None:
            return pcm
        return self._encode(self._downsample.feed(pcm))

    def flush(self) -> bytes:
        """Return what is held back, at the end of the response."""
        if self._encode is None or self._downsample is None:
            return b""
        return self._encode(self._downsample.flush())


def from_wire(data: bytes, form: AudioFormat) -> bytes:
    """Return a whole recording of a client as s16le at 24 kHz."""
    decode = _DECODE.get(form)
    return data if decode is None else resample(decode(data), G711_RATE, CORE_RATE)


def to_wire(pcm: bytes, form: AudioFormat) -> bytes:
    """Return a whole recording in a client's format."""
    encode = _ENCODE.get(form)
    return pcm if encode is None else encode(resample(pcm, CORE_RATE, G711_RATE))
