"""What the model is shown."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from antiphon.sessions.context import build_context
from antiphon.sessions.items import Item, ItemKind, ItemStatus, Part, PartKind, Role
from antiphon.sessions.work_effects import ContextCall, ContextMessage


def item(role: Role, text: str | None, response_id: str | None = None) -> Item:
    parts = (Part(PartKind.INPUT_TEXT, text),)
    return Item(id=f"{role.value}-{text}", role=role, parts=parts, response_id=response_id)


def call(
    name: str, response_id: str | None = None, status: ItemStatus = ItemStatus.COMPLETED
) -> Item:
    return Item(
        id=f"item-{name}",
        kind=ItemKind.FUNCTION_CALL,
        call_id=f"call-{name}",
        name=name,
        arguments="{}",
        response_id=response_id,
        status=status,
    )


def output(name: str, gave: str = "42") -> Item:
    return Item(
        id=f"output-{name}", kind=ItemKind.FUNCTION_OUTPUT, call_id=f"call-{name}", output=gave
    )


def messages(items: Iterable[Item], instructions: str = "") -> tuple[ContextMessage, ...]:
    return build_context(instructions, items).messages


ASKED = item(Role.USER, "What now?")
QUESTION = ContextMessage("user", "What now?")
A, B = ContextCall("call-a", "a", "{}"), ContextCall("call-b", "b", "{}")


def test_instructions_come_first_and_a_draft_last() -> None:
    items = [item(Role.SYSTEM, "Rules."), item(Role.USER, "one"), item(Role.ASSISTANT, "two")]
    assert build_context(" Be brief. ", items, draft="three").messages == (
        ContextMessage("system", "Be brief."),
        ContextMessage("system", "Rules."),
        ContextMessage("user", "one"),
        ContextMessage("assistant", "two"),
        ContextMessage("user", "three"),
    )


def test_a_nudge_is_the_last_thing_the_model_reads() -> None:
    shown = build_context("", [ASKED], nudge="They are silent.").messages
    assert shown == (QUESTION, ContextMessage("system", "They are silent."))


def test_what_says_nothing_is_left_out() -> None:
    items = [item(Role.USER, None), item(Role.ASSISTANT, " \n"), item(Role.USER, "")]
    assert messages(items, "  ") == ()


def test_a_call_belongs_to_what_its_response_said_and_its_output_follows() -> None:
    said = item(Role.ASSISTANT, "One moment.", "resp_1")
    assert messages([ASKED, said, call("a", "resp_1"), output("a")]) == (
        QUESTION,
        ContextMessage("assistant", "One moment.", calls=(A,)),
        ContextMessage("tool", "42", call_id="call-a"),
    )


def test_a_call_of_another_response_is_a_message_of_its_own() -> None:
    said = item(Role.ASSISTANT, "Hello.", "resp_1")
    assert messages([said, call("a", "resp_2")]) == (
        ContextMessage("assistant", "Hello."),
        ContextMessage("assistant", "", calls=(A,)),
    )


def test_calls_in_a_row_are_one_message() -> None:
    items = [ASKED, call("a"), call("b"), output("b", ""), output("a")]
    assert messages(items) == (
        QUESTION,
        ContextMessage("assistant", "", calls=(A, B)),
        ContextMessage("tool", "", call_id="call-b"),
        ContextMessage("tool", "42", call_id="call-a"),
    )


@pytest.mark.parametrize("status", [ItemStatus.IN_PROGRESS, ItemStatus.INCOMPLETE])
def test_a_call_that_was_cut_short_is_not_shown_nor_what_a_client_gave_for_it(
    status: ItemStatus,
) -> None:
    assert messages([ASKED, call("a", status=status), output("a")]) == (QUESTION,)


def test_an_output_without_its_call_is_not_shown() -> None:
    assert messages([output("a"), ASKED, call("a")]) == (
        QUESTION,
        ContextMessage("assistant", "", calls=(A,)),
    )


def test_a_person_may_show_an_image_without_a_word() -> None:
    url = "data:image/png;base64,AA=="
    image = Part(PartKind.INPUT_IMAGE, image_url=url)
    let_go = Part(PartKind.INPUT_IMAGE)
    shown = messages(
        [
            Item(id="a", role=Role.USER, parts=(image,)),
            Item(id="b", role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, "this?"), image)),
            Item(id="c", role=Role.USER, parts=(let_go,)),
        ]
    )
    assert shown == (ContextMessage("user", "", (url,)), ContextMessage("user", "this?", (url,)))


def test_what_was_left_out_is_told_by_item_and_never_is_what_the_person_asked() -> None:
    items = [
        item(Role.SYSTEM, "Rules."),
        item(Role.USER, "one"),
        item(Role.ASSISTANT, "two"),
        ASKED,
        call("a"),
        call("b"),
        output("a"),
    ]
    context = build_context("Be brief.", items)
    assert context.left_out(0) == ()
    assert context.left_out(1) == ("user-one",)
    assert context.left_out(2) == context.left_out(99) == ("user-one", "assistant-two")
    assert build_context("", [call("a"), call("b"), ASKED]).left_out(1) == ("item-a", "item-b")
