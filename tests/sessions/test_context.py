"""What the model is shown."""

from __future__ import annotations

from antiphon.sessions.context import context_messages
from antiphon.sessions.items import Item, Part, PartKind, Role
from antiphon.sessions.work_effects import ContextMessage


def item(role: Role, text: str | None) -> Item:
    return Item(id="a", role=role, parts=(Part(PartKind.INPUT_TEXT, text),))


def test_instructions_come_first_and_a_draft_last() -> None:
    items = [item(Role.SYSTEM, "Rules."), item(Role.USER, "one"), item(Role.ASSISTANT, "two")]
    assert context_messages(" Be brief. ", items, "three") == (
        ContextMessage("system", "Be brief."),
        ContextMessage("system", "Rules."),
        ContextMessage("user", "one"),
        ContextMessage("assistant", "two"),
        ContextMessage("user", "three"),
    )


def test_what_says_nothing_is_left_out() -> None:
    items = [item(Role.USER, None), item(Role.ASSISTANT, " \n"), item(Role.USER, "")]
    assert context_messages("  ", items, "") == context_messages("", items) == ()
