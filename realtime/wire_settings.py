"""From the configuration of a session, as an update has it, to a change of settings.

An update may use the names of either dialect. The nested members of GA win where both are
given. Members that are unknown, or that change nothing here, are ignored.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TypeVar

from msgspec import UNSET, UnsetType

from ..codecs import opus
from ..sessions import settings as st
from ..sessions.errors import Refusal
from .audio_format import CORE_RATE, G711_RATE
from .client_messages import (
    AntiphonIn,
    AudioIn,
    AudioInputIn,
    AudioOutputIn,
    FormatIn,
    NoiseReductionIn,
    SessionIn,
    ToolChoiceIn,
    TranscriptionIn,
    TruncationIn,
    TurnDetectionIn,
    VoiceIdIn,
)
from .dialect import Dialect
from .refusals import missing, not_one_of
from .wire_tools import tool_choice, tools

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

LOGPROBS = "item.input_audio_transcription.logprobs"

BETA_FORMATS = {
    "pcm16": st.AudioFormat.PCM,
    "g711_ulaw": st.AudioFormat.PCMU,
    "g711_alaw": st.AudioFormat.PCMA,
}

MAX_LIST = 128
"""Keywords or languages of a transcription."""

_FLAT = (
    "modalities",
    "voice",
    "speed",
    "input_audio_format",
    "output_audio_format",
    "input_audio_transcription",
    "input_audio_noise_reduction",
    "turn_detection",
    "temperature",
    "max_response_output_tokens",
)
"""Members that only a session of the beta has."""

_GA = ("type", "audio")
"""Members that only a session of GA has."""


def shape(session: SessionIn) -> Dialect | None:
    """Return the dialect whose members an update uses; ``None`` where it uses neither's."""
    if any(getattr(session, name) is not UNSET for name in _GA):
        return Dialect.GA
    if any(getattr(session, name) is not UNSET for name in _FLAT):
        return Dialect.BETA
    return None


def settings_patch(
    session: SessionIn, kind: st.SessionKind, dialect: Dialect = Dialect.GA
) -> st.SettingsPatch:
    """Return what an update of a session of ``kind`` changes.

    A session that transcribes has no voice, no instructions and no tools: what an update
    says of these is ignored.

    Raises:
        Refusal: a value can't be understood; its ``param`` has the name of GA.
    """
    _check_type(session.type, kind)
    audio = _or(session.audio, AudioIn())
    heard = _or(audio.input, AudioInputIn())
    at = "session.audio.input"
    turns = _given(heard.turn_detection, session.turn_detection)
    transcription = _given(heard.transcription, session.input_audio_transcription)
    noise = _given(heard.noise_reduction, session.input_audio_noise_reduction)
    include = _said(session.include)
    patch = st.SettingsPatch(
        input_format=_format(_first(heard.format, session.input_audio_format), f"{at}.format"),
        turn_detection=_turn_detection(turns, f"{at}.turn_detection"),
        transcription=_transcription(transcription, f"{at}.transcription"),
        noise_reduction=_noise_reduction(noise, f"{at}.noise_reduction"),
        logprobs=st.UNSET if include is st.UNSET else LOGPROBS in include,
    )
    patch = _with_extensions(patch, session.antiphon)
    if kind is st.SessionKind.TRANSCRIPTION:
        return patch
    return _with_answers(patch, session, _or(audio.output, AudioOutputIn()), dialect)


def _with_extensions(
    patch: st.SettingsPatch, asked: AntiphonIn | bool | None | UnsetType
) -> st.SettingsPatch:
    """Add our own settings: an object asks for our own events, null or false for none."""
    if asked is UNSET:
        return patch
    if not isinstance(asked, AntiphonIn):
        return replace(patch, extensions=bool(asked))
    form = _said(asked.binary_format)
    return replace(
        patch,
        extensions=True,
        binary_audio=_said(asked.binary_audio),
        binary_format=st.UNSET
        if form is st.UNSET
        else _binary_format(form, "session.antiphon.binary_format"),
    )


def _binary_format(name: str, param: str) -> st.BinaryFormat:
    form = enum(st.BinaryFormat, name, param)
    if form is st.BinaryFormat.OPUS and not opus.installed():
        raise Refusal(
            "unsupported_value",
            f"{param} 'opus' is not available: this server has no Opus library. Use 'pcm16'.",
            param,
        )
    return form


def _with_answers(
    patch: st.SettingsPatch, session: SessionIn, spoken: AudioOutputIn, dialect: Dialect
) -> st.SettingsPatch:
    """Add what concerns answers."""
    at = "session.audio.output"
    voice: st.Maybe[str | VoiceIdIn] = _first(spoken.voice, session.voice)
    tokens: st.Maybe[int | str] = _first(
        session.max_output_tokens, session.max_response_output_tokens
    )
    offered = _said(session.tools)
    choice: st.Maybe[str | ToolChoiceIn] = _said(session.tool_choice)
    truncation: st.Maybe[str | TruncationIn] = _said(session.truncation)
    return replace(
        patch,
        instructions=_said(session.instructions),
        modality=_modality(_said(session.output_modalities), _said(session.modalities), "session"),
        output_format=_format(_first(spoken.format, session.output_audio_format), f"{at}.format"),
        voice=st.UNSET if voice is st.UNSET else voice_name(voice),
        speed=_first(spoken.speed, session.speed),
        max_output_tokens=None if isinstance(tokens, str) else tokens,
        temperature=_said(session.temperature),
        tools=st.UNSET if offered is st.UNSET else tools(offered, "session.tools"),
        tool_choice=st.UNSET
        if choice is st.UNSET
        else tool_choice(choice, "session.tool_choice", dialect),
        truncation=st.UNSET if truncation is st.UNSET else _truncation(truncation),
    )


# Members of both updates and responses; absent is ``None`` here.


def modality(nested: list[str] | None, flat: list[str] | None, at: str) -> st.Modality | None:
    """Return what is answered with: of GA's ``nested`` member, else of the beta's ``flat`` one.

    Raises:
        Refusal: there is no answer of this kind.
    """
    names, param = (
        (flat, f"{at}.modalities") if nested is None else (nested, f"{at}.output_modalities")
    )
    if names is None:
        return None
    said = set(names)
    if said == {"text"}:
        return st.Modality.TEXT
    # In the beta, audio comes with text and is asked for so.
    if said == {"audio"} or (nested is None and said == {"audio", "text"}):
        return st.Modality.AUDIO
    raise Refusal("invalid_value", f'{param} must be ["audio"] or ["text"].', param)


def audio_format(form: FormatIn | str, param: str) -> st.AudioFormat:
    """Return the format that a client names.

    Raises:
        Refusal: it is none that is served.
    """
    if isinstance(form, str):
        known = {**BETA_FORMATS, **{each.value: each for each in st.AudioFormat}}
        if form not in known:
            raise not_one_of(param, form, BETA_FORMATS)
        return known[form]
    made = enum(st.AudioFormat, form.type, f"{param}.type")
    rate = CORE_RATE if made is st.AudioFormat.PCM else G711_RATE
    if form.rate not in (None, rate):
        raise Refusal("invalid_value", f"{param}.rate must be {rate}.", f"{param}.rate")
    return made


def voice_name(voice: str | VoiceIdIn) -> str:
    """Return a voice's name, however it is given."""
    return voice if isinstance(voice, str) else voice.id


def enum(kind: type[E], value: str, param: str) -> E:
    """Return the member of ``kind`` that a client names.

    Raises:
        Refusal: there is none; the error names those there are.
    """
    try:
        return kind(value)
    except ValueError:
        raise not_one_of(param, value, [each.value for each in kind]) from None


def wrong_kind(said: st.SessionKind, kind: st.SessionKind, param: str) -> Refusal:
    """Return the refusal of an update for a session of another kind."""
    return Refusal(
        "invalid_value",
        f"Passing a {said.value} session update event to a {kind.value} session is not allowed.",
        param,
    )


# Members of a session.


def _check_type(said: str | None | UnsetType, kind: st.SessionKind) -> None:
    if not isinstance(said, str) or said == kind.value:
        return
    param = "session.type"
    if said not in {each.value for each in st.SessionKind}:
        raise not_one_of(param, said, [kind.value])
    raise wrong_kind(st.SessionKind(said), kind, param)


def _modality(
    nested: st.Maybe[list[str]], flat: st.Maybe[list[str]], at: str
) -> st.Maybe[st.Modality]:
    made = modality(None if nested is st.UNSET else nested, None if flat is st.UNSET else flat, at)
    return st.UNSET if made is None else made


def _format(form: st.Maybe[FormatIn | str], param: str) -> st.Maybe[st.AudioFormat]:
    return st.UNSET if form is st.UNSET else audio_format(form, param)


def _turn_detection(
    turns: st.Maybe[TurnDetectionIn | None], param: str
) -> st.Maybe[st.TurnDetectionPatch | None]:
    if turns is st.UNSET or turns is None:
        return turns
    kind, eagerness = _said(turns.type), _said(turns.eagerness)
    return st.TurnDetectionPatch(
        kind=st.UNSET if kind is st.UNSET else enum(st.TurnKind, kind, f"{param}.type"),
        # Null members are those of the other kind, in clients that always send all.
        threshold=_said(turns.threshold),
        prefix_padding_ms=_said(turns.prefix_padding_ms),
        silence_duration_ms=_said(turns.silence_duration_ms),
        create_response=_said(turns.create_response),
        interrupt_response=_said(turns.interrupt_response),
        idle_timeout_ms=_nullable(turns.idle_timeout_ms),
        eagerness=st.UNSET
        if eagerness is st.UNSET
        else enum(st.Eagerness, eagerness, f"{param}.eagerness"),
    )


def _transcription(
    wanted: st.Maybe[TranscriptionIn | None], param: str
) -> st.Maybe[st.TranscriptionPatch | None]:
    if wanted is st.UNSET or wanted is None:
        return wanted
    for name, said in (("keywords", wanted.keywords), ("languages", wanted.languages)):
        if isinstance(said, list) and len(said) > MAX_LIST:
            at = f"{param}.{name}"
            raise Refusal("invalid_value", f"{at} may have at most {MAX_LIST} entries.", at)
    language = _nullable(wanted.language)
    if language is st.UNSET and isinstance(wanted.languages, list) and len(wanted.languages) == 1:
        language = wanted.languages[0]
    keywords = _nullable(wanted.keywords)
    return st.TranscriptionPatch(
        model=_said(wanted.model),
        language=language,
        prompt=_nullable(wanted.prompt),
        keywords=tuple(keywords) if isinstance(keywords, list) else keywords,
    )


def _noise_reduction(
    wanted: st.Maybe[NoiseReductionIn | None], param: str
) -> st.Maybe[st.NoiseReduction | None]:
    if wanted is st.UNSET or wanted is None:
        return wanted
    if wanted.type is None:
        raise missing(f"{param}.type")
    return enum(st.NoiseReduction, wanted.type, f"{param}.type")


def _truncation(wanted: str | TruncationIn) -> st.Truncation:
    param = "session.truncation"
    if isinstance(wanted, str):
        simple = {m.value: m for m in (st.TruncationMode.AUTO, st.TruncationMode.DISABLED)}
        if wanted not in simple:
            raise not_one_of(param, wanted, simple)
        return st.Truncation(mode=simple[wanted])
    if wanted.type != st.TruncationMode.RETENTION_RATIO.value:
        raise not_one_of(f"{param}.type", wanted.type, [st.TruncationMode.RETENTION_RATIO.value])
    if wanted.retention_ratio is None:
        raise missing(f"{param}.retention_ratio")
    limits = wanted.token_limits
    return st.Truncation(
        mode=st.TruncationMode.RETENTION_RATIO,
        retention_ratio=wanted.retention_ratio,
        post_instructions=None if limits is None else limits.post_instructions,
    )


# What is said: absent, null, or a value.


def _said(value: T | None | UnsetType) -> st.Maybe[T]:
    """Return a value; null is nothing said."""
    return st.UNSET if value is UNSET or value is None else value


def _nullable(value: T | None | UnsetType) -> st.Maybe[T | None]:
    """Return a value; null is one."""
    return st.UNSET if value is UNSET else value


def _first(nested: T | None | UnsetType, flat: T | None | UnsetType) -> st.Maybe[T]:
    """Return the member of GA, or else that of the beta; null is nothing said."""
    said = _said(nested)
    return _said(flat) if said is st.UNSET else said


def _given(nested: T | None | UnsetType, flat: T | None | UnsetType) -> st.Maybe[T | None]:
    """Return the member of GA, or else that of the beta; null is a value."""
    said = _nullable(nested)
    return _nullable(flat) if said is st.UNSET else said


def _or(value: T | None | UnsetType, otherwise: T) -> T:
    return otherwise if value is UNSET or value is None else value
