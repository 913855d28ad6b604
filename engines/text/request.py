"""What the autoregressive stages are asked for."""

from __future__ import annotations

from dataclasses import dataclass

from ..pipeline import Message
from ..tools import Tool, ToolChoice, Truncation


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """Ask for the next assistant turn of a conversation."""

    request_id: str
    messages: tuple[Message, ...]
    """Oldest first; what does not fit into the model's context is left out."""

    max_tokens: int | None = None
    """Bound on generated tokens; ``None`` for the deployment's."""

    temperature: float | None = None
    """Of sampling; ``None`` for the deployment's."""

    tools: tuple[Tool, ...] = ()
    """Functions the model may call."""

    tool_choice: ToolChoice = ToolChoice()
    truncation: Truncation = Truncation()
