"""From the client's JSON to session events: the GA dialect of the Realtime protocol.

Lenient where stock clients need it (members that are unknown, or that change nothing here,
are ignored), strict where a meaning would be lost: what can't be done is refused by name.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeVar, assert_never

import msgspec
from msgspec import UNSET, UnsetType

from ..sessions import events, items, settings
from ..sessions.errors import ErrorInfo, Refusal
from .audio_format import CORE_RATE, G711_RATE, from_wire
from .client_messages import (
    Append,
    AudioIn,
    AudioInputIn,
    AudioOutputIn,
    Clear,
    Commit,
    FormatIn,
    ItemCreate,
    ItemDelete,
    ItemIn,
    ItemRetrieve,
    ItemTruncate,
    Message,
    PartIn,
    PlaybackReport,
    ResponseCancel,
    ResponseCreate,
    ResponseIn,
    SessionIn,
    SessionUpdate,
    TranscriptionIn,
    TurnDetectionIn,
    VoiceIdIn,
)

T = TypeVar("T")


class _Envelope(msgspec.Struct, kw_only=True):
    type: Any = None
    event_id: Any = None


_messages = msgspec.json.Decoder(Message)
_envelopes = msgspec.json.Decoder(_Envelope)


def decode(text: str | bytes) -> Message:
    """Parse one message.

    Raises:
        Refused: it is no JSON, of an unknown type, or a member has the wrong type.
    """
    try:
        return _messages.decode(text)
    except msgspec.ValidationError as error:
        raise _explain(text, error) from None
    except (msgspec.DecodeError, UnicodeError):
        raise Refused(ErrorInfo("invalid_json", "The message is not valid JSON.")) from None
    except RecursionError:
        raise Refused(ErrorInfo("invalid_json", "The message is nested too deeply.")) from None


class Refused(Exception):
    """A message that says nothing we can do; ``error`` tells the client why."""

    def __init__(self, error: ErrorInfo) -> None:
        super().__init__(error.message)
        self.error = error


def _explain(text: str | bytes, error: msgspec.ValidationError) -> Refused:
    what, _, where = str(error).partition(" - at `$")
    param = where.rstrip("`").lstrip(".") or None
    try:
        envelope = _envelopes.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        envelope = _Envelope()
    event_id = envelope.event_id if isinstance(envelope.event_id, str) else None
    if param == "type" or (param is None and not isinstance(envelope.type, str)):
        return Refused(_unknown_type(envelope.type, event_id))
    if missing := re.fullmatch(r"Object missing required field `(.+)`", what):
        param = ".".join(filter(None, [param, missing[1]]))
        message = f"Missing required parameter: '{param}'."
        return Refused(ErrorInfo("missing_required_parameter", message, param, event_id))
    message = f"Invalid value for '{param}': {what[0].lower()}{what[1:]}."
    return Refused(ErrorInfo("invalid_value", message, param, event_id))


def _unknown_type(name: object, event_id: str | None) -> ErrorInfo:
    known = ", ".join(sorted(str(m.__struct_config__.tag) for m in Message.__args__))
    if name is None:
        return ErrorInfo(
            "missing_required_parameter", "Missing required parameter: 'type'.", "type", event_id
        )
    said = f"'{name[:64]}'" if isinstance(name, str) else "that"
    return ErrorInfo(
        "invalid_value", f"Invalid value: {said}. Supported values are: {known}.", "type", event_id
    )


def to_event(message: Message, now: settings.Settings) -> events.ClientEvent:
    """Turn a parsed message, other than audio, into what the session understands.

    ``now`` are the session's settings: they tell which format the audio of an item has.

    Raises:
        Refused: it asks for something that this server does not do.
    """
    try:
        return _to_event(message, now)
    except Refusal as refusal:
        raise Refused(refusal.info(message.event_id)) from None


def _to_event(message: Message, now: settings.Settings) -> events.ClientEvent:
    event_id = message.event_id
    match message:
        case SessionUpdate(session=session):
            return events.UpdateSession(_settings_patch(session), event_id)
        case Append(audio=audio):
            return events.AppendAudio(audio, event_id)
        case Commit():
            return events.CommitAudio(event_id)
        case Clear():
            return events.ClearAudio(event_id)
        case ItemCreate(item=item, previous_item_id=previous):
            return events.CreateItem(_new_item(item, now), previous, event_id)
        case ItemRetrieve(item_id=item_id):
            return events.RetrieveItem(item_id, event_id)
        case ItemTruncate(item_id=item_id, content_index=index, audio_end_ms=end):
            return events.TruncateItem(item_id, index, end, event_id)
        case ItemDelete(item_id=item_id):
            return events.DeleteItem(item_id, event_id)
        case ResponseCreate(response=response):
            return events.CreateResponse(_options(response or ResponseIn()), event_id)
        case ResponseCancel(response_id=response_id):
            return events.CancelResponse(response_id, event_id)
        case PlaybackReport(response_id=response_id, played_ms=played, buffered_ms=buffered):
            return events.ReportPlayback(response_id, round(played), round(buffered), event_id)
        case _:
            assert_never(message)


def _settings_patch(session: SessionIn) -> settings.SettingsPatch:
    if session.type not in (UNSET, "realtime"):
        raise Refusal(
            "invalid_value",
            f"session.type must be 'realtime', not '{session.type}': "
            "this connection is a conversation.",
            "session.type",
        )
    _refuse_tools(session.tools, "session.tools")
    audio = AudioIn() if session.audio is UNSET else session.audio
    heard = AudioInputIn() if audio.input is UNSET else audio.input
    spoken = AudioOutputIn() if audio.output is UNSET else audio.output
    tokens = session.max_output_tokens
    return settings.SettingsPatch(
        instructions=_maybe(session.instructions),
        modality=settings.UNSET
        if session.output_modalities is UNSET
        else _modality(session.output_modalities, "session.output_modalities"),
        input_format=_format(heard.format, "session.audio.input.format"),
        output_format=_format(spoken.format, "session.audio.output.format"),
        voice=settings.UNSET if spoken.voice is UNSET else _voice(spoken.voice),
        speed=_maybe(spoken.speed),
        turn_detection=_turn_detection(heard.turn_detection),
        transcription=_transcription(heard.transcription),
        max_output_tokens=None if tokens == "inf" else _maybe(tokens),
        extensions=settings.UNSET if session.antiphon is UNSET else bool(session.antiphon),
    )


def _maybe(value: T | UnsetType) -> settings.Maybe[T]:
    return settings.UNSET if value is UNSET else value


def _refuse_tools(tools: list[Any] | None | UnsetType, param: str) -> None:
    if tools is not UNSET and tools:
        raise Refusal(
            "unsupported_value", f"{param} must be empty: this model calls no functions.", param
        )


def _modality(names: list[Literal["audio", "text"]], param: str) -> settings.Modality:
    if len(set(names)) != 1:
        raise Refusal("invalid_value", f'{param} must be ["audio"] or ["text"].', param)
    return settings.Modality(names[0])


def _format(form: FormatIn | UnsetType, param: str) -> settings.Maybe[settings.AudioFormat]:
    if form is UNSET:
        return settings.UNSET
    rate = CORE_RATE if form.type == "audio/pcm" else G711_RATE
    if form.rate not in (None, rate):
        raise Refusal("invalid_value", f"{param}.rate must be {rate}.", f"{param}.rate")
    return settings.AudioFormat(form.type)


def _voice(voice: str | VoiceIdIn) -> str:
    return voice if isinstance(voice, str) else voice.id


def _turn_detection(
    turns: TurnDetectionIn | None | UnsetType,
) -> settings.Maybe[settings.TurnDetectionPatch | None]:
    if turns is UNSET:
        return settings.UNSET
    if turns is None:
        return None
    at = "session.audio.input.turn_detection"
    if turns.type not in (UNSET, "server_vad"):
        raise Refusal(
            "invalid_value",
            f"{at}.type must be 'server_vad', or {at} must be null.",
            f"{at}.type",
        )
    if turns.idle_timeout_ms is not UNSET and turns.idle_timeout_ms is not None:
        param = f"{at}.idle_timeout_ms"
        raise Refusal("unsupported_value", f"{param} must be null.", param)
    return settings.TurnDetectionPatch(
        threshold=_maybe(turns.threshold),
        prefix_padding_ms=_maybe(turns.prefix_padding_ms),
        silence_duration_ms=_maybe(turns.silence_duration_ms),
        create_response=_maybe(turns.create_response),
        interrupt_response=_maybe(turns.interrupt_response),
    )


def _transcription(
    wanted: TranscriptionIn | None | UnsetType,
) -> settings.Maybe[settings.TranscriptionPatch | None]:
    if wanted is UNSET:
        return settings.UNSET
    if wanted is None:
        return None
    return settings.TranscriptionPatch(
        model=_maybe(wanted.model), language=_maybe(wanted.language), prompt=_maybe(wanted.prompt)
    )


_PARTS = {
    "input_text": items.PartKind.INPUT_TEXT,
    "input_audio": items.PartKind.INPUT_AUDIO,
    "output_text": items.PartKind.OUTPUT_TEXT,
    "text": items.PartKind.OUTPUT_TEXT,
    "output_audio": items.PartKind.OUTPUT_AUDIO,
    "audio": items.PartKind.OUTPUT_AUDIO,
}

_AUDIO = {items.PartKind.INPUT_AUDIO, items.PartKind.OUTPUT_AUDIO}

_ALLOWED = {
    items.Role.SYSTEM: {items.PartKind.INPUT_TEXT},
    items.Role.USER: {items.PartKind.INPUT_TEXT, items.PartKind.INPUT_AUDIO},
    items.Role.ASSISTANT: {items.PartKind.OUTPUT_TEXT, items.PartKind.OUTPUT_AUDIO},
}


def _new_item(item: ItemIn, now: settings.Settings) -> items.NewItem:
    if item.type != "message":
        raise Refusal("invalid_value", "item.type must be 'message'.", "item.type")
    try:
        role = items.Role(item.role)
    except ValueError:
        raise Refusal(
            "invalid_value", "item.role must be 'system', 'user' or 'assistant'.", "item.role"
        ) from None
    if not item.content:
        raise Refusal("invalid_value", "item.content must have at least one part.", "item.content")
    parts = tuple(_part(part, role, index) for index, part in enumerate(item.content))
    form = now.output_format if role is items.Role.ASSISTANT else now.input_format
    audio = b"".join(_audio(part, form, index) for index, part in enumerate(item.content))
    return items.NewItem(role=role, parts=parts, id=item.id, audio=audio)


def _part(part: PartIn, role: items.Role, index: int) -> items.Part:
    at = f"item.content[{index}]"
    kind = _PARTS.get(part.type)
    if kind not in _ALLOWED[role]:
        allowed = ", ".join(sorted(k.value for k in _ALLOWED[role]))
        raise Refusal(
            "invalid_value",
            f"{at}.type of a {role.value} message must be one of: {allowed}.",
            f"{at}.type",
        )
    assert kind is not None
    if kind in (items.PartKind.INPUT_TEXT, items.PartKind.OUTPUT_TEXT):
        if part.text is None:
            param = f"{at}.text"
            raise Refusal(
                "missing_required_parameter", f"Missing required parameter: '{param}'.", param
            )
        return items.Part(kind, part.text)
    if kind is items.PartKind.INPUT_AUDIO and part.audio is None and part.transcript is None:
        param = f"{at}.audio"
        raise Refusal(
            "missing_required_parameter", f"Missing required parameter: '{param}'.", param
        )
    return items.Part(kind, part.transcript)


def _audio(part: PartIn, form: settings.AudioFormat, index: int) -> bytes:
    """Return the audio of a part as the core wants it."""
    if part.audio is None or _PARTS[part.type] not in _AUDIO:
        return b""
    if form is settings.AudioFormat.PCM and len(part.audio) % 2:
        param = f"item.content[{index}].audio"
        raise Refusal(
            "invalid_value",
            f"{param} must be whole 16-bit samples: it has an odd number of bytes.",
            param,
        )
    return from_wire(part.audio, form)


def _options(response: ResponseIn) -> events.ResponseOptions:
    if response.conversation not in (None, "auto"):
        param = "response.conversation"
        raise Refusal("unsupported_value", f"{param} must be 'auto'.", param)
    if response.input is not None:
        raise Refusal("unsupported_value", "response.input must be absent.", "response.input")
    _refuse_tools(response.tools, "response.tools")
    audio = response.audio
    spoken = AudioOutputIn() if audio is None or audio.output is UNSET else audio.output
    form = _format(spoken.format, "response.audio.output.format")
    tokens = response.max_output_tokens
    return events.ResponseOptions(
        instructions=response.instructions,
        modality=None
        if response.output_modalities is None
        else _modality(response.output_modalities, "response.output_modalities"),
        voice=None if spoken.voice is UNSET else _voice(spoken.voice),
        output_format=None if form is settings.UNSET else form,
        max_output_tokens=None if tokens == "inf" else tokens,
        metadata=_metadata(response.metadata),
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
