"""What the model is shown of a conversation."""

from __future__ import annotations

from collections.abc import Iterable

from .items import Item
from .work_effects import ContextMessage


def context_messages(
    instructions: str, items: Iterable[Item], draft: str | None = None
) -> tuple[ContextMessage, ...]:
    """Return instructions, items in order, and a user's words not yet in an item.

    Items that say nothing (audio not understood, a reply of which nothing was heard)
    are left out: an empty message teaches a model to say nothing.
    """
    messages: list[ContextMessage] = []
    if instructions.strip():
        messages.append(ContextMessage("system", instructions.strip()))
    messages += [ContextMessage(item.role.value, item.text) for item in items if item.text]
    if draft:
        messages.append(ContextMessage("user", draft))
    return tuple(messages)
