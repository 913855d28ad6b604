"""The JSON of a speech stream: what a client may send, and what it is sent."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import msgspec

from ..codecs.encode import FORMATS, EncoderMissing, new_encoder
from ..codecs.loudness import LOUDEST, QUIETEST
from ..sessions.errors import ErrorInfo, Refusal
from . import speech_events as sp
from .client_messages import EventId, VoiceIdIn
from .refusals import Refused, located, missing, not_one_of, not_served, wrong_type
from .wire_response import error_json

SAMPLE_RATE = 24_000
SLOWEST, FASTEST = 0.25, 4.0

MESSAGE_OVERHEAD = 64 * 1024
"""Characters of a message beside its text."""

ESCAPED = 12
"""Characters that one of a text may take in JSON, at most: a pair of surrogates."""

Json = dict[str, Any]


class _In(msgspec.Struct, kw_only=True, tag_field="type"):
    event_id: EventId | None = None


class Config(_In, kw_only=True, tag="session.config"):
    """Settings; members left out, or null, keep their value, but for ``loudness``."""

    voice: str | VoiceIdIn | None = None
    response_format: str | None = None
    speed: float | None = None
    sample_rate: int | None = None
    word_timestamps: bool | None = None
    stream_audio: bool | None = None
    loudness: float | None | msgspec.UnsetType = msgspec.UNSET
    """``None`` is a value: the voice as it is."""

    instructions: str | None = None
    ref_audio: str | None = None


class Text(_In, kw_only=True, tag="input.text"):
    """More text."""

    text: str


class Done(_In, kw_only=True, tag="input.done"):
    """The text is complete."""


class Stop(_In, kw_only=True, tag="input.cancel"):
    """Speak no more of it."""


class Bye(_In, kw_only=True, tag="session.close"):
    """Nothing more is coming."""


Message = Config | Text | Done | Stop | Bye

_messages = msgspec.json.Decoder(Message)
_encoder = msgspec.json.Encoder()


class _Envelope(msgspec.Struct, kw_only=True):
    type: Any = None
    event_id: Any = None


_envelopes = msgspec.json.Decoder(_Envelope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a client may choose from."""

    voices: Sequence[str]
    """Names of voices, the default one first; those of stock clients among them."""

    chars: int
    """Text of one utterance."""


class SpeechReader:
    """Reads the messages of one client."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def read(self, text: str | bytes, now: sp.SpeechSettings) -> sp.FromClient:
        """Turn a message into what the core understands; ``now`` are its settings.

        Loads an encoder where one is asked for, which takes a while: not for an event loop,
        where :func:`is_slow`.

        Raises:
            Refused: it can't be read, or asks for what this server does not do.
        """
        message = self._decode(text)
        match message:
            case Config():
                try:
                    return sp.Configure(self._settings(message, now), message.event_id)
                except Refusal as refusal:
                    raise Refused(refusal.info(message.event_id)) from None
            case Text():
                return sp.AddText(message.text, message.event_id)
            case Done():
                return sp.Flush()
            case Stop():
                return sp.Cancel()
            case Bye():
                return sp.Close()
            case _:
                assert_never(message)

    def _decode(self, text: str | bytes) -> Message:
        if isinstance(text, bytes):
            message = "Binary frames are not understood here: text comes as JSON."
            raise Refused(ErrorInfo("invalid_value", message))
        longest = self._offer.chars * ESCAPED + MESSAGE_OVERHEAD
        if len(text) > longest:
            message = f"A message has at most {longest} characters, and this one {len(text)}."
            raise Refused(ErrorInfo("message_too_long", message))
        try:
            return _messages.decode(text)
        except msgspec.ValidationError as error:
            raise _explain(text, error) from None
        except (msgspec.DecodeError, UnicodeError):
            raise Refused(ErrorInfo("invalid_json", "The message is not valid JSON.")) from None
        except RecursionError:
            message = "The message is nested too deeply."
            raise Refused(ErrorInfo("invalid_json", message)) from None

    def _settings(self, asked: Config, now: sp.SpeechSettings) -> sp.SpeechSettings:
        if asked.instructions:
            raise not_served("instructions", "this voice can't be told how to speak.")
        if asked.ref_audio:
            raise not_served("ref_audio", "voices are not made from recordings here.")
        if asked.sample_rate not in (None, SAMPLE_RATE):
            raise not_served("sample_rate", f"audio is at {SAMPLE_RATE} Hz.")
        speed = now.speed if asked.speed is None else asked.speed
        if not SLOWEST <= speed <= FASTEST:
            message = f"speed must be between {SLOWEST} and {FASTEST:g}."
            raise Refusal("invalid_value", message, "speed")
        settings = sp.SpeechSettings(
            voice=self._voice(asked.voice, now),
            response_format=_format(asked.response_format or now.response_format),
            speed=speed,
            word_timestamps=_or(asked.word_timestamps, now.word_timestamps),
            stream_audio=_or(asked.stream_audio, now.stream_audio),
            loudness=_loudness(asked, now),
        )
        if settings.word_timestamps and not settings.stream_audio:
            message = "word_timestamps come with streamed audio: they need stream_audio true."
            raise Refusal("invalid_value", message, "stream_audio")
        return settings

    def _voice(self, asked: str | VoiceIdIn | None, now: sp.SpeechSettings) -> str:
        if asked is None:
            return now.voice
        name = asked if isinstance(asked, str) else asked.id
        if name not in self._offer.voices:
            raise not_one_of("voice", name, self._offer.voices)
        return name


def is_slow(text: str | bytes) -> bool:
    """Whether reading a message may take milliseconds."""
    # A config may load an encoder's library. Text that only looks like one is read as well.
    return len(text) > MESSAGE_OVERHEAD or (isinstance(text, str) and "session.config" in text)


def encode(effect: sp.ForClient) -> str | bytes:
    """Return the frame that tells a client of something."""
    match effect:
        case sp.SendAudio(data=data):
            return data
        case sp.Ready(settings=settings):
            session = msgspec.to_builtins(settings)
            return _json("session.ready", session={**session, "sample_rate": SAMPLE_RATE})
        case sp.AudioStarted(settings=settings):
            return _json(
                "audio.start",
                effect.index,
                sentence_index=0,
                total_sentences=1,
                format=settings.response_format,
                sample_rate=SAMPLE_RATE,
                word_timestamps=settings.word_timestamps,
            )
        case sp.SendChunk():
            return _json("audio.chunk", effect.index, **_chunk(effect))
        case sp.AudioDone():
            return _json(
                "audio.done",
                effect.index,
                sentence_index=0,
                total_bytes=effect.total_bytes,
                duration_ms=_ms(effect.duration_ms),
                error=effect.failed,
                # Said only where it is so: it is of voices that a language model makes.
                **({"truncated": True} if effect.truncated else {}),
            )
        case sp.Cancelled():
            return _json("audio.cancelled", effect.index)
        case sp.UtteranceDone():
            return _json(
                "session.done",
                effect.index,
                total_sentences=effect.sentences,
                status=effect.status.value,
            )
        case sp.Complained():
            return _json("error", effect.index, error=error_json(effect.error))
        case _:
            assert_never(effect)


def _chunk(effect: sp.SendChunk) -> Json:
    return {
        "sentence_index": 0,
        "chunk_id": effect.number,
        "chunk_start_ms": _ms(effect.start_ms),
        "chunk_end_ms": _ms(effect.end_ms),
        "sample_rate": SAMPLE_RATE,
        "timestamps": [
            {"word": each.word, "start_ms": _ms(each.start_ms), "end_ms": _ms(each.end_ms)}
            for each in effect.words
        ],
        "audio_b64": b64encode(effect.data).decode(),
    }


_EVERYWHERE = frozenset({"session.ready"})
"""Events that are about no utterance."""


def _json(name: str, index: int | None = None, **members: object) -> str:
    about = {} if name in _EVERYWHERE else {"utterance_index": index}
    return _encoder.encode({"type": name, **about, **members}).decode()


def _ms(exact: float) -> float:
    return round(exact, 1)


def _or(asked: bool | None, now: bool) -> bool:
    return now if asked is None else asked


def _loudness(asked: Config, now: sp.SpeechSettings) -> float | None:
    if asked.loudness is msgspec.UNSET:
        return now.loudness
    if asked.loudness is not None and not QUIETEST <= asked.loudness <= LOUDEST:
        message = f"loudness must be from {QUIETEST:g} to {LOUDEST:g} LUFS."
        raise Refusal("invalid_value", message, "loudness")
    return asked.loudness


def _format(name: str) -> str:
    if name not in FORMATS:
        raise not_one_of("response_format", name, FORMATS)
    try:
        new_encoder(name).close()
    except EncoderMissing:
        raise not_served(
            "response_format", f"'{name}' needs PyAV, which is not installed. Use 'pcm' or 'wav'."
        ) from None
    return name


def _explain(text: str, error: msgspec.ValidationError) -> Refused:
    _, param = located(error)
    try:
        envelope = _envelopes.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        envelope = _Envelope()
    event_id = envelope.event_id if isinstance(envelope.event_id, str) else None
    if param != "type" and isinstance(envelope.type, str):
        return Refused(wrong_type(error, event_id))
    if envelope.type is None:
        return Refused(missing("type").info(event_id))
    known = [str(each.__struct_config__.tag) for each in Message.__args__]
    said = envelope.type if isinstance(envelope.type, str) else "that"
    return Refused(not_one_of("type", said, known).info(event_id))
