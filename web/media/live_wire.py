"""The messages of a film's client: read, and made into events or what is to be begun."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from ...realtime.refusals import Refused, located, wrong_type
from ...sessions.errors import ErrorInfo, Refusal
from . import live_state as lv
from .video_request import VideoSettings

START_BYTES = 4 * 1024 * 1024
"""Of the first message, in which there may be a picture."""

CONTROL_BYTES = 128 * 1024
"""Of any other."""

CHUNKS_MOST = 64

TOO_LARGE = "message_too_large"
"""Code of what ends the connection."""


class Start(VideoSettings, tag_field="type", tag="session.start", kw_only=True):
    """A film: what a clip is asked for with, for each of its chunks."""

    chunks: int = 4
    format: Literal["fmp4", "m4s"] = "fmp4"
    """Two names of the same: fragmented MP4."""


class Target(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to change to."""

    prompt: str


class Change(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A change."""

    event: Target
    event_id: str | None = None
    transition_chunks: int | None = None


class Interaction(
    msgspec.Struct,
    tag_field="type",
    tag="session.interaction",
    kw_only=True,
    forbid_unknown_fields=True,
):
    """Another prompt."""

    interaction: Change


class Stop(
    msgspec.Struct, tag_field="type", tag="session.stop", kw_only=True, forbid_unknown_fields=True
):
    """No more."""


class Ping(
    msgspec.Struct, tag_field="type", tag="session.ping", kw_only=True, forbid_unknown_fields=True
):
    """Is anybody there?"""


Later: TypeAlias = lv.Changed | lv.Stopped | lv.Pinged
"""What may come beside the start."""

ID_CHARS = 256

_messages = msgspec.json.Decoder(Start | Interaction | Stop | Ping)


def read(data: str | bytes) -> Start | Later:
    """Read a message.

    Raises:
        Refused: it is none of ours, too long, or a member is missing, unknown or of another type.
    """
    if isinstance(data, bytes):
        raise Refused(ErrorInfo("invalid_value", "Binary messages mean nothing here."))
    try:
        message = _messages.decode(data)
    except msgspec.ValidationError as error:
        raise _refused(error) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Refused(ErrorInfo("invalid_json", "The message is not valid JSON.")) from None
    match message:
        case Start():
            return message
        case Stop():
            return lv.Stopped()
        case Ping():
            return lv.Pinged()
        case _:
            return _changed(message.interaction)


def check_length(data: str | bytes, most: int) -> None:
    """Refuse a message that is longer than ``most`` characters or bytes.

    Raises:
        Refused: it is.
    """
    if len(data) > most:
        message = f"A message may have at most {most} bytes here."
        raise Refused(ErrorInfo(TOO_LARGE, message))


def check_chunks(start: Start) -> int:
    """How many chunks a film has.

    Raises:
        Refusal: no such number is allowed.
    """
    if not 1 <= start.chunks <= CHUNKS_MOST:
        message = f"chunks: must be from 1 to {CHUNKS_MOST}; it is {start.chunks}."
        raise Refusal("invalid_value", message, "chunks")
    if start.webhook is not None:
        raise Refusal("unsupported_value", "webhook: a film is not a job.", "webhook")
    return start.chunks


def _changed(change: Change) -> lv.Changed:
    if change.event_id is not None and not 1 <= len(change.event_id) <= ID_CHARS:
        message = f"interaction.event_id: 1 to {ID_CHARS} characters."
        raise Refused(ErrorInfo("invalid_value", message, "interaction.event_id"))
    chunks = change.transition_chunks or 0
    if chunks < 0:
        message = "interaction.transition_chunks: must not be negative."
        raise Refused(ErrorInfo("invalid_value", message, "interaction.transition_chunks"))
    return lv.Changed(change.event.prompt, change.event_id, chunks)


def _refused(error: msgspec.ValidationError) -> Refused:
    what, where = located(error)
    if unknown := re.fullmatch(r"Object contains unknown field `(.+)`", what):
        name = ".".join(filter(None, [where, unknown[1][:64]]))
        return Refused(ErrorInfo("unknown_parameter", f"Unknown parameter: '{name}'.", name))
    return Refused(wrong_type(error, None))
