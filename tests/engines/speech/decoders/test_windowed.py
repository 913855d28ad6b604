"""Windows by the step number alone: lengths, chunkings, leads, seams."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.engines.chunks import Samples
from antiphon.engines.speech.decoders.decoder import (
    Codes,
    DecoderCard,
    GivesInWindows,
)
from antiphon.engines.speech.decoders.windowed import Schedule, WindowedDecoder, WindowedState

HOP = 8
SMALL = Schedule(hops=(2, 3, 4), behind=5, ahead=2, fade=12)


def mean_of_all(codes: torch.Tensor) -> torch.Tensor:
    """A sound that depends on the whole: each step's code, plus the mean of the window's."""
    values = codes[:, 0].double()
    return (values + 10 * values.mean(1, keepdim=True)).repeat_interleave(HOP, 1).float()


def decoder_of(schedule: Schedule = SMALL, batch: int = 8) -> WindowedDecoder:
    card = DecoderCard(
        name="neucodec",
        sample_rate=400,
        hop=HOP,
        sizes=(100,),
        mode="windowed",
        lookahead=schedule.lookahead * HOP,
    )
    return WindowedDecoder(card, schedule, mean_of_all, torch.device("cpu"), batch)


def some_codes(steps: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, 100, (1, steps)).astype(np.int32)


def stream(
    decoder: WindowedDecoder, codes: Codes, sizes: list[int], lead: Codes | None = None
) -> Samples:
    """Push by the sizes and the rest at the end, for which there may be no step left."""
    state, made, at = decoder.open(lead=lead), list[Samples](), 0
    for size in sizes:
        if at + size > codes.shape[1]:
            break
        made += decoder.push([state], [codes[:, at : at + size]], [False])
        at += size
    made += decoder.push([state], [codes[:, at:]], [True])
    return np.concatenate(made)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.integers(1, 40),
    sizes=st.lists(st.integers(1, 9), max_size=40),
    lead=st.integers(0, 9),
)
def test_every_chunking_gives_the_same_bytes(steps: int, sizes: list[int], lead: int) -> None:
    decoder, codes = decoder_of(), some_codes(steps)
    before = some_codes(lead, seed=1)
    whole = stream(decoder, codes, [], before)
    assert whole.shape == (steps * HOP,)
    assert stream(decoder, codes, sizes, before).tobytes() == whole.tobytes()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_what_ends_before_the_first_window_is_a_whole_decode(steps: int) -> None:
    decoder, codes = decoder_of(), some_codes(steps)
    assert np.array_equal(stream(decoder, codes, [1] * steps), decoder.decode(codes))


def test_the_sound_comes_when_the_windows_say() -> None:
    decoder, codes = decoder_of(), some_codes(40)
    state, given = decoder.open(), 0
    seen: list[int] = []
    for step in range(39):
        (sound,) = decoder.push([state], [codes[:, step : step + 1]], [False])
        given += sound.size // HOP
        assert given == decoder.given(step + 1)
        assert (step + 1 - given) * HOP <= decoder.card.lookahead
        seen.append(step + 1 - given)
    assert max(seen) * HOP == decoder.card.lookahead
    assert decoder.given(3) == 0
    assert [decoder.given(steps) for steps in (4, 7, 11, 15)] == [2, 5, 9, 13]


def test_a_lead_is_heard_but_gives_no_sound() -> None:
    decoder, codes, lead = decoder_of(), some_codes(3), some_codes(4, seed=1)
    alone, led = stream(decoder, codes, []), stream(decoder, codes, [], lead)
    after = decoder.decode(np.concatenate([lead, codes], axis=1))[lead.shape[1] * HOP :]
    fade = SMALL.fade
    assert led.shape == alone.shape
    assert np.array_equal(led[fade:], after[fade:])
    # What sounds on of the lead is no part of the stream.
    assert abs(led[0]) < 0.01 * abs(after[0])
    assert not np.array_equal(alone, led)


def test_of_a_long_lead_the_look_back_is_used() -> None:
    decoder, codes, lead = decoder_of(), some_codes(30), some_codes(50, seed=1)
    assert np.array_equal(
        stream(decoder, codes, [], lead), stream(decoder, codes, [], lead[:, 45:])
    )
    assert not np.array_equal(
        stream(decoder, codes, [], lead), stream(decoder, codes, [], lead[:, 46:])
    )


def test_windows_meet_without_a_jump() -> None:
    codes = np.full((1, 40), 50, np.int32)
    codes[:, 20:] = 0
    jumps: dict[int, float] = {}
    for fade in (0, SMALL.fade):
        schedule = Schedule(hops=SMALL.hops, behind=5, ahead=2, fade=fade)
        sound = stream(decoder_of(schedule), codes, [])
        jumps[fade] = max(
            abs(float(sound[at] - sound[at - 1]))
            for at in (schedule.window(number).begin * HOP for number in range(1, 10))
        )
    assert jumps[0] > 50
    assert jumps[SMALL.fade] < 0.1 * jumps[0]


def test_streams_share_a_push_whatever_their_position() -> None:
    decoder = decoder_of(batch=2)
    all_codes = [some_codes(30, seed) for seed in range(5)]
    alone = [stream(decoder, codes, []) for codes in all_codes]
    states = [decoder.open() for _ in all_codes]
    made: list[list[Samples]] = [[] for _ in states]
    # The later ones begin further on, so that windows of other numbers meet.
    for late, (state, codes) in enumerate(zip(states, all_codes, strict=True)):
        if late:
            made[late] += decoder.push([state], [codes[:, : 2 * late]], [False])
    for step in range(30):
        now = [late for late in range(5) if 2 * late + step < 30]
        new = [all_codes[late][:, 2 * late + step : 2 * late + step + 1] for late in now]
        last = [2 * late + step == 29 for late in now]
        for late, sound in zip(
            now, decoder.push([states[late] for late in now], new, last), strict=True
        ):
            made[late].append(sound)
    for each, whole in zip(made, alone, strict=True):
        assert np.allclose(np.concatenate(each), whole, rtol=1e-6)


def test_what_cannot_be_pushed_changes_nothing() -> None:
    decoder, codes = decoder_of(), some_codes(20)
    state, other = decoder.open(), decoder.open()
    first = decoder.push([state], [codes[:, :5]], [False])[0]
    bad = codes[:, 5:].copy()
    bad[0, 3] = 100
    for states, pushed, last in (
        ([state], [bad], [True]),
        ([state], [-codes[:, 5:] - 1], [True]),
        ([state], [codes[0, 5:]], [True]),
        ([state], [codes[:, :0]], [False]),
        ([state, other], [codes[:, 5:], codes], [True, True]),
        ([state, state], [codes[:, 5:], codes[:, 5:]], [True, True]),
        ([state, other], [codes[:, 5:]], [True]),
    ):
        with pytest.raises(ValueError, match="expected"):
            decoder.push(states, pushed, last)
    rest = decoder.push([state], [codes[:, 5:]], [True])[0]
    assert np.array_equal(np.concatenate([first, rest]), stream(decoder, codes, []))
    with pytest.raises(ValueError, match="ended"):
        decoder.push([state], [codes], [True])
    with pytest.raises(ValueError, match="expected codes"):
        decoder.open(lead=np.full((1, 2), 100, np.int32))


def test_a_long_stream_keeps_only_what_it_needs() -> None:
    decoder, codes = decoder_of(), some_codes(400)
    state = decoder.open()
    assert isinstance(state, WindowedState)
    kept = 0
    for at in range(0, 400, 4):
        decoder.push([state], [codes[:, at : at + 4]], [False])
        kept = max(kept, state.codes.shape[1])
    assert kept <= SMALL.behind + max(SMALL.hops) + SMALL.ahead + 4


def test_the_schedule_of_the_codecs_plays_on_where_steps_come_at_1_3_times_their_speed() -> None:
    schedule = Schedule()
    begins = [schedule.window(number).begin for number in range(40)]
    assert all(a < b for a, b in itertools.pairwise(begins))
    assert schedule.first == 16
    for number in range(1, 39):
        window = schedule.window(number)
        # Played since the first window was there, when this one is.
        played = (window.need - schedule.first) / 1.3
        assert played <= window.begin
    assert schedule.lookahead == 55


def test_a_fade_beyond_the_look_ahead_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 16"):
        decoder_of(Schedule(hops=(2,), behind=5, ahead=2, fade=17))


def test_it_says_that_it_gives_in_windows() -> None:
    assert isinstance(decoder_of(), GivesInWindows)
