"""From the client's JSON to session events, in either dialect of the Realtime protocol.

Lenient where stock clients need it (members that are unknown, or that change nothing here,
are ignored), strict where a meaning would be lost: what can't be done is refused by name.
"""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from ..sessions import events, settings
from ..sessions.errors import ErrorInfo, Refusal
from .client_messages import (
    Append,
    Clear,
    Commit,
    ItemCreate,
    ItemDelete,
    ItemRetrieve,
    ItemTruncate,
    Message,
    OutputClear,
    PlaybackReport,
    ResponseCancel,
    ResponseCreate,
    ResponseIn,
    SessionUpdate,
    TranscriptionUpdate,
)
from .dialect import Dialect
from .refusals import Refused as Refused
from .refusals import located, missing, wrong_type
from .wire_items import new_item
from .wire_response import response_options
from .wire_settings import settings_patch, shape, wrong_kind


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
        raise Refused(_too_deep(None)) from None


def asked_shape(message: Message) -> Dialect | None:
    """Return the dialect that a message shows its client to speak; ``None`` if it shows none."""
    match message:
        case SessionUpdate(session=session):
            return shape(session)
        case TranscriptionUpdate():
            return Dialect.BETA
        case _:
            return None


def to_event(
    message: Message, now: settings.Settings, dialect: Dialect = Dialect.GA
) -> events.ClientEvent | None:
    """Turn a parsed message, other than audio, into what the session understands.

    ``now`` are the session's settings: they tell what it is for, and which format the audio
    of an item has. ``None`` is returned for what there is nothing to do about.

    Raises:
        Refused: it asks for something that this server does not do.
    """
    try:
        return _to_event(message, now, dialect)
    except Refusal as refusal:
        raise Refused(refusal.info(message.event_id)) from None
    except RecursionError:
        raise Refused(_too_deep(message.event_id)) from None


def _to_event(
    message: Message, now: settings.Settings, dialect: Dialect
) -> events.ClientEvent | None:
    event_id = message.event_id
    match message:
        case SessionUpdate() | TranscriptionUpdate():
            return _update(message, now, dialect)
        case Append(audio=audio):
            return events.AppendAudio(audio, event_id)
        case Commit():
            return events.CommitAudio(event_id)
        case Clear():
            return events.ClearAudio(event_id)
        case OutputClear():
            # The client plays what it was sent; there is nothing here to clear.
            return None
        case ItemCreate() | ItemRetrieve() | ItemTruncate() | ItemDelete():
            return _item_event(message, now)
        case ResponseCreate(response=response):
            options = response_options(response or ResponseIn(), now, dialect)
            return events.CreateResponse(options, event_id)
        case ResponseCancel(response_id=response_id):
            return events.CancelResponse(response_id, event_id)
        case PlaybackReport(response_id=response_id):
            return events.ReportPlayback(
                response_id,
                round(message.played_ms),
                round(message.buffered_ms),
                message.underruns,
                round(message.gap_ms),
                event_id,
            )
        case _:
            assert_never(message)


def _update(
    message: SessionUpdate | TranscriptionUpdate, now: settings.Settings, dialect: Dialect
) -> events.ClientEvent:
    kind = now.kind
    if isinstance(message, TranscriptionUpdate) and kind is not kind.TRANSCRIPTION:
        raise wrong_kind(kind.TRANSCRIPTION, kind, "type")
    patch = settings_patch(message.session, kind, dialect)
    return events.UpdateSession(patch, message.event_id)


def _item_event(
    message: ItemCreate | ItemRetrieve | ItemTruncate | ItemDelete, now: settings.Settings
) -> events.ClientEvent:
    event_id = message.event_id
    match message:
        case ItemCreate(item=item, previous_item_id=previous):
            return events.CreateItem(new_item(item, now), previous, event_id)
        case ItemRetrieve(item_id=item_id):
            return events.RetrieveItem(item_id, event_id)
        case ItemTruncate(item_id=item_id, content_index=index, audio_end_ms=end):
            return events.TruncateItem(item_id, index, end, event_id)
        case ItemDelete(item_id=item_id):
            return events.DeleteItem(item_id, event_id)
        case _:
            assert_never(message)


def _explain(text: str | bytes, error: msgspec.ValidationError) -> Refused:
    _, param = located(error)
    try:
        envelope = _envelopes.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        envelope = _Envelope()
    event_id = envelope.event_id if isinstance(envelope.event_id, str) else None
    if param == "type" or (not param and not isinstance(envelope.type, str)):
        return Refused(_unknown_type(envelope.type, event_id))
    return Refused(wrong_type(error, event_id))


def _unknown_type(name: object, event_id: str | None) -> ErrorInfo:
    known = ", ".join(sorted(str(m.__struct_config__.tag) for m in Message.__args__))
    if name is None:
        return missing("type").info(event_id)
    said = f"'{name[:64]}'" if isinstance(name, str) else "that"
    return ErrorInfo(
        "invalid_value", f"Invalid value: {said}. Supported values are: {known}.", "type", event_id
    )


def _too_deep(event_id: str | None) -> ErrorInfo:
    return ErrorInfo("invalid_json", "The message is nested too deeply.", None, event_id)
