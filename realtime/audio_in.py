"""Audio that a client appends, as JSON or in binary frames: checked, decoded, handed on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ..codecs import opus
from ..sessions.errors import ErrorInfo
from ..sessions.events import AppendAudio
from ..sessions.settings import Settings
from .audio_format import InputDecoder
from .binary import BinaryError, Kind, unpack
from .client_messages import Append
from .refusals import Refused

SLICE_BYTES = 48 * 1000
"""Audio handed to the core at once: one second, so that no append stalls the loop."""

MIB = 1024 * 1024

PAYLOAD = "binary.payload"

HOW_TO_ASK = (
    "Binary frames are understood where they were asked for: send session.update with "
    "session.antiphon.binary_audio true. Else send JSON text."
)

Take = Callable[[AppendAudio], None]


class AudioInput:
    """Takes in the audio of one client, in whatever form it comes."""

    def __init__(
        self, settings: Settings, append_bytes: int, take: Take, room: Callable[[], Awaitable[None]]
    ) -> None:
        """Begin as ``settings`` say.

        An append has at most ``append_bytes``. What was decoded goes to ``take``, and after
        each piece of a long append ``room`` is waited for.
        """
        self._append_bytes = append_bytes
        self._take = take
        self._room = room
        self._decoder = InputDecoder(settings.input_format, settings.noise_reduction)

    async def append(self, message: Append) -> None:
        """Take in an append of JSON.

        Raises:
            Refused: it is too long, or ends within a sample.
        """
        self._check(message.audio, self._decoder.is_pcm, "audio", message.event_id)
        await self._feed(message.audio, self._decoder.feed, message.event_id)

    async def append_binary(self, data: bytes, settings: Settings) -> None:
        """Take in a binary frame.

        Raises:
            Refused: none were asked for, or this one can't be understood.
        """
        if settings.binary is None:
            raise Refused(ErrorInfo("invalid_value", HOW_TO_ASK))
        try:
            frame = unpack(data)
        except BinaryError as error:
            raise Refused(ErrorInfo("invalid_value", str(error), error.param)) from None
        self._check(frame.payload, frame.kind is Kind.PCM16, PAYLOAD, None)
        if frame.kind is Kind.PCM16:
            await self._feed(frame.payload, self._decoder.feed_pcm, None)
        else:
            self._take(AppendAudio(await self._opus(frame.payload)))

    def flush(self) -> None:
        """Hand on what the decoder holds back: it belongs to what is over now."""
        if tail := self._decoder.flush():
            self._take(AppendAudio(tail))

    def forget(self) -> None:
        """Forget what the decoder holds back."""
        self._decoder.flush()

    def follow(self, now: Settings) -> None:
        """Decode as the settings say by now; what was held back comes first."""
        old = self._decoder
        if old.form is not now.input_format or old.noise is not now.noise_reduction:
            self.flush()
            self._decoder = InputDecoder(now.input_format, now.noise_reduction, old)

    async def _opus(self, packet: bytes) -> bytes:
        # A packet is decoded in a fraction of a millisecond; loading the library takes 60.
        try:
            if not opus.loaded():
                await asyncio.to_thread(opus.load)
            return self._decoder.feed_opus(packet)
        except opus.OpusError as error:
            message = f"{PAYLOAD} must be one Opus packet: {error}."
            raise Refused(ErrorInfo("invalid_value", message, PAYLOAD)) from None
        except opus.OpusMissing:
            message = "binary.kind 2 (opus) is not available: this server has no Opus library."
            raise Refused(ErrorInfo("unsupported_value", message, "binary.kind")) from None

    def _check(self, audio: bytes, is_pcm: bool, name: str, event_id: str | None) -> None:
        if len(audio) > self._append_bytes:
            message = f"{name} may have at most {self._append_bytes // MIB} MiB in one append."
        elif is_pcm and len(audio) % 2:
            message = f"{name} must be whole 16-bit samples: it has an odd number of bytes."
        else:
            return
        raise Refused(ErrorInfo("invalid_value", message, name, event_id))

    async def _feed(
        self, audio: bytes, decode: Callable[[bytes], bytes], event_id: str | None
    ) -> None:
        if len(audio) <= SLICE_BYTES:
            self._take(AppendAudio(decode(audio), event_id))
            return
        for start in range(0, len(audio), SLICE_BYTES):
            self._take(AppendAudio(decode(audio[start : start + SLICE_BYTES]), event_id))
            await self._room()
            await asyncio.sleep(0)
