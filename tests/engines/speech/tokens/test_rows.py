"""Rules applied to logits: frames, the short memory of a penalty, scripts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from antiphon.engines.speech.tokens.rows import MASKS, Row, Ruler
from antiphon.engines.speech.tokens.rules import Rules, Script

SIZE = 40
FRAMES = ((20, 5), (25, 5), (30, 5))
STOP, ASK, WORD = 1, 2, 3


def rules(**members: Any) -> Rules:
    named: dict[str, Any] = {"ends": (STOP,)}
    named |= members
    return Rules(**named)


def allowed(ruler: Ruler, row: int = 0, rows: int = 1) -> set[int]:
    """What may be said by one of the requests of a batch."""
    logits = torch.zeros(rows, SIZE)
    ruler.apply(logits)
    return {n for n in range(SIZE) if logits[row, n] > float("-inf")}


def ruler_of(*rows: Row) -> Ruler:
    ruler = Ruler()
    for number, row in enumerate(rows):
        ruler.put(number, row)
    return ruler


def block(slot: int) -> set[int]:
    base, size = FRAMES[slot]
    return set(range(base, base + size))


@pytest.mark.parametrize("markup", [True, False])
def test_a_frame_is_said_in_its_order_and_ends_between_two(markup: bool) -> None:
    said: list[int] = []
    ruler = ruler_of(Row(rules(frames=FRAMES, markup=markup), [WORD], said))
    words: set[int] = set(range(20)) | set(range(35, SIZE))
    between = {STOP} | block(0) | (words if markup else block(0))
    expected = [between, block(1), block(2), between]
    for step, token in enumerate([20, 29, 30, 24]):
        assert allowed(ruler) == expected[step]
        said.append(token)


def test_words_between_frames_leave_the_place_as_it_is() -> None:
    said = [WORD, 20, 25, 30, WORD, WORD]
    ruler = ruler_of(Row(rules(frames=FRAMES), None, said))
    assert block(0) < allowed(ruler)
    said += [24]
    assert allowed(ruler) == block(1)


def test_a_single_slot_is_never_within_a_frame() -> None:
    said = [20, 21]
    ruler = ruler_of(Row(rules(frames=FRAMES[:1], markup=False), None, said))
    assert allowed(ruler) == block(0) | {STOP}


def test_a_token_that_is_not_known_yet_is_waited_for() -> None:
    said = [20, -1]
    ruler = ruler_of(Row(rules(frames=FRAMES), None, said))
    assert allowed(ruler) == block(1)
    said[-1] = 25
    assert allowed(ruler) == block(2)


def test_a_request_that_comes_back_is_read_from_its_beginning() -> None:
    said = [20, 25]
    assert allowed(ruler_of(Row(rules(frames=FRAMES), None, said))) == block(2)


@given(st.lists(st.integers(0, 2), max_size=12), st.randoms(use_true_random=False))
def test_no_frame_is_ever_broken(kinds: list[int], random: Any) -> None:
    """Requests with rules of three kinds, of which some go and are moved about."""
    kind_rules = (rules(frames=FRAMES), rules(frames=FRAMES, markup=False), rules(frames=((5, 9),)))
    spoken: dict[int, list[int]] = {}
    ruler = Ruler()
    for number, kind in enumerate(kinds):
        spoken[number] = []
        ruler.put(number, Row(kind_rules[kind], None, spoken[number]))
    owners = dict(enumerate(kinds))
    for step in range(12):
        if len(owners) > 1 and step % 3 == 2:
            last, hole = max(owners), random.choice(sorted(owners))
            swap = random.random() < 0.5 and hole != last
            if swap:
                owners[hole], owners[last] = owners[last], owners[hole]
                spoken[hole], spoken[last] = spoken[last], spoken[hole]
                ruler.move(last, hole, swap=True)
            else:
                ruler.put(hole, None)
                owners[hole], spoken[hole] = owners[last], spoken[last]
                if hole != last:
                    ruler.move(last, hole, swap=False)
                del owners[last]
                del spoken[last]
        logits = torch.rand(len(kinds), SIZE)
        ruler.apply(logits)
        for number in owners:
            spoken[number].append(int(logits[number].argmax()))
    for number, kind in owners.items():
        frames = kind_rules[kind].frames
        codes = [t for t in spoken[number] if any(b <= t < b + n for b, n in frames)]
        for place, token in enumerate(codes):
            base, size = frames[place % len(frames)]
            assert base <= token < base + size
        if kind_rules[kind].markup is False:
            assert set(spoken[number]) - set(codes) <= {STOP}


def punished(row: Row, logits: Tensor) -> list[float]:
    ruler_of(row).apply(logits)
    return [float(value) for value in logits[0]]


def test_what_was_said_lately_is_punished_once_and_nothing_else() -> None:
    row = Row(rules(penalty=2.0, window=3), [9, 5, 6], [7, 7])
    logits = torch.full((1, SIZE), 4.0)
    logits[0, 7] = -4.0
    expected = [4.0] * SIZE
    expected[6], expected[7] = 2.0, -8.0
    assert punished(row, logits) == expected


@pytest.mark.parametrize(
    ("prompt", "said", "window", "recent"),
    [
        ([1, 2, 3], [], 2, [2, 3]),
        ([1], [4, 5], 9, [1, 4, 5]),
        (None, [4, 5, 6], 2, [5, 6]),
        ([1, 2, 3], [4, 5, 6], 3, [4, 5, 6]),
        (None, [], 4, []),
    ],
)
def test_the_memory_is_of_the_last_tokens(
    prompt: list[int] | None, said: list[int], window: int, recent: list[int]
) -> None:
    row = Row(rules(penalty=2.0, window=window), prompt, said)
    row.advance()
    assert row.recent() == recent


def test_memories_of_different_lengths_share_a_batch() -> None:
    one = Row(rules(penalty=2.0, window=4), [], [5])
    free = Row(rules(frames=FRAMES), [], [])
    other = Row(rules(penalty=4.0, window=4), [], [6, 7, 8])
    logits = torch.full((3, SIZE), 4.0)
    ruler_of(one, free, other).apply(logits)
    assert [float(logits[0, n]) for n in (5, 6)] == [2.0, 4.0]
    assert [float(logits[2, n]) for n in (5, 6, 7, 8)] == [4.0, 1.0, 1.0, 1.0]


def test_a_script_is_told_when_it_is_asked_for_and_ends_it() -> None:
    script = Script(ask=ASK, each=2, tokens=(ASK, 11, 12, 13))
    said: list[int] = []
    ruler = ruler_of(Row(rules(script=script), [ASK], said))
    everything = set(range(SIZE))
    for token in [20, ASK, ASK, 11, 20, ASK, 12, 13, ASK, STOP]:
        options = allowed(ruler)
        forced = len(said) in (2, 3, 6, 7, 9)
        assert options == ({token} if forced else everything)
        said.append(token)


def test_a_script_goes_above_a_frame() -> None:
    script = Script(ask=ASK, each=1, tokens=(11,))
    said = [ASK]
    ruler = ruler_of(Row(rules(frames=FRAMES, markup=False, script=script), None, said))
    assert allowed(ruler) == {11}
    said.append(11)
    assert allowed(ruler) == block(0) | {STOP}


def test_masks_do_not_pile_up() -> None:
    ruler = Ruler()
    for count in range(3 * MASKS):
        ruler.put(0, Row(rules(frames=((count, 2),), markup=False), None, []))
        assert allowed(ruler) == {count, count + 1, STOP}
    assert len(ruler._masks) == MASKS  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    "asked",
    [
        {"penalty": 0.0},
        {"window": -1},
        {"script": {"ask": 1, "each": 2, "tokens": [1, 2, 3]}, "ends": [1]},
        {"script": {"ask": 1, "each": 1, "tokens": [1]}},
        {"frame": []},
    ],
)
def test_rules_that_cannot_be_kept_are_refused(asked: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(asked, Rules)


def test_rules_travel_whole() -> None:
    asked = rules(frames=FRAMES, window=3, script=Script(ask=1, each=1, tokens=(1, 2)))
    assert msgspec.convert(msgspec.to_builtins(asked), Rules) == asked
    assert not asked.idle
    assert rules(penalty=1.3).idle
