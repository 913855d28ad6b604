"""What a request to speak may ask for, and what is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ..codecs.encode import FORMATS
from ..codecs.loudness import LOUDEST, QUIETEST
from ..realtime.client_messages import VoiceIdIn
from ..realtime.refusals import Refused, not_one_of, not_served, wrong_type
from ..realtime.service import STOCK_VOICES
from ..sessions.errors import ErrorInfo, Refusal

SLOWEST, FASTEST = 0.25, 4.0

STREAM_FORMATS = ("audio", "sse")

ESCAPED_BYTES = 12
"""One character of the text in JSON, at most: a pair of surrogates."""

ROOM_BYTES = 64 * 1024
"""For the rest of a request."""

STOCK_SPEECH_VOICES = (*STOCK_VOICES, "fable", "nova", "onyx")
"""As in sessions, and those that this endpoint alone has elsewhere."""


class _SpeechIn(msgspec.Struct, kw_only=True):
    input: str
    model: str | None = None
    voice: str | VoiceIdIn | None = None
    instructions: str | None = None
    response_format: str | None = None
    speed: float | None = None
    loudness: float | None = None
    stream_format: str | None = None
    timestamp_granularities: list[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that can be served."""

    text: str
    voice: str | None
    """A name of ours; ``None`` for the default one."""

    form: str
    """One of :data:`..codecs.encode.FORMATS`."""

    speed: float
    loudness: float | None
    """LUFS; ``None`` for the voice as it is."""

    events: bool
    """Whether the audio is wanted in server-sent events."""

    words: bool
    """Whether the times of words are, among these."""


def body_bytes(chars: int) -> int:
    """The most that a request for so much text may have."""
    return chars * ESCAPED_BYTES + ROOM_BYTES


def read_request(body: bytes, *, voices: Sequence[str], chars: int) -> Asked:
    """Return what is asked for. ``voices``: of the pipeline; ``chars``: of text, at most.

    Raises:
        Refused: the body can't be read.
        Refusal: it asks for something that is not served.
    """
    asked = _decoded(body)
    form, stream = asked.response_format or "mp3", asked.stream_format or "audio"
    speed = 1.0 if asked.speed is None else asked.speed
    _check_text(asked.input, chars)
    if asked.instructions and asked.instructions.strip():
        raise not_served("instructions", "the voices here can't be told how to speak.")
    if form not in FORMATS:
        raise not_one_of("response_format", form, FORMATS)
    if not SLOWEST <= speed <= FASTEST:
        message = f"speed must be from {SLOWEST} to {FASTEST:g}."
        raise Refusal("invalid_value", message, "speed")
    if asked.loudness is not None and not QUIETEST <= asked.loudness <= LOUDEST:
        message = f"loudness must be from {QUIETEST:g} to {LOUDEST:g} LUFS."
        raise Refusal("invalid_value", message, "loudness")
    if stream not in STREAM_FORMATS:
        raise not_one_of("stream_format", stream, STREAM_FORMATS)
    return Asked(
        text=asked.input,
        voice=_voice(asked.voice, voices),
        form=form,
        speed=speed,
        loudness=asked.loudness,
        events=stream == "sse",
        words=_words(asked.timestamp_granularities or [], stream),
    )


def _decoded(body: bytes) -> _SpeechIn:
    try:
        return msgspec.json.decode(body, type=_SpeechIn)
    except msgspec.ValidationError as error:
        raise Refused(wrong_type(error, None)) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Refused(ErrorInfo("invalid_json", "The body is not valid JSON.")) from None


def _check_text(text: str, chars: int) -> None:
    if not text.strip():
        raise Refusal("invalid_value", "input must have some text.", "input")
    if len(text) > chars:
        message = f"input may have at most {chars} characters, and has {len(text)}."
        raise Refusal("string_above_max_length", message, "input")


def _voice(asked: str | VoiceIdIn | None, voices: Sequence[str]) -> str | None:
    name = asked.id if isinstance(asked, VoiceIdIn) else asked
    if name in voices:
        return name
    if name is None or name in STOCK_SPEECH_VOICES:
        return None
    raise not_one_of("voice", name, (*voices, *STOCK_SPEECH_VOICES))


def _words(asked: Sequence[str], stream: str) -> bool:
    for name in asked:
        if name != "word":
            raise not_one_of("timestamp_granularities", name, ("word",))
    if asked and stream != "sse":
        raise not_served(
            "timestamp_granularities", "needs stream_format 'sse': audio has no times."
        )
    return bool(asked)
