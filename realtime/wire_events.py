"""Events of GA, each made of one effect and of nothing else: their names and bodies."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypeAlias, assert_never

from ..sessions import effects as fx
from ..sessions.events import TokenLogprob
from ..sessions.settings import Modality

Json = dict[str, Any]

BufferEffect: TypeAlias = (
    fx.SpeechStarted | fx.SpeechStopped | fx.IdleTimedOut | fx.BufferCommitted | fx.BufferCleared
)
TranscriptionEffect: TypeAlias = (
    fx.TranscriptionDelta | fx.TranscriptionDone | fx.TranscriptionFailed
)
ExtensionEffect: TypeAlias = fx.WordSpoken | fx.TurnMeasured | fx.ResponseMeasured
DeltaEffect: TypeAlias = fx.TextDelta | fx.TranscriptDelta | fx.CallDelta


def buffer_event(effect: BufferEffect) -> tuple[str, Json]:
    """Return what is told of the input buffer."""
    match effect:
        case fx.SpeechStarted():
            return "input_audio_buffer.speech_started", asdict(effect)
        case fx.SpeechStopped():
            return "input_audio_buffer.speech_stopped", asdict(effect)
        case fx.IdleTimedOut():
            return "input_audio_buffer.timeout_triggered", asdict(effect)
        case fx.BufferCommitted():
            return "input_audio_buffer.committed", asdict(effect)
        case fx.BufferCleared():
            return "input_audio_buffer.cleared", {}
        case _:
            assert_never(effect)


def transcription_event(effect: TranscriptionEffect) -> tuple[str, Json]:
    """Return what is told of what the person said."""
    body: Json = {"item_id": effect.item_id, "content_index": 0}
    name = "conversation.item.input_audio_transcription"
    match effect:
        case fx.TranscriptionDelta(text=text, logprobs=logprobs):
            return f"{name}.delta", {**body, "delta": text, **_logprobs(logprobs)}
        case fx.TranscriptionDone(transcript=transcript, audio_ms=audio_ms, logprobs=logprobs):
            usage = {"type": "duration", "seconds": audio_ms / 1000}
            said = {"transcript": transcript, "usage": usage, **_logprobs(logprobs)}
            return f"{name}.completed", {**body, **said}
        case fx.TranscriptionFailed(error=error):
            failure = {"type": error.type, "code": error.code, "message": error.message}
            return f"{name}.failed", {**body, "error": {**failure, "param": None}}
        case _:
            assert_never(effect)


def _logprobs(tokens: tuple[TokenLogprob, ...] | None) -> Json:
    if tokens is None:
        return {}
    return {
        "logprobs": [
            {"token": each.token, "logprob": each.logprob, "bytes": list(each.token.encode())}
            for each in tokens
        ]
    }


def extension_event(effect: ExtensionEffect) -> tuple[str, Json]:
    """Return one of our own events."""
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
        case fx.ResponseMeasured():
            return "antiphon.response.metrics", asdict(effect)
        case _:
            assert_never(effect)


def delta_event(effect: DeltaEffect, text: str) -> tuple[str, Json]:
    """Return the delta that says ``text``, which is all or a piece of what the effect says."""
    match effect:
        case fx.TextDelta(at=at):
            return "response.output_text.delta", {**at_json(at), "delta": text}
        case fx.TranscriptDelta(at=at):
            return "response.output_audio_transcript.delta", {**at_json(at), "delta": text}
        case fx.CallDelta(at=at, call_id=call_id):
            body = {**call_at_json(at), "call_id": call_id, "delta": text}
            return "response.function_call_arguments.delta", body
        case _:
            assert_never(effect)


def at_json(at: fx.PartAt) -> Json:
    """Return where a content part belongs."""
    return {**call_at_json(at), "content_index": at.content_index}


def call_at_json(at: fx.PartAt) -> Json:
    """Return where a function call belongs, which has no content parts."""
    return {
        "response_id": at.response_id,
        "item_id": at.item_id,
        "output_index": at.output_index,
    }


def rate_limit_json(limit: fx.RateLimit) -> Json:
    """Return what is left of one limit."""
    return {
        "name": limit.name,
        "limit": limit.limit,
        "remaining": limit.remaining,
        "reset_seconds": limit.reset_s,
    }


def part_json(modality: Modality, text: str) -> Json:
    """Return a content part as its own events show it: without the prefix that items have."""
    if modality is Modality.TEXT:
        return {"type": "text", "text": text}
    return {"type": "audio", "transcript": text}
