"""From session effects to the server's JSON: the GA dialect of the Realtime protocol."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TypeAlias, assert_never

import msgspec

from ..sessions import effects as fx
from ..sessions.errors import ErrorInfo
from ..sessions.ids import IdSource
from ..sessions.items import Item, Part, PartKind
from ..sessions.settings import AudioFormat, Modality, Settings
from .audio_format import CORE_RATE, OutputEncoder, to_wire

Json = dict[str, Any]

DELTA_BYTES = 24_000
"""Audio of one delta: 500 ms of PCM, 32 KB of base64, well below any client's frame limit."""

_encoder = msgspec.json.Encoder()

_BufferEffect: TypeAlias = (
    fx.SpeechStarted | fx.SpeechStopped | fx.IdleTimedOut | fx.BufferCommitted | fx.BufferCleared
)
_ConversationEffect: TypeAlias = (
    fx.ItemAdded
    | fx.ItemDone
    | fx.ItemRetrieved
    | fx.ItemTruncated
    | fx.ItemDeleted
    | fx.TranscriptionDelta
    | fx.TranscriptionDone
    | fx.TranscriptionFailed
)
_ExtensionEffect: TypeAlias = fx.WordSpoken | fx.TurnMeasured
_OutputEffect: TypeAlias = (
    fx.OutputItemAdded
    | fx.OutputItemDone
    | fx.ContentPartAdded
    | fx.ContentPartDone
    | fx.TextDelta
    | fx.TextDone
    | fx.TranscriptDelta
    | fx.TranscriptDone
    | fx.CallDelta
    | fx.CallDone
)
_SimpleEffect: TypeAlias = (
    fx.SessionCreated
    | fx.SessionUpdated
    | fx.ErrorRaised
    | fx.RateLimitsUpdated
    | _BufferEffect
    | _ConversationEffect
    | _ExtensionEffect
    | _OutputEffect
)
"""What is told in exactly one frame."""


class WireEncoder:
    """Encodes what one connection is told; numbers its events."""

    def __init__(
        self,
        seed: str,
        *,
        session_id: str,
        conversation_id: str,
        model: str,
        voices: tuple[str, ...],
    ) -> None:
        self._ids = IdSource(f"{seed}/wire")
        self._session_id = session_id
        self._conversation_id = conversation_id
        self._model = model
        self._voices = voices
        self._expires_at = 0
        self._settings = Settings()
        self._audio: dict[str, OutputEncoder] = {}
        """One a response: its format is fixed when it begins."""

    def encode(self, effect: fx.ClientEffect) -> Iterator[str]:
        """Yield the frames that tell the client of ``effect``; usually one."""
        match effect:
            case fx.AudioDelta():
                yield from self._audio_delta(effect)
            case fx.AudioDone(at=at):
                yield from self._audio_tail(at)
                yield self._frame("response.output_audio.done", _at(at))
            case fx.ResponseCreated(response=view):
                self._audio[view.id] = OutputEncoder(view.output_format)
                yield self._frame("response.created", {"response": self._response(view)})
            case fx.ResponseDone(response=view):
                self._audio.pop(view.id, None)
                yield self._frame("response.done", {"response": self._response(view)})
            case _:
                name, body = self._simple(effect)
                yield self._frame(name, body)

    def abort(self, response_id: str) -> None:
        """Encode no more audio of a response, not even what is held back."""
        self._audio.pop(response_id, None)

    def _frame(self, name: str, body: Json) -> str:
        event = {"type": name, "event_id": self._ids.next("event"), **body}
        return _encoder.encode(event).decode()

    def _audio_delta(self, effect: fx.AudioDelta) -> Iterator[str]:
        encoder = self._audio.get(effect.at.response_id)
        if encoder is not None:
            yield from self._audio_frames(effect.at, encoder.feed(effect.pcm))

    def _audio_tail(self, at: fx.PartAt) -> Iterator[str]:
        encoder = self._audio.get(at.response_id)
        if encoder is not None:
            yield from self._audio_frames(at, encoder.flush())

    def _audio_frames(self, at: fx.PartAt, audio: bytes) -> Iterator[str]:
        for start in range(0, len(audio), DELTA_BYTES):
            delta = b64encode(audio[start : start + DELTA_BYTES]).decode()
            yield self._frame("response.output_audio.delta", {**_at(at), "delta": delta})

    def _simple(self, effect: _SimpleEffect) -> tuple[str, Json]:
        match effect:
            case fx.SessionCreated(settings=settings, expires_at=expires_at):
                return "session.created", {"session": self._session(settings, expires_at)}
            case fx.SessionUpdated(settings=settings, expires_at=expires_at):
                return "session.updated", {"session": self._session(settings, expires_at)}
            case fx.ErrorRaised(error=error):
                return "error", {"error": _error(error)}
            case fx.RateLimitsUpdated(limits=limits):
                body = {"rate_limits": [_rate_limit(each) for each in limits]}
                return "rate_limits.updated", body
            case (
                fx.SpeechStarted()
                | fx.SpeechStopped()
                | fx.IdleTimedOut()
                | fx.BufferCommitted()
                | fx.BufferCleared()
            ):
                return _buffer(effect)
            case (
                fx.ItemAdded()
                | fx.ItemDone()
                | fx.ItemRetrieved()
                | fx.ItemTruncated()
                | fx.ItemDeleted()
                | fx.TranscriptionDelta()
                | fx.TranscriptionDone()
                | fx.TranscriptionFailed()
            ):
                return self._conversation(effect)
            case fx.WordSpoken() | fx.TurnMeasured():
                return _extension(effect)
            case _:
                return self._output(effect)

    def _conversation(self, effect: _ConversationEffect) -> tuple[str, Json]:
        match effect:
            case fx.ItemAdded(item=item, previous_item_id=previous):
                body = {"previous_item_id": previous, "item": self._item(item)}
                return "conversation.item.added", body
            case fx.ItemDone(item=item, previous_item_id=previous):
                body = {"previous_item_id": previous, "item": self._item(item)}
                return "conversation.item.done", body
            case fx.ItemRetrieved(item=item, audio=audio):
                return "conversation.item.retrieved", {"item": self._item(item, audio)}
            case fx.ItemTruncated():
                return "conversation.item.truncated", {
                    "item_id": effect.item_id,
                    "content_index": effect.content_index,
                    "audio_end_ms": effect.audio_end_ms,
                }
            case fx.ItemDeleted(item_id=item_id):
                return "conversation.item.deleted", {"item_id": item_id}
            case fx.TranscriptionDelta(item_id=item_id, text=text):
                return "conversation.item.input_audio_transcription.delta", {
                    "item_id": item_id,
                    "content_index": 0,
                    "delta": text,
                }
            case fx.TranscriptionDone(item_id=item_id, transcript=transcript, audio_ms=audio_ms):
                return "conversation.item.input_audio_transcription.completed", {
                    "item_id": item_id,
                    "content_index": 0,
                    "transcript": transcript,
                    "usage": {"type": "duration", "seconds": audio_ms / 1000},
                }
            case fx.TranscriptionFailed(item_id=item_id, error=error):
                return "conversation.item.input_audio_transcription.failed", {
                    "item_id": item_id,
                    "content_index": 0,
                    "error": {
                        "type": error.type,
                        "code": error.code,
                        "message": error.message,
                        "param": None,
                    },
                }
            case _:
                assert_never(effect)

    def _output(self, effect: _OutputEffect) -> tuple[str, Json]:
        match effect:
            case fx.OutputItemAdded():
                return "response.output_item.added", self._output_item(effect)
            case fx.OutputItemDone():
                return "response.output_item.done", self._output_item(effect)
            case fx.ContentPartAdded(at=at, modality=modality):
                return "response.content_part.added", {**_at(at), "part": _part_of(modality, "")}
            case fx.ContentPartDone(at=at, modality=modality, text=text):
                return "response.content_part.done", {**_at(at), "part": _part_of(modality, text)}
            case fx.TextDelta(at=at, text=text):
                return "response.output_text.delta", {**_at(at), "delta": text}
            case fx.TextDone(at=at, text=text):
                return "response.output_text.done", {**_at(at), "text": text}
            case fx.TranscriptDelta(at=at, text=text):
                return "response.output_audio_transcript.delta", {**_at(at), "delta": text}
            case fx.TranscriptDone(at=at, text=text):
                return "response.output_audio_transcript.done", {**_at(at), "transcript": text}
            case fx.CallDelta(at=at, call_id=call_id, text=text):
                body = {**_call_at(at), "call_id": call_id, "delta": text}
                return "response.function_call_arguments.delta", body
            case fx.CallDone(at=at, call_id=call_id):
                body = {
                    **_call_at(at),
                    "call_id": call_id,
                    "name": effect.name,
                    "arguments": effect.arguments,
                }
                return "response.function_call_arguments.done", body
            case _:
                assert_never(effect)

    def _output_item(self, effect: fx.OutputItemAdded | fx.OutputItemDone) -> Json:
        return {
            "response_id": effect.response_id,
            "output_index": effect.output_index,
            "item": self._item(effect.item),
        }

    def _session(self, settings: Settings, expires_at: int) -> Json:
        self._settings = settings
        session: Json = {
            "type": "realtime",
            "object": "realtime.session",
            "id": self._session_id,
            "model": self._model,
            "expires_at": expires_at,
            "output_modalities": [settings.modality.value],
            "instructions": settings.instructions,
            "audio": {
                "input": {
                    "format": _format(settings.input_format),
                    "transcription": _transcription(settings),
                    "noise_reduction": None,
                    "turn_detection": _turn_detection(settings),
                },
                "output": {
                    "format": _format(settings.output_format),
                    "voice": settings.voice,
                    "speed": settings.speed,
                },
            },
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": _tokens(settings.max_output_tokens),
            "truncation": "auto",
            "tracing": None,
            "prompt": None,
            "include": None,
        }
        if settings.extensions:
            session["antiphon"] = {"voices": list(self._voices)}
        return session

    def _response(self, view: fx.ResponseView) -> Json:
        return {
            "object": "realtime.response",
            "id": view.id,
            "status": view.status.value,
            "status_details": _status_details(view),
            "output": [self._item(item) for item in view.output],
            "conversation_id": self._conversation_id,
            "output_modalities": [view.modality.value],
            "max_output_tokens": _tokens(view.max_output_tokens),
            "audio": {"output": {"format": _format(view.output_format), "voice": view.voice}},
            "usage": None if view.usage is None else _usage(view.usage),
            "metadata": None if view.metadata is None else dict(view.metadata),
        }

    def _item(self, item: Item, audio: bytes | None = None) -> Json:
        return {
            "id": item.id,
            "object": "realtime.item",
            "type": "message",
            "status": item.status.value,
            "role": item.role.value,
            "content": [self._part(part, audio) for part in item.parts],
        }

    def _part(self, part: Part, audio: bytes | None) -> Json:
        body: Json = {"type": part.kind.value}
        if part.kind in (PartKind.INPUT_TEXT, PartKind.OUTPUT_TEXT):
            return {**body, "text": part.text or ""}
        # Clients that asked for no transcription expect none, whatever the model reads.
        shown = part.kind is PartKind.OUTPUT_AUDIO or self._settings.transcription is not None
        body["transcript"] = part.text if shown else None
        if audio is not None:
            form = self._settings.output_format
            if part.kind is PartKind.INPUT_AUDIO:
                form = self._settings.input_format
            body["audio"] = b64encode(to_wire(audio, form)).decode()
        return body


def _buffer(effect: _BufferEffect) -> tuple[str, Json]:
    match effect:
        case fx.SpeechStarted(audio_start_ms=start, item_id=item_id):
            body: Json = {"audio_start_ms": start, "item_id": item_id}
            return "input_audio_buffer.speech_started", body
        case fx.SpeechStopped(audio_end_ms=end, item_id=item_id):
            return "input_audio_buffer.speech_stopped", {"audio_end_ms": end, "item_id": item_id}
        case fx.IdleTimedOut():
            return "input_audio_buffer.timeout_triggered", asdict(effect)
        case fx.BufferCommitted(item_id=item_id, previous_item_id=previous):
            body = {"item_id": item_id, "previous_item_id": previous}
            return "input_audio_buffer.committed", body
        case fx.BufferCleared():
            return "input_audio_buffer.cleared", {}
        case _:
            assert_never(effect)


def _extension(effect: _ExtensionEffect) -> tuple[str, Json]:
    match effect:
        case fx.WordSpoken(at=at, word=word, start_ms=start_ms, end_ms=end_ms):
            return "antiphon.word", {
                "response_id": at.response_id,
                "item_id": at.item_id,
                "word": word,
                "start_ms": start_ms,
                "end_ms": end_ms,
            }
        case fx.TurnMeasured():
            return "antiphon.metrics", asdict(effect)
        case _:
            assert_never(effect)


def _at(at: fx.PartAt) -> Json:
    return {
        "response_id": at.response_id,
        "item_id": at.item_id,
        "output_index": at.output_index,
        "content_index": at.content_index,
    }


def _call_at(at: fx.PartAt) -> Json:
    return {
        "response_id": at.response_id,
        "item_id": at.item_id,
        "output_index": at.output_index,
    }


def _rate_limit(limit: fx.RateLimit) -> Json:
    return {
        "name": limit.name,
        "limit": limit.limit,
        "remaining": limit.remaining,
        "reset_seconds": limit.reset_s,
    }


def _part_of(modality: Modality, text: str) -> Json:
    if modality is Modality.TEXT:
        return {"type": "text", "text": text}
    return {"type": "audio", "transcript": text}


def _error(error: ErrorInfo) -> Json:
    return {**_failure(error), "param": error.param, "event_id": error.event_id}


def _status_details(view: fx.ResponseView) -> Json | None:
    if view.status in (fx.ResponseStatus.IN_PROGRESS, fx.ResponseStatus.COMPLETED):
        return None
    details: Json = {"type": view.status.value}
    if view.reason is not None:
        details["reason"] = view.reason
    if view.error is not None:
        details["error"] = _failure(view.error)
    return details


def _failure(error: ErrorInfo) -> Json:
    body: Json = {"type": error.type, "code": error.code, "message": error.message}
    if error.retry_after_ms is not None:
        body["retry_after_ms"] = error.retry_after_ms
    return body


def _usage(usage: fx.TokenUsage) -> Json:
    return {
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "input_token_details": {
            "text_tokens": usage.input_tokens,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": usage.cached_tokens,
            "cached_tokens_details": {
                "text_tokens": usage.cached_tokens,
                "audio_tokens": 0,
                "image_tokens": 0,
            },
        },
        "output_token_details": {"text_tokens": usage.output_tokens, "audio_tokens": 0},
    }


def _format(form: AudioFormat) -> Json:
    if form is AudioFormat.PCM:
        return {"type": form.value, "rate": CORE_RATE}
    return {"type": form.value}


def _tokens(count: int | None) -> int | str:
    return "inf" if count is None else count


def _transcription(settings: Settings) -> Json | None:
    wanted = settings.transcription
    if wanted is None:
        return None
    body = {"model": wanted.model, "language": wanted.language, "prompt": wanted.prompt}
    # Strict clients fail on members they don't know, even null ones.
    return {key: value for key, value in body.items() if value is not None}


def _turn_detection(settings: Settings) -> Json | None:
    turns = settings.turn_detection
    if turns is None:
        return None
    return {
        "type": "server_vad",
        "threshold": turns.threshold,
        "prefix_padding_ms": turns.prefix_padding_ms,
        "silence_duration_ms": turns.silence_duration_ms,
        "create_response": turns.create_response,
        "interrupt_response": turns.interrupt_response,
        "idle_timeout_ms": None,
    }
