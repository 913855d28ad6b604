"""Audio as a client sends and gets it, to and from the core's s16le at 24 kHz."""

from __future__ import annotations

from ..codecs.g711 import alaw_decode, alaw_encode, ulaw_decode, ulaw_encode
from ..codecs.resample import StreamResampler, resample
from ..sessions.settings import AudioFormat

CORE_RATE = 24_000
G711_RATE = 8_000

_DECODE = {AudioFormat.PCMU: ulaw_decode, AudioFormat.PCMA: alaw_decode}
_ENCODE = {AudioFormat.PCMU: ulaw_encode, AudioFormat.PCMA: alaw_encode}


class InputDecoder:
    """Decodes what is appended, in whatever pieces it comes."""

    def __init__(self, form: AudioFormat) -> None:
        self.form = form
        self._upsample = StreamResampler(G711_RATE, CORE_RATE)

    @property
    def is_pcm(self) -> bool:
        """Whether the client sends 16-bit samples."""
        return self.form is AudioFormat.PCM

    def feed(self, data: bytes) -> bytes:
        """Return s16le at 24 kHz; G.711 comes out a few ms late, see :meth:`flush`."""
        decode = _DECODE.get(self.form)
        return data if decode is None else self._upsample.feed(decode(data))

    def flush(self) -> bytes:
        """Return what is held back, at the end of an utterance."""
        return b"" if self.form is AudioFormat.PCM else self._upsample.flush()


class OutputEncoder:
    """Encodes the audio of one response."""

    def __init__(self, form: AudioFormat) -> None:
        self._form = form
        self._downsample = StreamResampler(CORE_RATE, G711_RATE)

    def feed(self, pcm: bytes) -> bytes:
        """Return ``pcm``, s16le at 24 kHz, as the client gets it."""
        encode = _ENCODE.get(self._form)
        return pcm if encode is None else encode(self._downsample.feed(pcm))

    def flush(self) -> bytes:
        """Return what is held back, at the end of the response."""
        encode = _ENCODE.get(self._form)
        return b"" if encode is None else encode(self._downsample.flush())


def from_wire(data: bytes, form: AudioFormat) -> bytes:
    """Return a whole recording of a client as s16le at 24 kHz."""
    decode = _DECODE.get(form)
    return data if decode is None else resample(decode(data), G711_RATE, CORE_RATE)


def to_wire(pcm: bytes, form: AudioFormat) -> bytes:
    """Return a whole recording in a client's format."""
    encode = _ENCODE.get(form)
    return pcm if encode is None else encode(resample(pcm, CORE_RATE, G711_RATE))
