"""From GA's events and members to the beta's: pure, and on plain dicts, ahead of encoding."""

from __future__ import annotations

from typing import Any

from .wire_settings import BETA_FORMATS

Json = dict[str, Any]

TEMPERATURE = 0.8
"""What the beta shows where a client has set none."""

AUDIO_DELTA = "response.audio.delta"

_NAMES = {
    "conversation.item.added": "conversation.item.created",
    "response.output_text.delta": "response.text.delta",
    "response.output_text.done": "response.text.done",
    "response.output_audio.delta": AUDIO_DELTA,
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
}

_DROPPED = frozenset({"conversation.item.done", "input_audio_buffer.timeout_triggered"})
"""Events that the beta does not have."""

_PARTS = {"output_text": "text", "output_audio": "audio"}

_FORMATS = {form.value: name for name, form in BETA_FORMATS.items()}

_PARAMS = (
    ("session.audio.input.format", "session.input_audio_format"),
    ("session.audio.input.transcription", "session.input_audio_transcription"),
    ("session.audio.input.noise_reduction", "session.input_audio_noise_reduction"),
    ("session.audio.input.turn_detection", "session.turn_detection"),
    ("session.audio.output.format", "session.output_audio_format"),
    ("session.audio.output.voice", "session.voice"),
    ("session.audio.output.speed", "session.speed"),
    ("session.output_modalities", "session.modalities"),
    ("session.max_output_tokens", "session.max_response_output_tokens"),
    ("response.audio.output.format", "response.output_audio_format"),
    ("response.audio.output.voice", "response.voice"),
    ("response.output_modalities", "response.modalities"),
    ("response.max_output_tokens", "response.max_response_output_tokens"),
)
"""Members that errors name."""


def beta_event(name: str, body: Json) -> tuple[str, Json] | None:
    """Return an event of GA as the beta has it; ``None`` where it has none such.

    Sessions are as :func:`beta_session` made them, responses as :func:`beta_response` did.
    """
    if name in _DROPPED:
        return None
    if name == "error":
        return name, {"error": _error(body["error"])}
    if "item" in body:
        body = {**body, "item": beta_item(body["item"])}
    if name == "response.function_call_arguments.done":
        body = {key: value for key, value in body.items() if key != "name"}
    if name.startswith("session.") and body["session"]["object"] != "realtime.session":
        name = f"transcription_{name}"
    return _NAMES.get(name, name), body


def beta_item(item: Json) -> Json:
    """Return an item with the beta's names of content parts."""
    if "content" not in item:
        return item
    return {**item, "content": [_part(part) for part in item["content"]]}


def beta_response(response: Json, temperature: float | None) -> Json:
    """Return a response, flat; what it does not say of itself is ``temperature``."""
    spoken = response["audio"]["output"]
    usage = response["usage"]
    return {
        "object": response["object"],
        "id": response["id"],
        "status": response["status"],
        "status_details": response["status_details"],
        "output": [beta_item(item) for item in response["output"]],
        "conversation_id": response["conversation_id"],
        "modalities": _modalities(response["output_modalities"]),
        "voice": spoken["voice"],
        "output_audio_format": _FORMATS[spoken["format"]["type"]],
        "temperature": TEMPERATURE if temperature is None else temperature,
        "max_output_tokens": response["max_output_tokens"],
        "usage": None if usage is None else _usage(usage),
        "metadata": response["metadata"],
    }


def beta_session(session: Json, temperature: float | None) -> Json:
    """Return a session of either kind, flat; ``temperature`` is what it has set, if any."""
    heard = session["audio"]["input"]
    head: Json = {
        key: session[key] for key in ("id", "object", "model", "expires_at") if key in session
    }
    both: Json = {
        "input_audio_format": _FORMATS[heard["format"]["type"]],
        "input_audio_transcription": _without(heard["transcription"], "keywords"),
        "input_audio_noise_reduction": heard["noise_reduction"],
        "turn_detection": _without(heard["turn_detection"], "idle_timeout_ms"),
        "include": session["include"],
    }
    if session["type"] == "transcription":
        return {**head, **both, "client_secret": None}
    spoken = session["audio"]["output"]
    choice = session["tool_choice"]
    return {
        **head,
        **both,
        "modalities": _modalities(session["output_modalities"]),
        "instructions": session["instructions"],
        "voice": spoken["voice"],
        "speed": spoken["speed"],
        "output_audio_format": _FORMATS[spoken["format"]["type"]],
        "tools": session["tools"],
        "tool_choice": choice if isinstance(choice, str) else choice["name"],
        "temperature": TEMPERATURE if temperature is None else temperature,
        "max_response_output_tokens": session["max_output_tokens"],
        "tracing": session["tracing"],
        "client_secret": None,
    }


def _part(part: Json) -> Json:
    return {**part, "type": _PARTS.get(part["type"], part["type"])}


def _modalities(names: list[str]) -> list[str]:
    return ["text", "audio"] if "audio" in names else ["text"]


def _without(value: Json | None, member: str) -> Json | None:
    """Return an object, if there is one, without a member that the beta does not have."""
    if value is None:
        return None
    return {key: each for key, each in value.items() if key != member}


def _usage(usage: Json) -> Json:
    given = usage["input_token_details"]
    kept = {key: given[key] for key in ("text_tokens", "audio_tokens", "cached_tokens")}
    return {**usage, "input_token_details": kept}


def _error(error: Json) -> Json:
    """Return an error that names members as the beta does."""
    param = error["param"]
    if param is None:
        return error
    for ga, beta in _PARAMS:
        if param == ga or param.startswith((f"{ga}.", f"{ga}[")):
            message = error["message"].replace(ga, beta)
            return {**error, "param": beta + param[len(ga) :], "message": message}
    return error
