"""Conversation items."""

from __future__ import annotations

from antiphon.sessions.items import Item, Part, PartKind, Role


def item(*parts: Part, role: Role = Role.USER) -> Item:
    return Item(id="a", role=role, parts=parts)


def test_a_model_reads_all_parts_that_say_something() -> None:
    said = item(
        Part(PartKind.INPUT_TEXT, "one"),
        Part(PartKind.INPUT_AUDIO),
        Part(PartKind.INPUT_TEXT, ""),
        Part(PartKind.INPUT_AUDIO, "two "),
    )
    assert said.text == "one two"
    assert item(Part(PartKind.INPUT_AUDIO)).text == item().text == ""


def test_only_our_audio_is_spoken() -> None:
    assert item(Part(PartKind.OUTPUT_AUDIO, ""), role=Role.ASSISTANT).spoken
    assert not item(Part(PartKind.OUTPUT_TEXT, "x"), role=Role.ASSISTANT).spoken
    assert not item(Part(PartKind.INPUT_AUDIO, "x")).spoken


def test_a_copy_with_other_words_leaves_the_item_as_it_was() -> None:
    first = item(Part(PartKind.INPUT_AUDIO), Part(PartKind.INPUT_TEXT, "more"))
    second = first.with_text("hello")
    assert second.parts == (Part(PartKind.INPUT_AUDIO, "hello"), first.parts[1])
    assert first.parts[0].text is None
