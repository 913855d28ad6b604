"""Identifiers that a replay makes again."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.sessions.ids import LENGTH, IdSource


@settings(deadline=None)
@given(st.text())
def test_the_same_seed_gives_the_same_ids_each_once(seed: str) -> None:
    first, second = IdSource(seed), IdSource(seed)
    ids = [first.next("item") for _ in range(50)]
    assert ids == [second.next("item") for _ in range(50)]
    assert len(set(ids)) == 50


def test_ids_look_as_clients_expect() -> None:
    assert re.fullmatch(rf"item_[0-9A-Za-z]{{{LENGTH}}}", IdSource("seed").next("item"))


def test_another_seed_gives_other_ids() -> None:
    assert IdSource("a").next("item") != IdSource("b").next("item")
