"""What a client may send, as it is on the wire: both dialects of the Realtime protocol.

Only the shape and the types of members are declared here. What the messages mean, and which
values are refused, is in :mod:`.wire_in` and what it uses. Members that are not declared are
ignored. Null is the same as absent, except where the protocol says that it switches off.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

EventId = Annotated[str, Meta(max_length=512)]
ItemId = Annotated[str, Meta(min_length=1, max_length=64)]
CallId = Annotated[str, Meta(min_length=1, max_length=128)]
FunctionName = Annotated[str, Meta(min_length=1, max_length=128)]

MAX_REPORTED = 1_000_000_000
"""Bound of what a client reports: more ms than any session lasts."""

Milliseconds = Annotated[float, Meta(ge=0, le=MAX_REPORTED)]


class _In(msgspec.Struct, kw_only=True):
    pass


class FormatIn(_In, kw_only=True):
    """An audio format."""

    type: str
    rate: int | None = None


class TurnDetectionIn(_In, kw_only=True):
    """Turn detection of either kind; members left out keep their value."""

    type: str | None | UnsetType = UNSET
    threshold: float | None | UnsetType = UNSET
    prefix_padding_ms: int | None | UnsetType = UNSET
    silence_duration_ms: int | None | UnsetType = UNSET
    create_response: bool | None | UnsetType = UNSET
    interrupt_response: bool | None | UnsetType = UNSET
    idle_timeout_ms: int | None | UnsetType = UNSET
    eagerness: str | None | UnsetType = UNSET


class TranscriptionIn(_In, kw_only=True):
    """Input transcription; members left out keep their value."""

    model: str | None | UnsetType = UNSET
    language: str | None | UnsetType = UNSET
    languages: list[str] | None | UnsetType = UNSET
    prompt: str | None | UnsetType = UNSET
    keywords: list[str] | None | UnsetType = UNSET


class NoiseReductionIn(_In, kw_only=True):
    """Noise reduction."""

    type: str | None = None


class AudioInputIn(_In, kw_only=True):
    """Settings of what is heard."""

    format: FormatIn | str | None | UnsetType = UNSET
    transcription: TranscriptionIn | None | UnsetType = UNSET
    turn_detection: TurnDetectionIn | None | UnsetType = UNSET
    noise_reduction: NoiseReductionIn | None | UnsetType = UNSET


class VoiceIdIn(_In, kw_only=True):
    """A voice by id."""

    id: str


class AudioOutputIn(_In, kw_only=True):
    """Settings of what is spoken."""

    format: FormatIn | str | None | UnsetType = UNSET
    voice: str | VoiceIdIn | None | UnsetType = UNSET
    speed: float | None | UnsetType = UNSET


class AudioIn(_In, kw_only=True):
    """Audio settings."""

    input: AudioInputIn | None | UnsetType = UNSET
    output: AudioOutputIn | None | UnsetType = UNSET


class ToolIn(_In, kw_only=True):
    """A function that may be called, or a tool that this server does not have."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolChoiceIn(_In, kw_only=True):
    """The one tool that has to be called."""

    type: str
    name: str | None = None


class TokenLimitsIn(_In, kw_only=True):
    """Bounds of a truncation."""

    post_instructions: int | None = None


class TruncationIn(_In, kw_only=True):
    """A truncation that leaves room."""

    type: str
    retention_ratio: float | None = None
    token_limits: TokenLimitsIn | None = None


class AntiphonIn(_In, kw_only=True):
    """Our own settings; an object, even an empty one, asks for our own events."""

    binary_audio: bool | None | UnsetType = UNSET
    binary_format: str | None | UnsetType = UNSET


class SessionIn(_In, kw_only=True):
    """The settings of an update: those of GA, and those that the beta names otherwise."""

    type: str | None | UnsetType = UNSET
    audio: AudioIn | None | UnsetType = UNSET
    output_modalities: list[str] | None | UnsetType = UNSET
    max_output_tokens: int | Literal["inf"] | None | UnsetType = UNSET
    truncation: str | TruncationIn | None | UnsetType = UNSET

    instructions: str | None | UnsetType = UNSET
    tools: list[ToolIn] | None | UnsetType = UNSET
    tool_choice: str | ToolChoiceIn | None | UnsetType = UNSET
    include: list[str] | None | UnsetType = UNSET
    antiphon: AntiphonIn | bool | None | UnsetType = UNSET

    modalities: list[str] | None | UnsetType = UNSET
    voice: str | VoiceIdIn | None | UnsetType = UNSET
    speed: float | None | UnsetType = UNSET
    input_audio_format: str | FormatIn | None | UnsetType = UNSET
    output_audio_format: str | FormatIn | None | UnsetType = UNSET
    input_audio_transcription: TranscriptionIn | None | UnsetType = UNSET
    input_audio_noise_reduction: NoiseReductionIn | None | UnsetType = UNSET
    turn_detection: TurnDetectionIn | None | UnsetType = UNSET
    temperature: float | None | UnsetType = UNSET
    max_response_output_tokens: int | Literal["inf"] | None | UnsetType = UNSET


class PartIn(_In, kw_only=True):
    """A content part of an item."""

    type: str
    text: str | None = None
    audio: bytes | None = None
    transcript: str | None = None
    image_url: str | None = None
    detail: str | None = None


class ItemIn(_In, kw_only=True):
    """An item to add or to answer, or a reference to one."""

    type: str
    id: ItemId | None = None
    role: str | None = None
    content: list[PartIn] | None = None
    call_id: CallId | None = None
    name: FunctionName | None = None
    arguments: str | None = None
    output: str | None = None


class ResponseIn(_In, kw_only=True):
    """The options of ``response.create``, in either dialect."""

    conversation: str | None = None
    input: list[ItemIn] | None = None
    instructions: str | None = None
    output_modalities: list[str] | None = None
    audio: AudioIn | None = None
    max_output_tokens: int | Literal["inf"] | None = None
    metadata: dict[str, str] | None = None
    tools: list[ToolIn] | None = None
    tool_choice: str | ToolChoiceIn | None = None
    temperature: float | None = None

    modalities: list[str] | None = None
    voice: str | VoiceIdIn | None = None
    output_audio_format: str | FormatIn | None = None
    max_response_output_tokens: int | Literal["inf"] | None = None


class _Message(_In, kw_only=True, tag_field="type"):
    event_id: EventId | None = None


class SessionUpdate(_Message, kw_only=True, tag="session.update"):
    """Change settings."""

    session: SessionIn


class TranscriptionUpdate(_Message, kw_only=True, tag="transcription_session.update"):
    """Change settings of a session that transcribes; the beta's name for it."""

    session: SessionIn


class Append(_Message, kw_only=True, tag="input_audio_buffer.append"):
    """Audio; base64 on the wire."""

    audio: bytes


class Commit(_Message, kw_only=True, tag="input_audio_buffer.commit"):
    """Make an item of the input buffer."""


class Clear(_Message, kw_only=True, tag="input_audio_buffer.clear"):
    """Forget the input buffer."""


class OutputClear(_Message, kw_only=True, tag="output_audio_buffer.clear"):
    """Forget audio that is yet to be played: only where the server plays it."""


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
    """How far a response was played; underruns and gaps are counted from its start."""

    response_id: str
    played_ms: Milliseconds
    buffered_ms: Milliseconds = 0
    underruns: Annotated[int, Meta(ge=0, le=MAX_REPORTED)] = 0
    gap_ms: Milliseconds = 0


Message = (
    SessionUpdate
    | TranscriptionUpdate
    | Append
    | Commit
    | Clear
    | OutputClear
    | ItemCreate
    | ItemRetrieve
    | ItemTruncate
    | ItemDelete
    | ResponseCreate
    | ResponseCancel
    | PlaybackReport
)
