"""What a request to chat may ask for, and what is refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from ..engines.stage import StageFailure
from ..engines.text.tool_checks import check_choice, check_tools
from ..engines.tools import Tool, ToolChoice
from ..realtime.client_messages import VoiceIdIn
from ..realtime.refusals import Refused, missing, not_one_of, not_served
from ..sessions.errors import ErrorInfo, Refusal
from .chat_faults import fault
from .chat_messages import Rules, Turn, decoded, read_messages
from .speech_request import STOCK_SPEECH_VOICES

FORMATS = ("wav", "mp3", "flac", "opus", "aac", "pcm16")
"""Of the audio of an answer, as this endpoint names them."""

HOTTEST = 2.0
"""Highest temperature."""

_MODALITIES = ("text", "audio")

_UNSERVED: Mapping[str, tuple[tuple[object, ...], str]] = {
    "n": ((1,), "one answer is made for each request."),
    "top_p": ((1,), "is the deployment's here; use temperature."),
    "presence_penalty": ((0,), "the model here can't be told to avoid what it wrote."),
    "frequency_penalty": ((0,), "the model here can't be told to avoid what it wrote."),
    "logit_bias": (({},), "the model here can't be told which tokens to prefer."),
    "seed": ((), "what is drawn here can't be drawn again; temperature 0 draws nothing."),
    "stop": (("", []), "the model here can't be told where to stop; use max_completion_tokens."),
    "logprobs": ((False,), "the model here does not tell its probabilities."),
    "top_logprobs": ((0,), "the model here does not tell its probabilities."),
    "store": ((False,), "nothing is stored here."),
    "service_tier": (("auto", "default"), "there is one tier: 'auto' or 'default'."),
    "reasoning_effort": (("none",), "the model here does not reason ahead of its answer."),
    "verbosity": (("medium",), "tell the model in a system message."),
    "functions": (([],), "is the old form; use tools."),
    "function_call": (("auto", "none"), "is the old form; use tool_choice."),
    "web_search_options": ((), "the web is not searched here."),
    "moderation": ((), "nothing is moderated here."),
}
"""What would change the answer and can't be had, with the values that ask for nothing."""


class _In(msgspec.Struct, kw_only=True):
    pass


class _NameIn(_In, kw_only=True):
    name: str


class _FunctionIn(_In, kw_only=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _ToolIn(_In, kw_only=True):
    type: str
    function: _FunctionIn | None = None


class _AllowedToolIn(_In, kw_only=True):
    type: str
    function: _NameIn


class _AllowedIn(_In, kw_only=True):
    mode: str
    tools: list[_AllowedToolIn]


class _ChoiceIn(_In, kw_only=True):
    type: str
    function: _NameIn | None = None
    allowed_tools: _AllowedIn | None = None


class _AudioIn(_In, kw_only=True):
    voice: str | VoiceIdIn | None = None
    format: str | None = None


class _StreamOptionsIn(_In, kw_only=True):
    include_usage: bool | None = None


class _FormatIn(_In, kw_only=True):
    type: str


class _ChatIn(_In, kw_only=True):
    messages: list[msgspec.Raw]
    model: str | None = None
    modalities: list[str] | None = None
    audio: _AudioIn | None = None
    stream: bool | None = None
    stream_options: _StreamOptionsIn | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: str | _ChoiceIn | None = None
    parallel_tool_calls: bool | None = None
    response_format: _FormatIn | None = None

    n: int | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    store: bool | None = None
    service_tier: str | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    functions: list[Any] | None = None
    function_call: Any = None
    web_search_options: Any = None
    moderation: Any = None


_Named: TypeAlias = Literal["auto", "none", "required"]
_MODES: dict[str, _Named] = {"auto": "auto", "none": "none", "required": "required"}


@dataclass(frozen=True, slots=True)
class Aloud:
    """How an answer is spoken."""

    voice: str | None
    """A name of ours; ``None`` for the default one."""

    form: str
    """One of :data:`..codecs.encode.FORMATS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that can be served."""

    turns: tuple[Turn, ...]
    aloud: Aloud | None
    """``None`` for an answer in writing."""

    stream: bool
    include_usage: bool
    """Whether a stream tells what was used."""

    max_tokens: int | None
    temperature: float | None
    tools: tuple[Tool, ...]
    tool_choice: ToolChoice
    one_call: bool
    """Whether the answer may have one call at most."""


def read_request(body: bytes, *, voices: Sequence[str], rules: Rules) -> Asked:
    """Return what is asked for. ``voices``: of the pipeline; ``rules``: for the messages.

    Raises:
        Refused: the body can't be read.
        Refusal: it asks for something that is not served.
    """
    try:
        asked = decoded(body, _ChatIn, "")
        return _asked(asked, voices, rules)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Refused(ErrorInfo("invalid_json", "The body is not valid JSON.")) from None


def _asked(asked: _ChatIn, voices: Sequence[str], rules: Rules) -> Asked:
    _refuse_unserved(asked)
    stream = bool(asked.stream)
    if asked.stream_options is not None and not stream:
        raise Refusal("invalid_value", "stream_options: only with stream.", "stream_options")
    tools, choice = _functions(asked)
    return Asked(
        turns=read_messages(asked.messages, rules),
        aloud=_aloud(asked, voices),
        stream=stream,
        include_usage=asked.stream_options is not None and bool(asked.stream_options.include_usage),
        max_tokens=_max_tokens(asked),
        temperature=_temperature(asked.temperature),
        tools=tools,
        tool_choice=choice,
        one_call=asked.parallel_tool_calls is False,
    )


def _refuse_unserved(asked: _ChatIn) -> None:
    for name, (neutral, why) in _UNSERVED.items():
        value = getattr(asked, name)
        if value is not None and value not in neutral:
            raise not_served(name, why)
    form = asked.response_format
    if form is not None and form.type in ("json_object", "json_schema"):
        why = "text can't be held to JSON here; arguments of a function are held to its schema."
        raise not_served("response_format.type", why)
    if form is not None and form.type != "text":
        raise not_one_of("response_format.type", form.type, ("text",))


def _aloud(asked: _ChatIn, voices: Sequence[str]) -> Aloud | None:
    wanted = ["text"] if asked.modalities is None else asked.modalities
    for name in wanted:
        if name not in _MODALITIES:
            raise not_one_of("modalities", name, _MODALITIES)
    if "text" not in wanted:
        what = "modalities must be ['text'] or ['text', 'audio']."
        raise Refusal("invalid_value", what, "modalities")
    if "audio" not in wanted:
        return None
    if asked.audio is None:
        raise missing("audio")
    form = asked.audio.format
    if form is None:
        raise missing("audio.format")
    if form not in FORMATS:
        raise not_one_of("audio.format", form, FORMATS)
    return Aloud(_voice(asked.audio.voice, voices), "pcm" if form == "pcm16" else form)


def _voice(asked: str | VoiceIdIn | None, voices: Sequence[str]) -> str | None:
    name = asked.id if isinstance(asked, VoiceIdIn) else asked
    if name is None:
        raise missing("audio.voice")
    if name in voices:
        return name
    if name in STOCK_SPEECH_VOICES:
        return None
    raise not_one_of("audio.voice", name, (*voices, *STOCK_SPEECH_VOICES))


def _max_tokens(asked: _ChatIn) -> int | None:
    newer, older = asked.max_completion_tokens, asked.max_tokens
    if newer is not None and older is not None and newer != older:
        what = "max_tokens is the old name of max_completion_tokens: give one of them."
        raise Refusal("invalid_value", what, "max_tokens")
    name = "max_tokens" if newer is None else "max_completion_tokens"
    value = older if newer is None else newer
    if value is not None and value < 1:
        raise Refusal("invalid_value", f"{name} must be at least 1.", name)
    return value


def _temperature(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= HOTTEST:
        message = f"temperature must be from 0 to {HOTTEST:g}."
        raise Refusal("invalid_value", message, "temperature")
    return value


def _tools(offered: Sequence[msgspec.Raw]) -> tuple[Tool, ...]:
    return tuple(_tool(raw, f"tools[{index}]") for index, raw in enumerate(offered))


def _tool(raw: msgspec.Raw, at: str) -> Tool:
    tool = decoded(raw, _ToolIn, at)
    if tool.type == "custom":
        raise not_served(f"{at}.type", "'custom' is not served here. Allowed: 'function'.")
    if tool.type != "function":
        raise not_one_of(f"{at}.type", tool.type, ("function",))
    if tool.function is None:
        raise missing(f"{at}.function")
    return Tool(
        name=tool.function.name,
        description=tool.function.description or "",
        parameters=msgspec.json.encode(tool.function.parameters or {}).decode(),
    )


def _functions(asked: _ChatIn) -> tuple[tuple[Tool, ...], ToolChoice]:
    """What may be called; refused here where the model's stage would, ahead of any listening."""
    offered = _tools(asked.tools or ())
    try:
        check_tools(offered)
        tools, choice = _choice(asked.tool_choice, offered)
        check_choice(tools, choice)
    except StageFailure as failure:
        wrong = fault(failure.error)
        raise Refusal(wrong.code, wrong.message, wrong.param) from None
    return tools, choice


def _choice(
    choice: str | _ChoiceIn | None, tools: tuple[Tool, ...]
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The functions that may be called, and whether they have to be."""
    if choice is None:
        return tools, ToolChoice()
    if isinstance(choice, str):
        if choice not in _MODES:
            raise not_one_of("tool_choice", choice, _MODES)
        return tools, ToolChoice(mode=_MODES[choice])
    match choice.type:
        case "function":
            if choice.function is None:
                raise missing("tool_choice.function")
            return tools, ToolChoice(mode="function", name=choice.function.name)
        case "allowed_tools":
            if choice.allowed_tools is None:
                raise missing("tool_choice.allowed_tools")
            return _allowed(choice.allowed_tools, tools)
        case "custom":
            what = "'custom' is not served here. Allowed: 'function', 'allowed_tools'."
            raise not_served("tool_choice.type", what)
        case _:
            raise not_one_of("tool_choice.type", choice.type, ("function", "allowed_tools"))


def _allowed(allowed: _AllowedIn, tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Only what is allowed is offered at all."""
    at = "tool_choice.allowed_tools"
    if allowed.mode not in ("auto", "required"):
        raise not_one_of(f"{at}.mode", allowed.mode, ("auto", "required"))
    names = {tool.name for tool in tools}
    for index, each in enumerate(allowed.tools):
        if each.type != "function":
            raise not_one_of(f"{at}.tools[{index}].type", each.type, ("function",))
        if each.function.name not in names:
            param = f"{at}.tools[{index}].function.name"
            raise not_one_of(param, each.function.name, sorted(names))
    kept = {each.function.name for each in allowed.tools}
    return tuple(tool for tool in tools if tool.name in kept), ToolChoice(mode=_MODES[allowed.mode])
