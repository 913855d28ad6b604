"""What the model is shown of a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .items import Item, ItemKind, ItemStatus, Role
from .work_effects import ContextCall, ContextMessage


@dataclass(frozen=True, slots=True)
class Context:
    """Messages for a model, and where each comes from."""

    messages: tuple[ContextMessage, ...]
    sources: tuple[tuple[str, ...], ...]
    """For each message the ids of its items, empty for what is of no item."""

    def left_out(self, dropped: int) -> tuple[str, ...]:
        """Return the items in the ``dropped`` oldest messages that are not of the system.

        The newest message of the person is never among them: whatever has to go, a model
        is always shown what it is asked.
        """
        turns = [i for i, message in enumerate(self.messages) if message.role != "system"]
        asked = max((i for i in turns if self.messages[i].role == "user"), default=len(turns))
        gone = [i for i in turns[: max(0, dropped)] if i < asked]
        return tuple(item_id for i in gone for item_id in self.sources[i])


def build_context(
    instructions: str,
    items: Iterable[Item],
    *,
    draft: str | None = None,
    nudge: str | None = None,
) -> Context:
    """Return instructions, items in order, a user's words not yet in an item, and a nudge.

    Left out is what says nothing (audio not understood, a reply of which nothing was
    heard), because an empty message teaches a model to say nothing; calls that are not
    complete; and what functions gave whose call is not shown.
    """
    shown: list[tuple[ContextMessage, tuple[str, ...]]] = []
    called: set[str] = set()
    before: Item | None = None
    if instructions.strip():
        shown.append((ContextMessage("system", instructions.strip()), ()))
    for item in items:
        message = _message(item, called)
        if message is None:
            continue
        if before is not None and _joins(before, item):
            last, ids = shown[-1]
            shown[-1] = (replace(last, calls=last.calls + message.calls), (*ids, item.id))
        else:
            shown.append((message, (item.id,)))
        called.update(call.call_id for call in message.calls)
        before = item
    if draft:
        shown.append((ContextMessage("user", draft), ()))
    if nudge:
        shown.append((ContextMessage("system", nudge), ()))
    return Context(tuple(each for each, _ in shown), tuple(ids for _, ids in shown))


def _message(item: Item, called: set[str]) -> ContextMessage | None:
    match item.kind:
        case ItemKind.MESSAGE:
            images = item.images if item.role is Role.USER else ()
            if not item.text and not images:
                return None
            return ContextMessage(item.role.value, item.text, images)
        case ItemKind.FUNCTION_CALL:
            if item.status is not ItemStatus.COMPLETED or not item.call_id or not item.name:
                return None
            call = ContextCall(item.call_id, item.name, item.arguments)
            return ContextMessage("assistant", "", calls=(call,))
        case ItemKind.FUNCTION_OUTPUT:
            if item.call_id not in called:
                return None
            return ContextMessage("tool", item.output, call_id=item.call_id)


def _joins(before: Item, item: Item) -> bool:
    """Whether a call is part of the message before it: the same turn of the assistant."""
    if item.kind is not ItemKind.FUNCTION_CALL:
        return False
    if before.kind is ItemKind.FUNCTION_CALL:
        return True
    said = before.kind is ItemKind.MESSAGE and before.role is Role.ASSISTANT
    return said and before.response_id == item.response_id
