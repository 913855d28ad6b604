"""How long it is known what earlier answers said, and of how many."""

from __future__ import annotations

from antiphon.web import chat_earlier
from antiphon.web.chat_earlier import KEPT_SECONDS, MOST, MOST_CHARS, Earlier


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_what_was_said_is_known_until_it_expires() -> None:
    clock = Clock()
    earlier = Earlier(clock)
    assert earlier.recall("audio_1") is None
    assert earlier.keep("audio_1", "Hello.") == clock.now + KEPT_SECONDS
    clock.now += KEPT_SECONDS - 1
    assert earlier.recall("audio_1") == "Hello."
    clock.now += 1
    assert earlier.recall("audio_1") is None


def test_more_than_are_kept_push_out_the_oldest() -> None:
    earlier = Earlier(Clock())
    for number in range(MOST + 2):
        earlier.keep(f"audio_{number}", "Hello.")
    known = [number for number in range(MOST + 2) if earlier.recall(f"audio_{number}")]
    assert known == list(range(2, MOST + 2))


def test_so_do_long_ones() -> None:
    earlier = Earlier(Clock())
    third = "a" * (MOST_CHARS // 3)
    for number in range(4):
        earlier.keep(f"audio_{number}", third)
    assert [bool(earlier.recall(f"audio_{number}")) for number in range(4)] == [False, *[True] * 3]
    # Of one that alone is too long nothing else is kept.
    earlier.keep("audio_4", "a" * (MOST_CHARS + 1))
    assert earlier.recall("audio_3") is None


def test_ids_are_all_different() -> None:
    assert len({chat_earlier.Earlier.new_id() for _ in range(100)}) == 100
