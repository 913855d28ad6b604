"""What a response shall be: the settings of its moment, and what its request changes."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import Refusal
from .events import ItemReference, ResponseOptions
from .items import Item
from .items_in import make_input
from .merging import (
    MAX_TEMPERATURE,
    check_choice,
    check_text,
    check_tokens,
    check_tools,
    check_voice,
)
from .settings import AudioFormat, Modality, Truncation
from .state import SessionState
from .tools import Tool, ToolChoice, ToolMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a response shall be."""

    modality: Modality
    voice: str
    output_format: AudioFormat
    speed: float
    instructions: str
    max_output_tokens: int | None
    temperature: float | None
    tools: tuple[Tool, ...]
    tool_choice: ToolChoice
    truncation: Truncation
    metadata: tuple[tuple[str, str], ...] | None = None
    out_of_band: bool = False
    input: tuple[Item | ItemReference, ...] | None = None
    """What it answers instead of the conversation."""

    nudge: str | None = None
    """What the system says last, where nobody asked anything."""

    own_instructions: bool = False
    """Whether the instructions came with the request for this response."""

    own_tools: bool = False
    """Whether the functions came with the request for this response."""

    @property
    def insists(self) -> bool:
        """Whether something is to be said even where nothing was understood."""
        return self.own_instructions or self.input is not None or self.nudge is not None

    @property
    def refers(self) -> bool:
        """Whether it is made from the conversation, all of it or items of it."""
        return self.input is None or any(isinstance(i, ItemReference) for i in self.input)

    @property
    def usual(self) -> bool:
        """Whether its context is that of the session's other responses."""
        return not (self.out_of_band or self.own_instructions or self.own_tools) and (
            self.input is None
        )


def make_plan(state: SessionState, options: ResponseOptions, nudge: str | None = None) -> Plan:
    """Return what a response shall be; never refuses options that say nothing.

    Raises:
        Refusal: an option is not allowed.
    """
    settings = state.settings
    _check_options(state, options)
    tools, choice = _tools(state, options)
    own = options.instructions
    return Plan(
        modality=options.modality or settings.modality,
        voice=options.voice or settings.voice,
        output_format=options.output_format or settings.output_format,
        speed=settings.speed,
        instructions=settings.instructions if own is None else own,
        max_output_tokens=options.max_output_tokens or settings.max_output_tokens,
        temperature=settings.temperature if options.temperature is None else options.temperature,
        tools=tools,
        tool_choice=choice,
        truncation=settings.truncation,
        metadata=options.metadata,
        out_of_band=options.out_of_band,
        input=None if options.input is None else make_input(options.input, state),
        nudge=nudge,
        own_instructions=own is not None,
        own_tools=options.tools is not None,
    )


def _check_options(state: SessionState, options: ResponseOptions) -> None:
    if options.voice is not None:
        check_voice(options.voice, state.can, "response.audio.output.voice")
    check_tokens(options.max_output_tokens, "response.max_output_tokens")
    check_text(options.instructions or "", state.can, "response.instructions")
    if options.temperature is not None and not 0 <= options.temperature <= MAX_TEMPERATURE:
        param = "response.temperature"
        raise Refusal("invalid_value", f"{param} must be from 0 to {MAX_TEMPERATURE:g}.", param)


def _tools(state: SessionState, options: ResponseOptions) -> tuple[tuple[Tool, ...], ToolChoice]:
    settings = state.settings
    tools = settings.tools if options.tools is None else options.tools
    choice = options.tool_choice or settings.tool_choice
    if options.tools is not None or options.tool_choice is not None:
        check_tools(tools, "response.tools")
        return tools, check_choice(choice, tools, "response.tool_choice")
    if not tools and choice.mode is not ToolMode.NONE:
        # Nothing can be called, and a turn must be answered all the same.
        choice = ToolChoice()
    return tools, choice
