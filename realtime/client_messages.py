"""What a client may send, as it is on the wire: the GA dialect of the Realtime protocol.

Only the shape and the types of members are declared here. What the messages mean, and which
values are refused, is in :mod:`.wire_in`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

ShortText = Annotated[str, Meta(max_length=512)]


class _In(msgspec.Struct, kw_only=True):
    pass


class FormatIn(_In, kw_only=True):
    """An audio format."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
    rate: int | None = None


class TurnDetectionIn(_In, kw_only=True):
    """Turn detection; members left out keep their value."""

    type: str | UnsetType = UNSET
    threshold: float | UnsetType = UNSET
    prefix_padding_ms: int | UnsetType = UNSET
    silence_duration_ms: int | UnsetType = UNSET
    create_response: bool | UnsetType = UNSET
    interrupt_response: bool | UnsetType = UNSET
    idle_timeout_ms: int | None | UnsetType = UNSET


class TranscriptionIn(_In, kw_only=True):
    """Input transcription; members left out keep their value."""

    model: str | UnsetType = UNSET
    language: str | None | UnsetType = UNSET
    prompt: str | None | UnsetType = UNSET


class AudioInputIn(_In, kw_only=True):
    """Settings of what is heard."""

    format: FormatIn | UnsetType = UNSET
    transcription: TranscriptionIn | None | UnsetType = UNSET
    turn_detection: TurnDetectionIn | None | UnsetType = UNSET


class VoiceIdIn(_In, kw_only=True):
    """A voice by id."""

    id: str


class AudioOutputIn(_In, kw_only=True):
    """Settings of what is spoken."""

    format: FormatIn | UnsetType = UNSET
    voice: str | VoiceIdIn | UnsetType = UNSET
    speed: float | UnsetType = UNSET


class AudioIn(_In, kw_only=True):
    """Audio settings."""

    input: AudioInputIn | UnsetType = UNSET
    output: AudioOutputIn | UnsetType = UNSET


class SessionIn(_In, kw_only=True):
    """The settings of ``session.update``."""

    type: str | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    output_modalities: list[Literal["audio", "text"]] | UnsetType = UNSET
    audio: AudioIn | UnsetType = UNSET
    max_output_tokens: int | Literal["inf"] | UnsetType = UNSET
    tools: list[Any] | None | UnsetType = UNSET
    antiphon: Any = UNSET


class PartIn(_In, kw_only=True):
    """A content part of an item."""

    type: str
    text: str | None = None
    audio: bytes | None = None
    transcript: str | None = None


class ItemIn(_In, kw_only=True):
    """An item to add."""

    type: str
    role: str | None = None
    content: list[PartIn] = []
    id: Annotated[str, Meta(min_length=1, max_length=64)] | None = None


class ResponseIn(_In, kw_only=True):
    """The options of ``response.create``."""

    conversation: str | None = None
    input: list[Any] | None = None
    instructions: str | None = None
    output_modalities: list[Literal["audio", "text"]] | None = None
    audio: AudioIn | None = None
    max_output_tokens: int | Literal["inf"] | None = None
    metadata: dict[str, str] | None = None
    tools: list[Any] | None = None


class _Message(_In, kw_only=True, tag_field="type"):
    event_id: ShortText | None = None


class SessionUpdate(_Message, kw_only=True, tag="session.update"):
    """Change settings."""

    session: SessionIn


class Append(_Message, kw_only=True, tag="input_audio_buffer.append"):
    """Audio; base64 on the wire."""

    audio: bytes


class Commit(_Message, kw_only=True, tag="input_audio_buffer.commit"):
    """Make an item of the input buffer."""


class Clear(_Message, kw_only=True, tag="input_audio_buffer.clear"):
    """Forget the input buffer."""


class ItemCreate(_Message, kw_only=True, tag="conversation.item.create"):
    """Add an item."""

    item: ItemIn
    previous_item_id: str | None = None


class ItemRetrieve(_Message, kw_only=True, tag="conversation.item.retrieve"):
    """Ask for an item."""

    item_id: str


class ItemTruncate(_Message, kw_only=True, tag="conversation.item.truncate"):
    """Say how much of an item was heard."""

    item_id: str
    content_index: int
    audio_end_ms: int


class ItemDelete(_Message, kw_only=True, tag="conversation.item.delete"):
    """Remove an item."""

    item_id: str


class ResponseCreate(_Message, kw_only=True, tag="response.create"):
    """Ask for an answer."""

    response: ResponseIn | None = None


class ResponseCancel(_Message, kw_only=True, tag="response.cancel"):
    """Stop the answer."""

    response_id: str | None = None


class PlaybackReport(_Message, kw_only=True, tag="antiphon.playback.report"):
    """How far a response was played."""

    response_id: str
    played_ms: Annotated[float, Meta(ge=0)]
    buffered_ms: Annotated[float, Meta(ge=0)] = 0


Message = (
    SessionUpdate
    | Append
    | Commit
    | Clear
    | ItemCreate
    | ItemRetrieve
    | ItemTruncate
    | ItemDelete
    | ResponseCreate
    | ResponseCancel
    | PlaybackReport
)
