"""The configuration of a session over HTTP, and as clients are told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..sessions import settings as st
from ..sessions.errors import ErrorInfo, Refusal
from .audio_format import CORE_RATE
from .beta import beta_session
from .client_messages import SessionIn
from .dialect import Dialect
from .refusals import Refused, wrong_type
from .wire_settings import LOGPROBS, settings_patch
from .wire_tools import tool_choice_json, tool_json

Json = dict[str, Any]


class _Config(msgspec.Struct, kw_only=True):
    session: SessionIn


def session_patch(raw: Mapping[str, Any] | bytes, kind: st.SessionKind) -> st.SettingsPatch:
    """Parse the configuration of a session, an object or its JSON, as an update's is.

    Whether its values are allowed is for the core to say, when it merges them.

    Raises:
        Refused: it can't be understood or followed; the error names ``session.…``.
    """
    try:
        said = msgspec.json.decode(raw) if isinstance(raw, bytes) else raw
        session = msgspec.convert({"session": said}, _Config).session
        return settings_patch(session, kind)
    except msgspec.ValidationError as error:
        raise Refused(wrong_type(error, None)) from None
    except (msgspec.DecodeError, UnicodeError):
        raise Refused(ErrorInfo("invalid_json", "The session is not valid JSON.")) from None
    except RecursionError:
        raise Refused(ErrorInfo("invalid_json", "The session is nested too deeply.")) from None
    except Refusal as refusal:
        raise Refused(refusal.info(None)) from None


def session_object(
    session_id: str,
    settings: st.Settings,
    expires_at: int,
    model: str,
    dialect: Dialect = Dialect.GA,
) -> Json:
    """Return the whole effective configuration, as ``session.updated`` shows it.

    ``expires_at`` is in seconds since 1970.
    """
    if settings.kind is st.SessionKind.TRANSCRIPTION:
        session = _transcription_session(session_id, settings, expires_at)
    else:
        session = _realtime_session(session_id, settings, expires_at, model)
    if dialect is Dialect.BETA:
        return beta_session(session, settings.temperature)
    return session


def antiphon_json(settings: st.Settings, voices: tuple[str, ...]) -> Json:
    """Return our own settings, and the voices there are."""
    return {
        "voices": list(voices),
        "binary_audio": settings.binary_audio,
        "binary_format": settings.binary_format.value,
    }


def format_json(form: st.AudioFormat) -> Json:
    """Return an audio format as GA shows it."""
    if form is st.AudioFormat.PCM:
        return {"type": form.value, "rate": CORE_RATE}
    return {"type": form.value}


def tokens_json(count: int | None) -> int | str:
    """Return a bound on output tokens."""
    return "inf" if count is None else count


def _realtime_session(session_id: str, settings: st.Settings, expires_at: int, model: str) -> Json:
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": session_id,
        "model": model,
        "expires_at": expires_at,
        "output_modalities": [settings.modality.value],
        "instructions": settings.instructions,
        "audio": {
            "input": _input(settings),
            "output": {
                "format": format_json(settings.output_format),
                "voice": settings.voice,
                "speed": settings.speed,
            },
        },
        "tools": [tool_json(each) for each in settings.tools],
        "tool_choice": tool_choice_json(settings.tool_choice),
        "max_output_tokens": tokens_json(settings.max_output_tokens),
        "truncation": _truncation(settings.truncation),
        "tracing": None,
        "prompt": None,
        "include": _include(settings),
    }


def _transcription_session(session_id: str, settings: st.Settings, expires_at: int) -> Json:
    return {
        "type": "transcription",
        "object": "realtime.transcription_session",
        "id": session_id,
        "expires_at": expires_at,
        "audio": {"input": _input(settings)},
        "include": _include(settings),
    }


def _input(settings: st.Settings) -> Json:
    noise = settings.noise_reduction
    answers = settings.kind is st.SessionKind.REALTIME
    return {
        "format": format_json(settings.input_format),
        "transcription": _transcription(settings.transcription),
        "noise_reduction": None if noise is None else {"type": noise.value},
        "turn_detection": _turn_detection(settings.turn_detection, answers),
    }


def _transcription(wanted: st.Transcription | None) -> Json | None:
    if wanted is None:
        return None
    body = {
        "model": wanted.model,
        "language": wanted.language,
        "prompt": wanted.prompt,
        "keywords": None if wanted.keywords is None else list(wanted.keywords),
    }
    # Strict clients fail on members they don't know, even null ones.
    return {key: value for key, value in body.items() if value is not None}


def _turn_detection(turns: st.TurnDetection | None, answers: bool) -> Json | None:
    """Return what ends a turn, with the members of its kind only."""
    if turns is None:
        return None
    body: Json = {"type": turns.kind.value}
    if turns.kind is st.TurnKind.SEMANTIC_VAD:
        body["eagerness"] = turns.eagerness.value
    else:
        body["threshold"] = turns.threshold
        body["prefix_padding_ms"] = turns.prefix_padding_ms
        body["silence_duration_ms"] = turns.silence_duration_ms
    if answers:
        body["create_response"] = turns.create_response
        body["interrupt_response"] = turns.interrupt_response
        if turns.kind is st.TurnKind.SERVER_VAD:
            body["idle_timeout_ms"] = turns.idle_timeout_ms
    return body


def _truncation(truncation: st.Truncation) -> str | Json:
    if truncation.mode is not st.TruncationMode.RETENTION_RATIO:
        mode: str = truncation.mode.value
        return mode
    body: Json = {"type": truncation.mode.value, "retention_ratio": truncation.retention_ratio}
    if truncation.post_instructions is not None:
        body["token_limits"] = {"post_instructions": truncation.post_instructions}
    return body


def _include(settings: st.Settings) -> list[str] | None:
    return [LOGPROBS] if settings.logprobs else None
