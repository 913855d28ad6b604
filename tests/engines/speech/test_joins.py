import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.engines.speech.joins import CrossFade, Fade, fade_in, rise

SIZES = st.lists(st.integers(0, 60), max_size=12)
Samples = NDArray[np.float32]


def noise(count: int, seed: int = 0) -> Samples:
    return np.random.default_rng(seed).normal(0, 0.2, count).astype(np.float32)


def test_a_rise_and_its_fall_add_up_to_one() -> None:
    gains = rise(37)
    assert gains.dtype == np.float32
    assert np.all(np.diff(gains) > 0)
    assert 0 < gains[0] < gains[-1] < 1
    np.testing.assert_allclose(gains + gains[::-1], 1, atol=1e-6)
    assert len(rise(0)) == 0


@given(SIZES, st.integers(0, 80))
def test_however_it_is_fed_a_fade_changes_only_the_end_and_no_length(
    sizes: list[int], length: int
) -> None:
    whole = noise(sum(sizes))
    fade, out, at = Fade(length), [np.empty(0, np.float32)], 0
    for size in sizes:
        out.append(fade.feed(whole[at : at + size]))
        at += size
        # No more is held back than is needed.
        assert at - sum(map(len, out)) == min(at, length)
    got = np.concatenate([*out, fade.end()])
    faded = min(length, len(whole))
    kept = len(whole) - faded
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got[:kept], whole[:kept])
    np.testing.assert_allclose(got[kept:], whole[kept:] * rise(faded)[::-1], atol=1e-7)


def test_after_an_end_a_fade_begins_anew() -> None:
    fade = Fade(4)
    fade.feed(noise(10))
    fade.end()
    assert len(fade.end()) == 0
    assert len(fade.feed(noise(4))) == 0


def test_a_faded_end_comes_to_silence_without_a_step() -> None:
    fade = Fade(240)
    fade.feed(np.full(1000, 0.5, np.float32))
    end = fade.end()
    assert end[-1] < 0.001
    assert np.max(np.abs(np.diff(end))) < 0.004


def test_a_fade_in_changes_the_start_only() -> None:
    sound = noise(100)
    got = fade_in(sound, 30)
    np.testing.assert_array_equal(got[30:], sound[30:])
    assert abs(got[0]) < 0.01
    assert len(fade_in(sound[:5], 30)) == 5
    assert got.dtype == np.float32


def overlapped(whole: Samples, sizes: list[int], overlap: int) -> list[Samples]:
    """Cut into chunks that repeat the last ``overlap`` samples so far."""
    chunks: list[Samples] = []
    end = 0
    for size in sizes:
        chunks.append(whole[max(0, end - overlap) : end + size])
        end += size
    return chunks


@given(SIZES, st.integers(0, 40), st.integers(0, 10))
def test_exact_chunks_are_joined_to_the_whole_whatever_their_sizes(
    sizes: list[int], overlap: int, lag: int
) -> None:
    whole = noise(sum(sizes))
    join = CrossFade(overlap, min(lag, overlap // 4))
    out: list[Samples] = []
    given_out = total = 0
    for chunk, size in zip(overlapped(whole, sizes, overlap), sizes, strict=True):
        out.append(join.feed(chunk))
        total += size
        given_out += len(out[-1])
        assert total - given_out == min(total, overlap)
    got = np.concatenate([np.empty(0, np.float32), *out, join.end()])
    assert got.dtype == np.float32
    assert len(got) == len(whole)
    np.testing.assert_allclose(got, whole, atol=1e-6)


@given(st.lists(st.integers(0, 60), max_size=12), st.integers(0, 40), st.integers(0, 10))
def test_the_length_is_that_of_what_is_new_in_each_chunk(
    lengths: list[int], overlap: int, lag: int
) -> None:
    join = CrossFade(overlap, min(lag, overlap // 4))
    got = expected = 0
    for index, length in enumerate(lengths):
        got += len(join.feed(noise(length, index)))
        expected += max(0, length - min(expected, overlap))
    assert got + len(join.end()) == expected


def test_two_versions_are_mixed_by_gains_that_add_up() -> None:
    join = CrossFade(100)
    head = join.feed(np.full(300, 0.2, np.float32))
    tail = np.concatenate([join.feed(np.full(300, 0.4, np.float32)), join.end()])
    assert len(head) == 200
    assert np.all(np.diff(tail) >= 0)
    assert tail[0] < 0.201
    np.testing.assert_allclose(tail[100:], 0.4)


def tone(start: int, count: int) -> Samples:
    times = np.arange(start, start + count) / 24_000
    return np.asarray(
        0.3 * np.sin(2 * np.pi * 200 * times) + 0.1 * np.sin(2 * np.pi * 1370 * times), np.float32
    )


@pytest.mark.parametrize("off", [-6, 5])
def test_a_version_that_is_off_by_a_few_samples_is_shifted_into_place(off: int) -> None:
    overlap = 480

    def error(max_lag: int) -> float:
        join = CrossFade(overlap, max_lag)
        parts = [join.feed(tone(0, 2000)), join.feed(tone(2000 - overlap + off, 2000)), join.end()]
        joined = np.concatenate(parts)
        assert len(joined) == 4000 - overlap
        start = 2000 - overlap
        first_half = joined[start : start + overlap // 2]
        return float(np.sqrt(np.mean((first_half - tone(start, overlap // 2)) ** 2)))

    assert error(12) < 0.6 * error(0)


def test_nothing_is_shifted_where_that_hardly_helps() -> None:
    one, other = noise(2000, 1), noise(2000, 2)
    plain, shifting = CrossFade(400), CrossFade(400, 20)
    for join in (plain, shifting):
        join.feed(one)
    np.testing.assert_array_equal(plain.feed(other), shifting.feed(other))


@pytest.mark.parametrize(("overlap", "lag"), [(-1, 0), (8, 3), (8, -1)])
def test_impossible_overlaps_are_refused(overlap: int, lag: int) -> None:
    with pytest.raises(ValueError, match="expected an overlap"):
        CrossFade(overlap, lag)


def test_a_fade_of_negative_length_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Fade(-1)
