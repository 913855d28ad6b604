"""Ephemeral secrets: what they open, for how long, and how many there may be."""

from __future__ import annotations

import pytest

from antiphon.realtime.secrets import Opened, SecretRefused, SecretStore, StoreFull
from antiphon.sessions.settings import SessionKind, SettingsPatch

BRIEF = Opened(SessionKind.REALTIME, SettingsPatch(instructions="Be brief."))


class Clock:
    """Unix time that a test tells."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.5

    def __call__(self) -> float:
        return self.now


def test_a_secret_opens_sessions_again_and_again_until_it_expires() -> None:
    clock = Clock()
    store = SecretStore(clock)
    issued = store.issue(BRIEF, size=20, seconds=600)
    assert issued.value.startswith("ek_")
    assert issued.expires_at == 1_800_000_600
    for now in (1_800_000_000.5, 1_800_000_300, 1_800_000_599.9):
        clock.now = now
        assert store.open(issued.value) == BRIEF
    clock.now = 1_800_000_600
    with pytest.raises(SecretRefused, match="has expired: ask for a new one"):
        store.open(issued.value)


def test_a_secret_fits_into_a_subprotocol() -> None:
    issued = SecretStore().issue(BRIEF, size=100_000, seconds=10)
    assert len(issued.value) < 128
    assert issued.value.replace("_", "").replace("-", "").isalnum()


def test_every_secret_is_another() -> None:
    store = SecretStore()
    assert len({store.issue(BRIEF, size=2, seconds=10).value for _ in range(100)}) == 100


@pytest.mark.parametrize("value", ["", "ek_", "ek_!", "ek_test", "ek_" + "A" * 75, "sk-1", "ék_"])
def test_what_is_no_secret_of_ours(value: str) -> None:
    assert SecretStore().open(value) is None


def test_a_secret_of_another_process_is_none() -> None:
    assert SecretStore().open(SecretStore().issue(BRIEF, size=2, seconds=10).value) is None


def test_a_secret_that_was_changed_is_none() -> None:
    store = SecretStore()
    value = store.issue(BRIEF, size=2, seconds=10).value
    for at in range(3, len(value)):
        for letter in "AB":
            changed = f"{value[:at]}{letter}{value[at + 1 :]}"
            # The last letter holds two bits that mean nothing.
            if changed[:-1] != value[:-1]:
                assert store.open(changed) is None


@pytest.mark.parametrize(("bound", "size"), [({"max_secrets": 2}, 1), ({"max_bytes": 20}, 10)])
def test_secrets_are_bounded_until_some_expire(bound: dict[str, int], size: int) -> None:
    clock = Clock()
    store = SecretStore(clock, **bound)
    store.issue(BRIEF, size=size, seconds=100)
    kept = store.issue(BRIEF, size=size, seconds=200)
    with pytest.raises(StoreFull) as full:
        store.issue(BRIEF, size=size, seconds=10)
    assert full.value.retry_after_s == 100
    clock.now += 100
    store.issue(BRIEF, size=size, seconds=10)
    assert store.open(kept.value) == BRIEF


def test_what_has_expired_is_let_go_in_time() -> None:
    clock = Clock()
    store = SecretStore(clock)
    for _ in range(100):
        store.issue(BRIEF, size=1000, seconds=10)
    clock.now += 100
    store.issue(BRIEF, size=1, seconds=10)
    assert store.kept == 1


def test_a_clock_set_back_opens_nothing_that_was_let_go() -> None:
    clock = Clock()
    store = SecretStore(clock)
    value = store.issue(BRIEF, size=1, seconds=10).value
    clock.now += 100
    store.issue(BRIEF, size=1, seconds=10)
    clock.now -= 100
    with pytest.raises(SecretRefused):
        store.open(value)
