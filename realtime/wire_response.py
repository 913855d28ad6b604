"""Responses on the wire: what a client asks of one, and how it is shown."""

from __future__ import annotations

from typing import Any

from ..sessions import effects as fx
from ..sessions import events
from ..sessions import settings as st
from ..sessions.errors import ErrorInfo, Refusal
from ..sessions.items import NewItem
from .client_messages import AudioOutputIn, ResponseIn
from .dialect import Dialect
from .refusals import not_one_of
from .wire_items import input_item, item_json
from .wire_session import format_json, tokens_json
from .wire_settings import audio_format, modality, voice_name
from .wire_tools import tool_choice, tools

Json = dict[str, Any]

MAX_INPUT_ITEMS = 2000
"""Items that a response may be given to answer."""


def response_options(
    response: ResponseIn, now: st.Settings, dialect: Dialect = Dialect.GA
) -> events.ResponseOptions:
    """Return what differs in one response from the session's settings ``now``.

    Raises:
        Refusal: an option can't be understood; its ``param`` has the name of GA.
    """
    audio = response.audio
    spoken = (audio.output if audio else None) or AudioOutputIn()
    form = spoken.format or response.output_audio_format
    voice = spoken.voice or response.voice
    tokens = response.max_output_tokens
    tokens = response.max_response_output_tokens if tokens is None else tokens
    choice = response.tool_choice
    return events.ResponseOptions(
        instructions=response.instructions,
        modality=modality(response.output_modalities, response.modalities, "response"),
        voice=voice_name(voice) if voice else None,
        output_format=audio_format(form, "response.audio.output.format") if form else None,
        max_output_tokens=None if tokens == "inf" else tokens,
        temperature=response.temperature,
        metadata=_metadata(response.metadata),
        tools=None if response.tools is None else tools(response.tools, "response.tools"),
        tool_choice=None
        if choice is None
        else tool_choice(choice, "response.tool_choice", dialect),
        out_of_band=_out_of_band(response.conversation),
        input=_input(response, now),
    )


def response_json(view: fx.ResponseView, conversation_id: str, *, transcribed: bool) -> Json:
    """Return a response as GA shows it."""
    return {
        "object": "realtime.response",
        "id": view.id,
        "status": view.status.value,
        "status_details": _status_details(view),
        "output": [item_json(item, transcribed=transcribed) for item in view.output],
        "conversation_id": None if view.out_of_band else conversation_id,
        "output_modalities": [view.modality.value],
        "max_output_tokens": tokens_json(view.max_output_tokens),
        "audio": {"output": {"format": format_json(view.output_format), "voice": view.voice}},
        "usage": None if view.usage is None else _usage(view.usage),
        "metadata": None if view.metadata is None else dict(view.metadata),
    }


def error_json(error: ErrorInfo) -> Json:
    """Return an error as its own event shows it."""
    return {**failure_json(error), "param": error.param, "event_id": error.event_id}


def failure_json(error: ErrorInfo) -> Json:
    """Return an error inside something that failed."""
    body: Json = {"type": error.type, "code": error.code, "message": error.message}
    if error.retry_after_ms is not None:
        body["retry_after_ms"] = error.retry_after_ms
    return body


def _out_of_band(conversation: str | None) -> bool:
    if conversation not in (None, "auto", "none"):
        raise not_one_of("response.conversation", conversation, ["auto", "none"])
    return conversation == "none"


def _input(
    response: ResponseIn, now: st.Settings
) -> tuple[NewItem | events.ItemReference, ...] | None:
    if response.input is None:
        return None
    param = "response.input"
    if len(response.input) > MAX_INPUT_ITEMS:
        raise Refusal("invalid_value", f"{param} may have at most {MAX_INPUT_ITEMS} items.", param)
    return tuple(
        input_item(item, now, f"{param}[{index}]") for index, item in enumerate(response.input)
    )


def _metadata(metadata: dict[str, str] | None) -> tuple[tuple[str, str], ...] | None:
    if metadata is None:
        return None
    fits = all(len(key) <= 64 and len(value) <= 512 for key, value in metadata.items())
    if len(metadata) > 16 or not fits:
        param = "response.metadata"
        raise Refusal(
            "invalid_value",
            f"{param} may have at most 16 pairs, of keys up to 64 and values up to 512 characters.",
            param,
        )
    return tuple(metadata.items())


def _status_details(view: fx.ResponseView) -> Json | None:
    if view.status in (fx.ResponseStatus.IN_PROGRESS, fx.ResponseStatus.COMPLETED):
        return None
    details: Json = {"type": view.status.value}
    if view.reason is not None:
        details["reason"] = view.reason
    if view.error is not None:
        details["error"] = failure_json(view.error)
    return details


def _usage(usage: fx.TokenUsage) -> Json:
    read = usage.input_tokens + usage.input_audio_tokens
    written = usage.output_tokens + usage.output_audio_tokens
    return {
        "total_tokens": read + written,
        "input_tokens": read,
        "output_tokens": written,
        "input_token_details": {
            "text_tokens": usage.input_tokens,
            "audio_tokens": usage.input_audio_tokens,
            "image_tokens": 0,
            "cached_tokens": usage.cached_tokens,
            "cached_tokens_details": {
                "text_tokens": usage.cached_tokens,
                "audio_tokens": 0,
                "image_tokens": 0,
            },
        },
        "output_token_details": {
            "text_tokens": usage.output_tokens,
            "audio_tokens": usage.output_audio_tokens,
        },
    }
