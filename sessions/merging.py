"""How an update of a session's settings is merged in, and what is allowed in it.

A merge either gives new settings or raises :class:`~.errors.Refusal`: nothing is half done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from .errors import Refusal
from .settings import (
    UNSET,
    Capabilities,
    Eagerness,
    Maybe,
    Settings,
    SettingsPatch,
    Transcription,
    TranscriptionPatch,
    Truncation,
    TurnDetection,
    TurnDetectionPatch,
    TurnKind,
)
from .tools import Tool, ToolChoice, ToolMode

T = TypeVar("T")
N = TypeVar("N", int, float)

MAX_OUTPUT_TOKENS = 4096
"""Upper bound that the protocol allows a client to name."""

MAX_SILENCE_MS = 10_000
MAX_PREFIX_MS = 5_000

IDLE_MS = (5_000, 30_000)
"""The shortest and the longest idle timeout that the protocol allows."""

MAX_TOOLS = 128
"""Functions that may be offered at once."""

MAX_NAME_CHARS = 64
"""Of a function."""

MAX_TOOL_CHARS = 200_000
"""Of all functions together: names, descriptions, schemas."""

MAX_TEMPERATURE = 2.0

MAX_PROMPT_CHARS = 10_000
"""Of the words that a recognizer shall expect."""

MAX_KEYWORDS = 500
MAX_KEYWORD_CHARS = 200
MAX_LANGUAGE_CHARS = 35
"""As long as language tags are."""

MAX_MODEL_CHARS = 256

_TURNS = "session.audio.input.turn_detection"
_WORDS = "session.audio.input.transcription"


def merge(now: Settings, patch: SettingsPatch, can: Capabilities) -> Settings:
    """Return ``now`` with ``patch`` applied.

    Raises:
        Refusal: a value is not allowed; its ``param`` names it.
    """
    at = "session.audio.output"
    tokens = _keep(patch.max_output_tokens, now.max_output_tokens)
    tools = check_tools(_keep(patch.tools, now.tools), "session.tools")
    return Settings(
        kind=now.kind,
        instructions=check_text(
            _keep(patch.instructions, now.instructions), can, "session.instructions"
        ),
        modality=_keep(patch.modality, now.modality),
        input_format=_keep(patch.input_format, now.input_format),
        output_format=_keep(patch.output_format, now.output_format),
        voice=check_voice(_keep(patch.voice, now.voice), can, f"{at}.voice"),
        speed=_within(_keep(patch.speed, now.speed), 0.25, 1.5, f"{at}.speed"),
        turn_detection=_merge_turns(now.turn_detection, patch.turn_detection),
        transcription=_merge_transcription(now.transcription, patch.transcription),
        max_output_tokens=check_tokens(tokens, "session.max_output_tokens"),
        temperature=_check_temperature(_keep(patch.temperature, now.temperature)),
        tools=tools,
        tool_choice=_merge_choice(now, patch, tools),
        truncation=_check_truncation(_keep(patch.truncation, now.truncation)),
        noise_reduction=_keep(patch.noise_reduction, now.noise_reduction),
        logprobs=_keep(patch.logprobs, now.logprobs),
        extensions=_keep(patch.extensions, now.extensions),
        binary_audio=_keep(patch.binary_audio, now.binary_audio),
        binary_format=_keep(patch.binary_format, now.binary_format),
    )


def _keep(new: Maybe[T], old: T) -> T:
    return old if new is UNSET else new


def _merge_turns(
    old: TurnDetection | None, patch: Maybe[TurnDetectionPatch | None]
) -> TurnDetection | None:
    if patch is UNSET:
        return old
    if patch is None:
        return None
    kind = _keep(patch.kind, old.kind if old else TurnKind.SERVER_VAD)
    base = old if old is not None and old.kind is kind else TurnDetection(kind=kind)
    _check_members(patch, kind)
    idle_ms = _keep(patch.idle_timeout_ms, base.idle_timeout_ms)
    if idle_ms is not None:
        idle_ms = _within(idle_ms, *IDLE_MS, f"{_TURNS}.idle_timeout_ms")
    return TurnDetection(
        kind=kind,
        threshold=_within(_keep(patch.threshold, base.threshold), 0, 1, f"{_TURNS}.threshold"),
        prefix_padding_ms=_within(
            _keep(patch.prefix_padding_ms, base.prefix_padding_ms),
            0,
            MAX_PREFIX_MS,
            f"{_TURNS}.prefix_padding_ms",
        ),
        silence_duration_ms=_within(
            _keep(patch.silence_duration_ms, base.silence_duration_ms),
            20,
            MAX_SILENCE_MS,
            f"{_TURNS}.silence_duration_ms",
        ),
        create_response=_keep(patch.create_response, base.create_response),
        interrupt_response=_keep(patch.interrupt_response, base.interrupt_response),
        idle_timeout_ms=idle_ms,
        eagerness=_keep(patch.eagerness, base.eagerness),
    )


def _check_members(patch: TurnDetectionPatch, kind: TurnKind) -> None:
    """Refuse members of the other kind of turn detection: they would do nothing."""
    if kind is TurnKind.SERVER_VAD:
        foreign = {"eagerness": patch.eagerness not in (UNSET, Eagerness.AUTO)}
    else:
        foreign = {
            "threshold": patch.threshold is not UNSET,
            "prefix_padding_ms": patch.prefix_padding_ms is not UNSET,
            "silence_duration_ms": patch.silence_duration_ms is not UNSET,
            "idle_timeout_ms": patch.idle_timeout_ms not in (UNSET, None),
        }
    for name in (name for name, said in foreign.items() if said):
        param = f"{_TURNS}.{name}"
        raise Refusal("invalid_value", f"{param} is no member of '{kind.value}'.", param)


def _merge_transcription(
    old: Transcription | None, patch: Maybe[TranscriptionPatch | None]
) -> Transcription | None:
    if patch is UNSET:
        return old
    if patch is None:
        return None
    base = old or Transcription(model="whisper-1")
    wanted = replace(
        base,
        model=_keep(patch.model, base.model),
        language=_keep(patch.language, base.language),
        prompt=_keep(patch.prompt, base.prompt),
        keywords=_keep(patch.keywords, base.keywords),
    )
    _check_length(wanted.model, MAX_MODEL_CHARS, f"{_WORDS}.model")
    _check_length(wanted.language, MAX_LANGUAGE_CHARS, f"{_WORDS}.language")
    _check_length(wanted.prompt, MAX_PROMPT_CHARS, f"{_WORDS}.prompt")
    keywords = wanted.keywords or ()
    if len(keywords) > MAX_KEYWORDS:
        param = f"{_WORDS}.keywords"
        raise Refusal("invalid_value", f"{param} may have at most {MAX_KEYWORDS} words.", param)
    for index, keyword in enumerate(keywords):
        _check_length(keyword, MAX_KEYWORD_CHARS, f"{_WORDS}.keywords[{index}]")
    return wanted


def _merge_choice(now: Settings, patch: SettingsPatch, tools: tuple[Tool, ...]) -> ToolChoice:
    new = patch.tool_choice
    if new is not UNSET:
        # Clients choose before they know their tools; until these come, none is called.
        return check_choice(new, tools, "session.tool_choice") if tools else new
    if patch.tools is UNSET:
        return now.tool_choice
    try:
        return check_choice(now.tool_choice, tools, "session.tool_choice")
    except Refusal:
        # Tools were taken away that it needs: whoever does that wants none called.
        return ToolChoice()


def _check_temperature(value: float | None) -> float | None:
    if value is None:
        return None
    return _within(value, 0, MAX_TEMPERATURE, "session.temperature")


def _check_length(value: str | None, limit: int, param: str) -> None:
    if value is not None and len(value) > limit:
        raise Refusal(
            "string_above_max_length", f"{param} may have at most {limit} characters.", param
        )


def _within(value: N, low: float, high: float, param: str) -> N:
    if not low <= value <= high:
        raise Refusal("invalid_value", f"{param} must be from {low} to {high}.", param)
    return value


def check_tokens(value: int | None, param: str) -> int | None:
    """Return a bound on output tokens that is allowed; ``None`` is "inf".

    Raises:
        Refusal: it is not; the error names ``param``.
    """
    if value is not None and not 1 <= value <= MAX_OUTPUT_TOKENS:
        raise Refusal(
            "invalid_value", f"{param} must be from 1 to {MAX_OUTPUT_TOKENS}, or 'inf'.", param
        )
    return value


def check_text(value: str, can: Capabilities, param: str) -> str:
    """Return instructions that are not too long.

    Raises:
        Refusal: they are; the error names ``param``.
    """
    if len(value) > can.max_text_chars:
        raise Refusal(
            "string_above_max_length",
            f"{param} may have at most {can.max_text_chars} characters.",
            param,
        )
    return value


def check_voice(value: str, can: Capabilities, param: str) -> str:
    """Return a voice that there is.

    Raises:
        Refusal: there is none of this name; the error names ``param``.
    """
    if value not in can.voices:
        allowed = ", ".join(can.voices)
        raise Refusal("invalid_value", f"{param} must be one of: {allowed}.", param)
    return value


def check_tools(tools: tuple[Tool, ...], param: str) -> tuple[Tool, ...]:
    """Return functions that can be offered.

    Raises:
        Refusal: they are too many or too long, or two have one name; the error names
            ``param``.
    """
    if len(tools) > MAX_TOOLS:
        raise Refusal("invalid_value", f"{param} may have at most {MAX_TOOLS} functions.", param)
    if sum(len(t.name) + len(t.description) + len(t.parameters) for t in tools) > MAX_TOOL_CHARS:
        raise Refusal(
            "string_above_max_length",
            f"{param} may have at most {MAX_TOOL_CHARS} characters together.",
            param,
        )
    names: set[str] = set()
    for index, tool in enumerate(tools):
        at = f"{param}[{index}].name"
        if not 1 <= len(tool.name) <= MAX_NAME_CHARS:
            raise Refusal("invalid_value", f"{at} must have 1 to {MAX_NAME_CHARS} characters.", at)
        if tool.name in names:
            raise Refusal("invalid_value", f"{at}: there is another '{tool.name}'.", at)
        names.add(tool.name)
    return tools


def check_choice(choice: ToolChoice, tools: tuple[Tool, ...], param: str) -> ToolChoice:
    """Return a choice that can be followed.

    Raises:
        Refusal: it asks for a function that is not offered; the error names ``param``.
    """
    offered = [tool.name for tool in tools]
    if choice.mode is ToolMode.FUNCTION and choice.name not in offered:
        allowed = ", ".join(offered) or "none are offered"
        raise Refusal("invalid_value", f"{param}.name must be one of: {allowed}.", f"{param}.name")
    if choice.mode is ToolMode.REQUIRED and not offered:
        raise Refusal("invalid_value", f"{param} 'required' needs tools.", param)
    return choice


def _check_truncation(wanted: Truncation) -> Truncation:
    at = "session.truncation"
    _within(wanted.retention_ratio, 0, 1, f"{at}.retention_ratio")
    if wanted.post_instructions is not None and wanted.post_instructions < 1:
        param = f"{at}.token_limits.post_instructions"
        raise Refusal("invalid_value", f"{param} must be at least 1.", param)
    return wanted
