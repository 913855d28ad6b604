"""What the autoregressive stages are asked for."""

from __future__ import annotations

from dataclasses import dataclass

from ..pipeline import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """Ask for the next assistant turn of a conversation."""

    request_id: str
    messages: tuple[Message, ...]
    """Oldest first; what does not fit into the model's context is left out."""

    max_tokens: int | None = None
    """Bound on generated tokens; ``None`` for the deployment's."""
