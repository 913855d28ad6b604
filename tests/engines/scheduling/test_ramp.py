import math
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.engines.scheduling.costs import Costs
from antiphon.engines.scheduling.ramp import ChunkRule, Fixed, Ramp, RampRules, Step

from .reply_play import Heard, play

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 25)
CASCADE = (4, 8, 16, 32)
FRAME = 80.0


def warm(
    *, pace: float = 40.0, jitter: float = 0.0, fixed: float = 15.0, each: float = 1.0,
    wait: float = 0.0, burst: int = 1,
) -> Costs:  # fmt: skip
    costs = Costs(fixed_ms=fixed, frame_ms=each)
    for index in range(16):
        costs.arrived(burst, burst * pace * (1 + (jitter if index % 2 else -jitter)))
        costs.waited(wait)
        costs.decoded(4 + index % 8, fixed + each * (4 + index % 8))
    return costs


def ramp(
    costs: Costs, sizes: tuple[int, ...] = SIZES, frame: float = FRAME, *, smooth: bool = True
) -> Ramp:
    return Ramp(RampRules(frame_ms=frame, sizes=sizes, smooth=smooth), costs)


def reply(
    pace: float, *, frames: int = 150, frame: float = FRAME, sizes: tuple[int, ...] = SIZES,
    fixed: float = 15.0, each: float = 1.0, costs: Costs | None = None, eager: bool = False,
) -> Heard:  # fmt: skip
    costs = costs or Costs(fixed_ms=fixed, frame_ms=each)
    rule = Ramp(RampRules(frame_ms=frame, sizes=sizes, smooth=not eager), costs)
    ready = [index * pace for index in range(frames)]
    return play(
        rule, costs, ready, frame_ms=frame, decode_ms=lambda n: fixed + each * n,
        expected_ms=frames * frame,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("frame_ms", "sizes", "wrong"),
    [
        (0.0, (4,), "frame_ms"),
        (math.nan, (4,), "frame_ms"),
        (80.0, (), "sizes"),
        (80.0, (4, 4), "sizes"),
        (80.0, (8, 4), "sizes"),
        (80.0, (0, 4), "sizes"),
    ],
)
def test_rules_that_no_chunk_could_keep_are_refused(
    frame_ms: float, sizes: tuple[int, ...], wrong: str
) -> None:
    with pytest.raises(ValueError, match=wrong):
        RampRules(frame_ms=frame_ms, sizes=sizes)


# The next chunk.


def later(costs: Costs, have: int, buffer_ms: float, *, complete: bool = False) -> Step:
    return ramp(costs).next(have=have, complete=complete, buffer_ms=buffer_ms)


def test_a_rich_buffer_takes_all_that_is_there() -> None:
    assert later(warm(), 25, 4000) == Step(25)
    assert later(warm(), 60, 4000) == Step(25)


def test_a_poor_buffer_takes_no_more_than_it_pays_for() -> None:
    costs = warm(fixed=15, each=4)
    margin = RampRules(frame_ms=FRAME, sizes=SIZES).margin_ms
    assert later(costs, 25, margin + 15 + 4 * 9).frames == 8
    assert later(costs, 25, 0).frames == 1


def test_it_waits_for_more_frames_where_the_buffer_pays_for_that_and_no_longer() -> None:
    costs = warm(pace=40)
    step = later(costs, 8, 2000)
    assert step.frames == 0
    assert step.again_ms is not None
    assert 0 < step.again_ms < 2000
    # By then nothing came: what is there goes.
    assert later(costs, 8, 2000 - step.again_ms).frames == 8


def test_chunks_shrink_again_when_the_buffer_does() -> None:
    costs = warm(pace=40, each=4)
    assert later(costs, 25, 3000).frames == 25
    assert later(costs, 25, 90).frames < 12
    assert later(costs, 25, 3000).frames == 25


def test_waiting_in_the_queue_of_the_decoder_counts() -> None:
    quick, queued = warm(each=4), warm(each=4, wait=60)
    assert later(queued, 25, 150).frames < later(quick, 25, 150).frames


def test_a_dry_listener_gets_no_chunk_that_takes_longer_to_make_than_to_hear() -> None:
    costs = warm(fixed=40, each=2)
    dear = ramp(costs, sizes=(1, 2, 4, 8), frame=12.5)
    assert dear.next(have=8, complete=False, buffer_ms=0).frames >= 4
    # Unless there is no more: silence is not made longer by waiting.
    assert dear.next(have=2, complete=False, buffer_ms=0).frames == 2


def test_the_next_of_frames_that_come_in_bursts_is_not_counted_on_soon() -> None:
    single, bursts = warm(pace=4), warm(pace=4, burst=100)
    assert ramp(single, CASCADE, 11.6).next(have=30, complete=False, buffer_ms=300).frames == 0
    assert ramp(bursts, CASCADE, 11.6).next(have=30, complete=False, buffer_ms=300).frames == 16


def test_the_end_leaves_no_crumb() -> None:
    rule = ramp(warm(pace=4, fixed=9, each=0.6), CASCADE, 11.6)

    def sizes(have: int, buffer_ms: float) -> list[int]:
        out: list[int] = []
        while have:
            out.append(rule.next(have=have, complete=True, buffer_ms=buffer_ms).frames)
            have -= out[-1]
        return out

    assert sizes(30, 1000) == [30]
    assert sizes(33, 1000) == [16, 17]
    assert sizes(5, 0) == [5]
    assert sizes(3, 0) == [3]


def test_nothing_is_made_of_nothing() -> None:
    assert ramp(warm()).next(have=0, complete=True, buffer_ms=0) == Step(0)
    assert ramp(warm(), CASCADE).next(have=3, complete=False, buffer_ms=0) == Step(0)


# The first chunk.


def first(costs: Costs, have: int) -> Step:
    return ramp(costs, CASCADE, 11.6).next(have=have, complete=True, buffer_ms=None)


def test_a_first_chunk_of_a_whole_clause_is_small_when_idle_and_larger_under_load() -> None:
    idle = first(warm(pace=4, fixed=9, each=0.6, burst=100), 130)
    loaded = first(warm(pace=4, fixed=9, each=0.6, burst=100, wait=80), 130)
    assert 4 <= idle.frames <= 8
    assert loaded.frames > idle.frames
    assert loaded.frames * 11.6 >= 80 + 11.4


def test_a_short_clause_goes_whole() -> None:
    assert first(warm(pace=4), 3) == Step(3)


def test_a_larger_first_chunk_is_taken_where_it_delays_nothing() -> None:
    costs = warm(pace=72, fixed=15, each=0.1)
    step = ramp(costs).next(have=3, complete=False, buffer_ms=None, waited_ms=144)
    assert step.frames == 3


@pytest.mark.parametrize("pace", [0.1, 0.3, 0.5, 0.75, 0.9])
def test_an_even_pace_starts_within_two_frames_of_the_least_and_has_no_gap(pace: float) -> None:
    heard = reply(pace * FRAME)
    assert heard.silent_ms == 0
    assert heard.first_ms <= 2 * pace * FRAME + 15 + 3


def test_slower_than_real_time_smooth_waits_just_long_enough() -> None:
    pace, frames = 1.1 * FRAME, 100
    heard = reply(pace, frames=frames, costs=warm(pace=pace))
    assert heard.silent_ms == 0
    behind_ms = frames * (pace - FRAME)
    assert behind_ms * 0.8 < heard.first_ms < behind_ms + 3 * FRAME + 200


def test_smooth_waits_no_longer_than_it_may() -> None:
    heard = reply(1.5 * FRAME, frames=150, costs=warm(pace=1.5 * FRAME))
    assert 1900 < heard.first_ms < 2000 + 40
    assert heard.silent_ms > 0


def test_eager_starts_at_once_and_stutters() -> None:
    pace = 1.1 * FRAME
    heard = reply(pace, frames=100, costs=warm(pace=pace), eager=True)
    assert heard.first_ms < 2 * pace
    assert heard.silent_ms > 0


def test_without_an_expected_length_that_of_others_is_waited_for() -> None:
    short, long = warm(pace=1.2 * FRAME), warm(pace=1.2 * FRAME)
    for _ in range(20):
        short.ended(1000)
        long.ended(8000)

    def step(costs: Costs) -> Step:
        return ramp(costs).next(have=5, complete=False, buffer_ms=None, waited_ms=400)

    assert step(short).frames > 0
    assert step(long) == Step(0, 1600)


def test_clauses_behind_this_one_count_as_in_hand() -> None:
    costs = warm(pace=1.2 * FRAME)

    def frames(behind: int) -> int:
        return (
            ramp(costs)
            .next(have=5, complete=True, buffer_ms=None, expected_ms=4000, behind=behind)
            .frames
        )

    assert frames(0) == 0
    assert frames(45) > 0


def test_a_stall_ahead_of_the_first_chunk_is_waited_for_and_not_for_ever() -> None:
    costs = warm(pace=60)
    assert ramp(costs).next(have=1, complete=False, buffer_ms=None) == Step(0, 2000.0)
    step = ramp(costs).next(have=1, complete=False, buffer_ms=None, waited_ms=2000)
    assert step == Step(1)


# What holds whatever happens.

COSTS = st.builds(
    warm,
    pace=st.floats(1, 120), jitter=st.floats(0, 0.9), fixed=st.floats(0, 60),
    each=st.floats(0, 6), wait=st.floats(0, 200), burst=st.integers(1, 60),
)  # fmt: skip


@given(COSTS, st.integers(1, 80), st.booleans(), st.floats(0, 5000), st.floats(0, 5000))
def test_a_richer_buffer_never_gives_a_smaller_chunk(
    costs: Costs, have: int, complete: bool, one: float, other: float
) -> None:
    poor = later(costs, have, min(one, other), complete=complete).frames
    rich = later(costs, have, max(one, other), complete=complete).frames
    assert rich >= poor or rich == 0


@given(COSTS, st.integers(1, 80), st.floats(0, 5000) | st.none() | st.just(math.inf))
def test_sizes_are_allowed_ones_and_a_wait_is_no_busy_one(
    costs: Costs, have: int, buffer_ms: float | None
) -> None:
    step = ramp(costs).next(have=have, complete=False, buffer_ms=buffer_ms)
    assert step.frames in (0, *SIZES)
    assert step.frames <= have
    assert step.again_ms is None or (step.frames == 0 and 1 <= step.again_ms < math.inf)


@given(COSTS, st.integers(1, 80), st.floats(0, 5000) | st.none())
def test_what_is_complete_is_never_waited_on(
    costs: Costs, have: int, buffer_ms: float | None
) -> None:
    step = ramp(costs).next(have=have, complete=True, buffer_ms=buffer_ms)
    assert 1 <= step.frames <= min(have, SIZES[-1])
    assert step.frames in SIZES or step.frames == have


@settings(deadline=None, max_examples=50)
@given(
    st.sampled_from([12.5, 20.0, 46.0, 80.0]),
    st.floats(0.1, 0.9),
    st.lists(st.floats(0.8, 1.25), min_size=8, max_size=40),
    st.floats(0, 0.3),
)
def test_no_gap_at_a_pace_below_real_time_with_bounded_jitter(
    frame: float, ratio: float, jitter: list[float], decode: float
) -> None:
    sizes = tuple(dict.fromkeys(max(1, round(ms / frame)) for ms in (50, 80, 160, 320, 640, 1280)))
    gaps = [ratio * frame * each for each in jitter] * 6
    gaps = [gap * ratio * frame * len(gaps) / sum(gaps) for gap in gaps]
    costs = Costs(fixed_ms=8, frame_ms=decode * frame / 4)
    heard = play(
        ramp(costs, sizes, frame), costs, [0.0, *accumulate(gaps)],
        frame_ms=frame, decode_ms=lambda n: 8 + n * decode * frame / 4,
    )  # fmt: skip
    assert heard.silent_ms == 0
    assert sum(heard.sizes) == len(gaps) + 1


RULES = st.sampled_from(["smooth", "eager", "fixed"])


@settings(deadline=None, max_examples=50)
@given(
    RULES,
    st.lists(st.floats(0, 400), min_size=1, max_size=60),
    st.lists(st.floats(0, 300), min_size=1, max_size=8),
    st.lists(st.floats(0, 200), min_size=1, max_size=8),
)
def test_every_reply_ends_with_all_its_frames_whatever_the_costs(
    kind: str, gaps: list[float], decodes: list[float], waits: list[float]
) -> None:
    costs = Costs()
    rule: ChunkRule = Fixed((4, 8)) if kind == "fixed" else ramp(costs, smooth=kind == "smooth")
    heard = play(
        rule, costs, [0.0, *accumulate(gaps)], frame_ms=FRAME,
        decode_ms=lambda n: decodes[n % len(decodes)],
        wait_ms=lambda chunk: waits[chunk % len(waits)],
    )  # fmt: skip
    assert sum(heard.sizes) == len(gaps) + 1


def test_a_stall_costs_no_more_than_what_was_in_hand_could_not_bridge() -> None:
    # 40 frames at half of real time put 1.6 s ahead; a stall of a second is bridged.
    ready = [index * 40.0 + (1000.0 if index >= 40 else 0.0) for index in range(120)]
    costs = warm(pace=40)
    heard = play(ramp(costs), costs, ready, frame_ms=FRAME, decode_ms=lambda n: 15 + n)
    assert heard.silent_ms == 0


def test_a_decoder_that_becomes_busy_once_some_is_ahead_is_outlived() -> None:
    costs = warm(pace=40)
    heard = play(
        ramp(costs), costs, [index * 40.0 for index in range(150)], frame_ms=FRAME,
        decode_ms=lambda n: 15 + n, wait_ms=lambda chunk: 150.0 if chunk >= 8 else 0.0,
    )  # fmt: skip
    assert heard.silent_ms == 0


def test_large_chunks_are_reached_where_production_is_quick() -> None:
    heard = reply(0.2 * FRAME)
    assert max(heard.sizes) == SIZES[-1]
    assert len(heard.sizes) < 20


# The fixed rule.


def test_the_fixed_sizes_follow_each_other_and_the_last_repeats() -> None:
    rule = Fixed((4, 8, 16))
    taken = [rule.next(have=100, complete=False, buffer_ms=0).frames for _ in range(5)]
    assert taken == [4, 8, 16, 16, 16]


def test_a_fixed_size_is_waited_for_unless_no_more_comes() -> None:
    rule = Fixed((4, 8))
    assert rule.next(have=3, complete=False, buffer_ms=None) == Step(0)
    assert rule.next(have=3, complete=True, buffer_ms=None) == Step(3)
    assert rule.next(have=7, complete=False, buffer_ms=None) == Step(0)
    assert rule.next(have=0, complete=True, buffer_ms=None) == Step(0)


@pytest.mark.parametrize("sizes", [(), (0,), (4, -1)])
def test_impossible_fixed_sizes_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one size"):
        Fixed(sizes)
