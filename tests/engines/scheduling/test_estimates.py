import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.scheduling.estimates import Estimate, Line

NOISE = (0.93, 1.05, 0.98, 1.07, 0.96, 1.02, 0.99)


def settled(mean: float, count: int = 40) -> Estimate:
    estimate = Estimate()
    for index in range(count):
        estimate.add(mean * NOISE[index % len(NOISE)])
    return estimate


def line(*, fixed: float = 9.0, each: float = 0.6, first: tuple[float, float] = (0, 0)) -> Line:
    made = Line(*first)
    for index in range(40):
        size = (4, 8, 16, 32)[index % 4]
        made.add(size, (fixed + size * each) * NOISE[index % len(NOISE)])
    return made


def test_an_estimate_begins_with_its_first_sample_and_settles_on_the_mean() -> None:
    estimate = Estimate()
    assert (estimate.mean, estimate.deviation, estimate.portion) == (0, 0, 1)
    estimate.add(40)
    assert estimate.mean == 40
    assert settled(40).mean == pytest.approx(40, rel=0.02)
    assert settled(40).deviation == pytest.approx(40 * statistics.pstdev(NOISE), rel=0.4)


@given(mean=st.floats(5, 200), stall=st.floats(2, 100))
def test_one_stall_hardly_moves_an_estimate(mean: float, stall: float) -> None:
    estimate = settled(mean)
    estimate.add(mean * (1 + stall))
    assert mean * 0.95 < estimate.mean < mean * 1.05
    assert estimate.deviation < mean * 0.2


@given(mean=st.floats(5, 200), times=st.sampled_from([0.1, 0.3, 0.6, 1.6, 3.0, 10.0]))
def test_a_lasting_change_is_followed_within_a_handful_of_samples(
    mean: float, times: float
) -> None:
    estimate = settled(mean)
    for index in range(6):
        estimate.add(mean * times * NOISE[index])
    assert estimate.mean == pytest.approx(mean * times, rel=0.2, abs=0.08 * mean)


def test_a_slow_first_sample_is_dropped_once_quick_ones_come() -> None:
    estimate = Estimate()
    for ms in (500, 40, 41, 39):
        estimate.add(ms)
    assert estimate.mean == pytest.approx(40, rel=0.2)
    assert estimate.deviation < 12


def test_the_mean_is_of_units_however_they_are_portioned() -> None:
    single, bursts = Estimate(), Estimate()
    for _ in range(50):
        single.add(4)
        bursts.add(400, 100)
    assert single.mean == pytest.approx(bursts.mean)
    assert single.portion == pytest.approx(1)
    assert bursts.portion == pytest.approx(100)


def test_units_that_come_with_the_last_portion_make_it_larger() -> None:
    estimate = Estimate()
    estimate.extend(3)
    assert estimate.mean == 0
    for _ in range(40):
        estimate.add(160)
        estimate.extend(1)
    assert estimate.mean == pytest.approx(80, rel=0.02)
    assert estimate.portion == pytest.approx(2)


@pytest.mark.parametrize("first", [(0.0, 0.0), (9.0, 0.6), (50.0, 5.0), (1.0, 0.1)])
def test_a_line_finds_both_parts_from_whatever_was_believed(first: tuple[float, float]) -> None:
    made = line(first=first)
    for size in (4, 8, 16, 32):
        assert made.at(size) == pytest.approx(9 + 0.6 * size, rel=0.1)
    assert made.spread < 0.1


def test_sizes_never_seen_stay_near_what_was_believed() -> None:
    made = Line(9.0, 0.6)
    for index in range(100):
        made.add(8, 13.8 * NOISE[index % len(NOISE)])
    assert made.at(8) == pytest.approx(13.8, rel=0.1)
    assert made.at(32) == pytest.approx(28.2, rel=0.1)


def test_without_a_belief_larger_sizes_are_taken_for_dear() -> None:
    made = Line()
    made.add(4, 11.4)
    assert made.at(4) == pytest.approx(11.4, rel=0.01)
    assert made.at(32) > 9 + 0.6 * 32


@given(
    st.lists(st.tuples(st.integers(1, 64), st.floats(0, 1e6)), max_size=60),
    st.floats(0, 100),
    st.floats(0, 10),
)
def test_no_part_is_ever_negative(
    samples: list[tuple[int, float]], fixed: float, each: float
) -> None:
    made = Line(fixed, each)
    for size, cost in samples:
        made.add(size, cost)
        assert made.fixed >= 0
        assert made.each >= 0
        assert made.spread >= 0


def test_a_line_that_falls_is_taken_for_flat_and_one_below_zero_for_proportional() -> None:
    falling, steep = Line(), Line()
    for _ in range(30):
        for size in (4, 8):
            falling.add(size, 22 - size)
            steep.add(size, 4 * size - 12)
    assert falling.each == 0
    assert falling.fixed == pytest.approx(16, abs=2)
    assert steep.fixed == 0
    assert steep.at(8) == pytest.approx(20, rel=0.3)


def test_one_slow_decode_hardly_moves_a_line() -> None:
    made = line()
    made.add(16, 2000)
    for size in (4, 8, 16, 32):
        assert made.at(size) == pytest.approx(9 + 0.6 * size, rel=0.15)


def test_load_that_lasts_scales_all_sizes_though_only_one_is_seen() -> None:
    made = line()
    for _ in range(5):
        made.add(32, 3 * 28.2)
    assert made.at(32) == pytest.approx(3 * 28.2, rel=0.1)
    assert made.at(4) == pytest.approx(3 * 11.4, rel=0.35)


def test_a_slow_first_decode_is_dropped_once_a_quick_one_comes() -> None:
    made = Line()
    made.add(4, 300)
    made.add(4, 12)
    assert made.at(4) == pytest.approx(12, rel=0.3)
