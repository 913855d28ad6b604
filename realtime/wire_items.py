"""Conversation items, from the wire and to it."""

from __future__ import annotations

from typing import Any

from ..sessions import events, items
from ..sessions import settings as st
from ..sessions.errors import Refusal
from ..sessions.items import AUDIO_KINDS, ItemKind, PartKind, Role
from .audio_format import from_wire
from .client_messages import ItemIn, PartIn
from .refusals import missing, not_one_of, not_served

Json = dict[str, Any]

ECHO_IMAGE_CHARS = 48_000
"""A longer image is shown only to a client that retrieves its item."""

_DETAILS = ("auto", "low", "high")

_IMAGES = {
    "data:image/png;base64,": "iVBORw0KGgo",
    "data:image/jpeg;base64,": "/9j/",
    "data:image/jpg;base64,": "/9j/",
}
"""How the URL of an image begins, and what its data begins with."""

_PARTS = {
    Role.SYSTEM: {"input_text": PartKind.INPUT_TEXT},
    Role.USER: {
        "input_text": PartKind.INPUT_TEXT,
        "input_audio": PartKind.INPUT_AUDIO,
        "input_image": PartKind.INPUT_IMAGE,
    },
    Role.ASSISTANT: {
        "output_text": PartKind.OUTPUT_TEXT,
        "output_audio": PartKind.OUTPUT_AUDIO,
    },
}

_ALIASES = {
    Role.SYSTEM: {"text": PartKind.INPUT_TEXT},
    Role.USER: {"text": PartKind.INPUT_TEXT, "audio": PartKind.INPUT_AUDIO},
    Role.ASSISTANT: {"text": PartKind.OUTPUT_TEXT, "audio": PartKind.OUTPUT_AUDIO},
}
"""The beta's names."""

_TEXTS = frozenset({PartKind.INPUT_TEXT, PartKind.OUTPUT_TEXT})


def new_item(item: ItemIn, now: st.Settings, at: str = "item") -> items.NewItem:
    """Return an item as a client sends it; ``at`` is its path in the message.

    ``now`` are the session's settings: they tell which format its audio has.

    Raises:
        Refusal: it is none that can be held.
    """
    match item.type:
        case "message":
            return _message(item, now, at)
        case "function_call":
            return items.NewItem(
                kind=ItemKind.FUNCTION_CALL,
                id=item.id,
                call_id=item.call_id,
                name=_needed(item.name, f"{at}.name"),
                arguments=_needed(item.arguments, f"{at}.arguments"),
            )
        case "function_call_output":
            return items.NewItem(
                kind=ItemKind.FUNCTION_OUTPUT,
                id=item.id,
                call_id=_needed(item.call_id, f"{at}.call_id"),
                output=_needed(item.output, f"{at}.output"),
            )
        case _:
            if item.type.startswith("mcp_"):
                raise not_served(f"{at}.type", f"'{item.type[:64]}' is not served here.")
            raise not_one_of(f"{at}.type", item.type, [kind.value for kind in ItemKind])


def input_item(item: ItemIn, now: st.Settings, at: str) -> items.NewItem | events.ItemReference:
    """Return an item that a response answers, given whole or by its id.

    Raises:
        Refusal: it is none that can be answered.
    """
    if item.type == "item_reference":
        return events.ItemReference(_needed(item.id, f"{at}.id"))
    return new_item(item, now, at)


def item_json(item: items.Item, *, transcribed: bool, whole: bool = False) -> Json:
    """Return an item as GA shows it, without audio.

    Args:
        item: the item.
        transcribed: whether the client is told what the person said.
        whole: whether images are shown that are too long for an echo.
    """
    head: Json = {
        "id": item.id,
        "object": "realtime.item",
        "type": item.kind.value,
        "status": item.status.value,
    }
    match item.kind:
        case ItemKind.MESSAGE:
            parts = [_part_json(part, transcribed, whole) for part in item.parts]
            return {**head, "role": item.role.value, "content": parts}
        case ItemKind.FUNCTION_CALL:
            return {
                **head,
                "name": item.name or "",
                "call_id": item.call_id,
                "arguments": item.arguments,
            }
        case ItemKind.FUNCTION_OUTPUT:
            return {**head, "call_id": item.call_id or "", "output": item.output}


def _message(item: ItemIn, now: st.Settings, at: str) -> items.NewItem:
    roles = {role.value: role for role in Role}
    if item.role is None:
        raise missing(f"{at}.role")
    role = roles.get(item.role)
    if role is None:
        raise not_one_of(f"{at}.role", item.role, roles)
    if not item.content:
        param = f"{at}.content"
        raise Refusal("invalid_value", f"{param} must have at least one part.", param)
    form = now.output_format if role is Role.ASSISTANT else now.input_format
    parts: list[items.Part] = []
    audio: list[bytes] = []
    for index, part in enumerate(item.content):
        made = _part(part, role, f"{at}.content[{index}]")
        parts.append(made)
        if made.kind in AUDIO_KINDS and part.audio is not None:
            audio.append(_audio(part.audio, form, f"{at}.content[{index}].audio"))
    return items.NewItem(role=role, parts=tuple(parts), id=item.id, audio=b"".join(audio))


def _part(part: PartIn, role: Role, at: str) -> items.Part:
    kind = _PARTS[role].get(part.type) or _ALIASES[role].get(part.type)
    if kind is None:
        raise not_one_of(f"{at}.type", part.type, _PARTS[role])
    if kind in _TEXTS:
        return items.Part(kind, _needed(part.text, f"{at}.text"))
    if kind is PartKind.INPUT_IMAGE:
        return _image(part, at)
    if kind is PartKind.INPUT_AUDIO and part.audio is None and part.transcript is None:
        raise missing(f"{at}.audio")
    return items.Part(kind, part.transcript)


def _image(part: PartIn, at: str) -> items.Part:
    param = f"{at}.image_url"
    url = _needed(part.image_url, param)
    begins = next((head for head in _IMAGES if url.startswith(head)), None)
    if begins is None or not url.startswith(_IMAGES[begins], len(begins)):
        raise Refusal(
            "invalid_value", f"{param} must be a data: URL of a PNG or JPEG image.", param
        )
    if part.detail not in (None, *_DETAILS):
        raise not_one_of(f"{at}.detail", part.detail, _DETAILS)
    return items.Part(PartKind.INPUT_IMAGE, image_url=url, detail=part.detail or "auto")


def _audio(audio: bytes, form: st.AudioFormat, param: str) -> bytes:
    """Return the audio of a part as the core wants it."""
    if form is st.AudioFormat.PCM and len(audio) % 2:
        raise Refusal(
            "invalid_value",
            f"{param} must be whole 16-bit samples: it has an odd number of bytes.",
            param,
        )
    return from_wire(audio, form)


def _needed(value: str | None, param: str) -> str:
    if value is None:
        raise missing(param)
    return value


def _part_json(part: items.Part, transcribed: bool, whole: bool) -> Json:
    body: Json = {"type": part.kind.value}
    match part.kind:
        case PartKind.INPUT_TEXT | PartKind.OUTPUT_TEXT:
            body["text"] = part.text or ""
        case PartKind.INPUT_IMAGE:
            url = part.image_url
            if url is not None and (whole or len(url) <= ECHO_IMAGE_CHARS):
                body["image_url"] = url
            body["detail"] = part.detail or "auto"
        case PartKind.OUTPUT_AUDIO:
            body["transcript"] = part.text
        case PartKind.INPUT_AUDIO:
            # Clients that asked for no transcription expect none, whatever the model reads.
            body["transcript"] = part.text if transcribed else None
    return body
