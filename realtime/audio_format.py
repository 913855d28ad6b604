"""Audio as a client sends and gets it, to and from the core's s16le at 24 kHz."""

from __future__ import annotations

from ..codecs.denoise import Denoiser, Field
from ..codecs.g711 import alaw_decode, alaw_encode, ulaw_decode, ulaw_encode
from ..codecs.opus import OpusDecoder
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
    """Decodes what is appended, in whatever pieces it comes, and takes the noise out.

    Appends in the session's format, PCM and Opus packets may follow one another: what the
    decoder of one kind holds back comes before the next kind.
    """

    def __init__(
        self,
        form: AudioFormat,
        noise: NoiseReduction | None = None,
        before: InputDecoder | None = None,
    ) -> None:
        """Begin to decode ``form``.

        A client's Opus stream goes on where the decoder ``before`` this one, which has been
        flushed, has left it.
        """
        self.form = form
        self.noise = noise
        # Neither is made for plain PCM: an idle session shall cost little.
        self._decode = _DECODE.get(form)
        self._upsample = StreamResampler(G711_RATE, CORE_RATE) if self._decode else None
        self._denoise = Denoiser(_FIELDS[noise]) if noise else None
        self._opus: OpusDecoder | None = None if before is None else before._opus
        self._held: StreamResampler | OpusDecoder | None = None
        """Which decoder was fed last, if that one holds anything back."""

    @property
    def is_pcm(self) -> bool:
        """Whether the client sends 16-bit samples."""
        return self.form is AudioFormat.PCM

    def feed(self, data: bytes) -> bytes:
        """Return s16le at 24 kHz; some of it comes up to 20 ms late, see :meth:`flush`."""
        if self._decode is None or self._upsample is None:
            return self.feed_pcm(data)
        return self._clean(self._turn_to(self._upsample) + self._upsample.feed(self._decode(data)))

    def feed_pcm(self, pcm: bytes) -> bytes:
        """Return the same of s16le at 24 kHz, whatever the format of appends is."""
        return self._clean(self._turn_to(None) + pcm)

    def feed_opus(self, packet: bytes) -> bytes:
        """Return the same of one packet of the client's Opus stream.

        Raises:
            OpusError: it is none; the next may be.
            OpusMissing: the library is not there.
        """
        if self._opus is None:
            self._opus = OpusDecoder()
        pcm = self._opus.feed(packet)
        return self._clean(self._turn_to(self._opus) + pcm)

    def flush(self) -> bytes:
        """Return what is held back, at the end of an utterance."""
        tail = self._clean(self._turn_to(None))
        return tail if self._denoise is None else tail + self._denoise.flush()

    def _turn_to(self, decoder: StreamResampler | OpusDecoder | None) -> bytes:
        """Return what another decoder than this one still holds back."""
        held, self._held = self._held, decoder
        return b"" if held is None or held is decoder else held.flush()

    def _clean(self, pcm: bytes) -> bytes:
        return pcm if self._denoise is None else self._denoise.feed(pcm)


class OutputEncoder:
    """Encodes the audio of one response."""

    def __init__(self, form: AudioFormat) -> None:
        self._encode = _ENCODE.get(form)
        self._downsample = StreamResampler(CORE_RATE, G711_RATE) if self._encode else None

    def length_ms(self, audio: bytes) -> float:
        """Return how long encoded audio lasts."""
        bytes_a_second = 2 * CORE_RATE if self._encode is None else G711_RATE
        return len(audio) * 1000 / bytes_a_second

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
