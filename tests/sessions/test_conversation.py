"""Items in order, and their audio."""

from __future__ import annotations

import pytest

from antiphon.sessions.conversation import BYTES_PER_MS, Conversation
from antiphon.sessions.errors import Refusal
from antiphon.sessions.items import Item, ItemStatus, Part, PartKind, Role

MS = b"\x01\x00" * (BYTES_PER_MS // 2)


def item(item_id: str, text: str = "") -> Item:
    return Item(id=item_id, role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, text),))


def conversation(*ids: str, max_items: int = 5, max_retained_ms: int = 10) -> Conversation:
    made = Conversation(max_items, max_retained_ms)
    for item_id in ids:
        made.add(item(item_id))
    return made


def ids(of: Conversation) -> list[str]:
    return [item.id for item in of]


def test_items_are_placed_at_the_end_the_start_or_behind_another() -> None:
    talk = conversation("a", "b")
    talk.add(item("c"), "a")
    talk.add(item("d"), "root")
    assert ids(talk) == ["d", "a", "c", "b"]
    assert [talk.previous_id(each) for each in ids(talk)] == [None, "d", "a", "c"]
    assert talk.previous_id("none") is None
    assert talk.last == item("b")
    assert talk.last_id == "b"


def test_an_empty_conversation_has_no_last_item() -> None:
    talk = conversation()
    assert (talk.last, talk.last_id, talk.get("a")) == (None, None, None)


@pytest.mark.parametrize(
    ("new", "after", "code"),
    [
        ("a", None, "item_create_duplicate_item_id"),
        ("c", "none", "item_create_invalid_previous_item_id"),
    ],
)
def test_an_item_that_cannot_be_placed_changes_nothing(
    new: str, after: str | None, code: str
) -> None:
    talk = conversation("a", "b")
    before = talk.version
    with pytest.raises(Refusal) as refused:
        talk.add(item(new), after)
    assert refused.value.code == code
    assert (ids(talk), talk.version) == (["a", "b"], before)


def test_a_full_conversation_refuses_a_client_and_makes_room_for_speech() -> None:
    talk = conversation("a", "b", max_items=2)
    talk.keep_audio("a", MS)
    with pytest.raises(Refusal, match="at most 2 items"):
        talk.add(item("c"))
    talk.add_made(item("c"))
    assert ids(talk) == ["b", "c"]
    assert talk.audio("a") == b""


def test_who_asks_is_told_what_made_room_and_what_is_being_written_stays() -> None:
    gone: list[str] = []
    talk = Conversation(2, 10, gone.append)
    talk.add(Item(id="a", status=ItemStatus.IN_PROGRESS))
    talk.add(item("b"))
    talk.add_made(item("c"))
    assert (ids(talk), gone) == (["a", "c"], ["b"])
    talk.remove("a")
    assert gone == ["b"], "a client knows what it deleted"


def test_hidden_items_stay_hidden_until_one_is_put_among_them() -> None:
    talk = conversation("a", "b", "c", "d", max_items=9)
    talk.hide_through("b")
    assert [each.id for each in talk.shown()] == ["c", "d"]
    talk.remove("b")
    assert [each.id for each in talk.shown()] == ["c", "d"]
    talk.add(item("e"), "a")
    assert [each.id for each in talk.shown()] == ["e", "c", "d"]
    talk.add(item("f"), "root")
    assert [each.id for each in talk.shown()] == ["f", "a", "e", "c", "d"]
    talk.hide_through("none")
    assert list(talk.shown()) == list(talk)


def test_how_much_audio_an_item_came_with_outlasts_the_audio() -> None:
    talk = conversation("a", "b", max_retained_ms=10)
    talk.keep_audio("a", MS * 6)
    talk.keep_audio("b", MS * 6)
    assert (talk.audio("a"), talk.audio_bytes("a")) == (b"", 6 * BYTES_PER_MS)
    talk.remove("a")
    assert talk.audio_bytes("a") == 0


def test_every_change_that_a_model_would_notice_counts() -> None:
    talk = conversation("a")
    versions = [talk.version]
    talk.replace(item("a", "new"))
    versions.append(talk.version)
    talk.remove("a")
    versions.append(talk.version)
    assert len(set(versions)) == 3


def test_what_is_not_there_is_neither_replaced_removed_nor_given_audio() -> None:
    talk = conversation("a")
    before = talk.version
    talk.replace(item("x"))
    talk.remove("x")
    talk.keep_audio("x", MS)
    talk.cut_audio("x", 0)
    assert (ids(talk), talk.version, talk.audio("x")) == (["a"], before, b"")


def test_the_oldest_audio_is_let_go_at_the_bound() -> None:
    talk = conversation("a", "b", max_retained_ms=10)
    talk.keep_audio("a", MS * 6)
    talk.keep_audio("b", MS * 4)
    assert len(talk.audio("a")) == 6 * BYTES_PER_MS
    talk.keep_audio("b", MS)
    assert talk.audio("a") == b""
    assert len(talk.audio("b")) == 5 * BYTES_PER_MS


def test_audio_that_was_cut_or_removed_makes_room() -> None:
    talk = conversation("a", "b", "c", max_retained_ms=10)
    talk.keep_audio("a", MS * 6)
    talk.cut_audio("a", 2)
    talk.keep_audio("b", MS * 8)
    assert talk.audio("a") == MS * 2
    talk.remove("b")
    talk.keep_audio("c", MS * 8)
    assert talk.audio("a") == MS * 2
