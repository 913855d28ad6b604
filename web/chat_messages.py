"""The messages of a chat as clients send them, made into turns: pure.

Each message, and each part of one, is decoded by itself, so that an error names its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from ..engines.pipeline import Message
from ..engines.tools import Call
from ..realtime.refusals import Refused, missing, not_one_of, not_served, wrong_type
from ..sessions.errors import Refusal

SOUNDS = (
    "wav",
    "mp3",
    "flac",
    "m4a",
    "mp4",
    "mpeg",
    "mpga",
    "ogg",
    "opus",
    "webm",
    "aac",
)
"""Formats of recordings by name; the file itself says what it is."""

DETAILS = ("auto", "low", "high", "original")

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

_PARTS = {
    "system": ("text",),
    "user": ("text", "input_audio", "image_url"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
}

_IMAGES = {
    "data:image/png;base64,": "iVBORw0KGgo",
    "data:image/jpeg;base64,": "/9j/",
    "data:image/jpg;base64,": "/9j/",
}
"""How the URL of an image begins, and what its data begins with."""

LONGEST = 5
"""Texts of the greatest length that all messages may have together: each is counted in tokens,
and those who wait to be answered wait for that."""

T = TypeVar("T")


class _In(msgspec.Struct, kw_only=True):
    pass


class _AudioIn(_In, kw_only=True):
    data: bytes
    format: str


class _ImageIn(_In, kw_only=True):
    url: str
    detail: str | None = None


class _PartIn(_In, kw_only=True):
    type: str
    text: str | None = None
    refusal: str | None = None
    input_audio: _AudioIn | None = None
    image_url: _ImageIn | None = None


class _FunctionIn(_In, kw_only=True):
    name: str
    arguments: str


class _CallIn(_In, kw_only=True):
    id: str
    type: str = "function"
    function: _FunctionIn | None = None


class _EarlierIn(_In, kw_only=True):
    id: str


class _MessageIn(_In, kw_only=True):
    role: str
    content: str | list[msgspec.Raw] | None = None
    refusal: str | None = None
    audio: _EarlierIn | None = None
    tool_calls: list[msgspec.Raw] | None = None
    tool_call_id: str | None = None
    function_call: Any = None


@dataclass(frozen=True, slots=True)
class Recording:
    """Something said, as a file."""

    data: bytes
    param: str
    """Where it was in the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A message whose recordings are yet to be heard."""

    role: str
    """``system``, ``user``, ``assistant`` or ``tool``."""

    parts: tuple[str | Recording, ...] = ()
    images: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What messages may have in them."""

    sees: bool
    """Whether the model can be shown images."""

    recall: Callable[[str], str | None]
    """The transcript of an earlier answer by the id of its audio."""

    messages: int
    text_chars: int
    """Of one message, beside its recordings."""

    recording_bytes: int
    """Of one recording, decoded."""


def read_messages(messages: Sequence[msgspec.Raw], rules: Rules) -> tuple[Turn, ...]:
    """Return the turns of a conversation, oldest first.

    Raises:
        Refused: a message can't be read.
        Refusal: it has something that is not served.
    """
    if not messages:
        raise Refusal("invalid_value", "messages must have at least one message.", "messages")
    if len(messages) > rules.messages:
        most = f"messages may have at most {rules.messages} messages, and has {len(messages)}."
        raise Refusal("invalid_value", most, "messages")
    turns: list[Turn] = []
    called: set[str] = set()
    chars = 0
    for index, raw in enumerate(messages):
        at = f"messages[{index}]"
        turn = _turn(raw, rules, called, at)
        called.update(call.call_id for call in turn.calls)
        size = _chars(turn)
        _check_length(size, rules.text_chars, at)
        chars += size
        turns.append(turn)
    _check_length(chars, LONGEST * rules.text_chars, "messages")
    return tuple(turns)


def recordings(turns: Iterable[Turn]) -> Iterator[Recording]:
    """All recordings in order."""
    return (part for turn in turns for part in turn.parts if isinstance(part, Recording))


def with_heard(turns: Iterable[Turn], heard: Iterable[str]) -> tuple[Message, ...]:
    """The messages for the model; ``heard`` is what is said in the recordings, in order."""
    said = iter(heard)
    return tuple(
        Message(
            turn.role,
            "\n".join(next(said) if isinstance(part, Recording) else part for part in turn.parts),
            images=turn.images,
            calls=turn.calls,
            call_id=turn.call_id,
        )
        for turn in turns
    )


def decoded(raw: bytes | msgspec.Raw, kind: type[T], at: str) -> T:
    """Return a part of a request; ``at`` is its path.

    Raises:
        Refused: it has members that are missing, or of the wrong type.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise Refused(wrong_type(error, None, at)) from None


def _turn(raw: msgspec.Raw, rules: Rules, called: set[str], at: str) -> Turn:
    message = decoded(raw, _MessageIn, at)
    role = _ROLES.get(message.role)
    if role is None:
        raise not_one_of(f"{at}.role", message.role, _ROLES)
    parts, images = _content(message, role, rules, at)
    if role == "assistant":
        parts += _said_before(message, rules, at)
        calls = tuple(
            _call(call, f"{at}.tool_calls[{index}]")
            for index, call in enumerate(message.tool_calls or ())
        )
        if not parts and not calls:
            raise missing(f"{at}.content")
        return Turn(role=role, parts=tuple(parts), calls=calls)
    if message.content is None:
        raise missing(f"{at}.content")
    if role == "tool":
        return Turn(role=role, parts=tuple(parts), call_id=_answered(message, called, at))
    return Turn(role=role, parts=tuple(parts), images=tuple(images))


def _content(
    message: _MessageIn, role: str, rules: Rules, at: str
) -> tuple[list[str | Recording], list[str]]:
    """The parts that are text or speech, and the images."""
    content = message.content
    if content is None or isinstance(content, str):
        return ([] if content is None else [content]), []
    if not content and role != "assistant":
        param = f"{at}.content"
        raise Refusal("invalid_value", f"{param} must have at least one part.", param)
    parts: list[str | Recording] = []
    images: list[str] = []
    for index, raw in enumerate(content):
        place = f"{at}.content[{index}]"
        part = decoded(raw, _PartIn, place)
        if part.type == "file":
            raise not_served(f"{place}.type", "files are not read here.")
        if part.type not in _PARTS[role]:
            raise not_one_of(f"{place}.type", part.type, _PARTS[role])
        if part.type == "image_url":
            images.append(_image(part, rules, place))
        elif part.type == "input_audio":
            parts.append(_recording(part, rules, place))
        else:
            said = part.text if part.type == "text" else part.refusal
            parts.append(_needed(said, f"{place}.{part.type}"))
    return parts, images


def _said_before(message: _MessageIn, rules: Rules, at: str) -> list[str]:
    """What an assistant said elsewhere than in its content."""
    if message.function_call is not None:
        raise not_served(f"{at}.function_call", "is the old form; use tool_calls.")
    said = [] if message.refusal is None else [message.refusal]
    if message.audio is not None:
        transcript = rules.recall(message.audio.id)
        if transcript is None:
            what = (
                f"'{message.audio.id[:64]}' is no audio of an answer that is known here (any more)."
            )
            raise Refusal("invalid_value", f"{at}.audio.id: {what}", f"{at}.audio.id")
        said.append(transcript)
    return said


def _call(raw: msgspec.Raw, at: str) -> Call:
    call = decoded(raw, _CallIn, at)
    if call.type != "function":
        raise not_one_of(f"{at}.type", call.type, ("function",))
    function = _needed(call.function, f"{at}.function")
    return Call(call.id, function.name, function.arguments)


def _answered(message: _MessageIn, called: set[str], at: str) -> str:
    param = f"{at}.tool_call_id"
    call_id = _needed(message.tool_call_id, param)
    if call_id not in called:
        # The model would never be shown it.
        what = f"'{call_id[:64]}' is no call of an assistant message ahead of this one."
        raise Refusal("invalid_value", f"{param}: {what}", param)
    return call_id


def _recording(part: _PartIn, rules: Rules, at: str) -> Recording:
    sound = _needed(part.input_audio, f"{at}.input_audio")
    param = f"{at}.input_audio.data"
    if sound.format not in SOUNDS:
        raise not_one_of(f"{at}.input_audio.format", sound.format, SOUNDS)
    if len(sound.data) > rules.recording_bytes:
        most = f"{param} may have at most {rules.recording_bytes} bytes, and has {len(sound.data)}."
        raise Refusal("invalid_value", most, param)
    return Recording(sound.data, param)


def _image(part: _PartIn, rules: Rules, at: str) -> str:
    if not rules.sees:
        raise not_served(f"{at}.type", "the model here can't see images.")
    image = _needed(part.image_url, f"{at}.image_url")
    param = f"{at}.image_url.url"
    begins = next((head for head in _IMAGES if image.url.startswith(head)), None)
    if begins is None or not image.url.startswith(_IMAGES[begins], len(begins)):
        what = "must be a data: URL of a PNG or JPEG image."
        raise Refusal("invalid_value", f"{param} {what}", param)
    if image.detail not in (None, *DETAILS):
        raise not_one_of(f"{at}.image_url.detail", image.detail, DETAILS)
    return image.url


def _chars(turn: Turn) -> int:
    """Of its text and its calls; what is said in recordings is not known yet."""
    texts = sum(len(part) for part in turn.parts if isinstance(part, str))
    return texts + sum(len(call.name) + len(call.arguments) for call in turn.calls)


def _check_length(chars: int, most: int, param: str) -> None:
    if chars > most:
        message = f"{param} may have at most {most} characters, and has {chars}."
        raise Refusal("string_above_max_length", message, param)


def _needed(value: T | None, param: str) -> T:
    if value is None:
        raise missing(param)
    return value
