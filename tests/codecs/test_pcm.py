"""PCM arithmetic against its definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from antiphon.codecs import pcm

ALL_SAMPLES = np.arange(-32768, 32768, dtype="<i2")

sample_lists = st.lists(st.integers(-32768, 32767), max_size=400)


def s16(*samples: int) -> bytes:
    return np.array(samples, "<i2").tobytes()


def ints(data: bytes) -> list[int]:
    return [int(x) for x in np.frombuffer(data, "<i2")]


def test_to_float_reads_little_endian() -> None:
    samples = pcm.to_float(b"\x00\x80\xff\x7f\x01\x00")
    assert samples.dtype == np.float32
    assert samples.tolist() == [-1.0, 32767 / 32768, 1 / 32768]


def test_every_sample_survives_the_way_to_float_and_back() -> None:
    assert pcm.from_float(pcm.to_float(ALL_SAMPLES.tobytes())) == ALL_SAMPLES.tobytes()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.6 / 32768, 1),
        (-0.6 / 32768, -1),
        (0.4 / 32768, 0),
        (1.0, 32767),
        (1.5, 32767),
        (-1.0, -32768),
        (-7.0, -32768),
        (math.inf, 32767),
        (-math.inf, -32768),
        (3.4e38, 32767),
        (math.nan, 0),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_from_float_rounds_and_clips(
    value: float, expected: int, dtype: type[np.float32 | np.float64]
) -> None:
    assert ints(pcm.from_float(np.array([value], dtype))) == [expected]


@given(npst.arrays(np.float32, st.integers(0, 60), elements=st.floats(width=32)))
def test_any_floats_become_samples_within_half_a_step(samples: NDArray[np.float32]) -> None:
    before = samples.copy()
    out = np.frombuffer(pcm.from_float(samples), "<i2").astype(np.float64)
    wanted = np.clip(np.nan_to_num(samples.astype(np.float64) * 32768), -32768, 32767)
    assert np.all(np.abs(out - wanted) <= 0.5)
    np.testing.assert_array_equal(samples, before)


def test_from_float_wants_one_axis() -> None:
    with pytest.raises(pcm.PcmError, match=r"got shape \(1, 4\)"):
        pcm.from_float(np.zeros((1, 4), np.float32))


def test_odd_bytes_are_refused_everywhere() -> None:
    odd = b"\x00\x00\x00"
    for call in (
        lambda: pcm.to_float(odd),
        lambda: pcm.level_dbfs(odd),
        lambda: pcm.duration_ms(3, 8000),
        lambda: pcm.fade_in(odd, 5, 8000),
        lambda: pcm.fade_out(odd, 5, 8000),
    ):
        with pytest.raises(pcm.PcmError, match="even number of s16le bytes, got 3"):
            call()


def test_duration_counts_samples() -> None:
    assert pcm.duration_ms(960, 24000) == 20.0
    assert pcm.duration_ms(0, 24000) == 0.0
    assert pcm.duration_ms(2, 22050) == 1000 / 22050


def test_impossible_lengths_are_refused() -> None:
    for call in (
        lambda: pcm.duration_ms(-2, 8000),
        lambda: pcm.duration_ms(2, 0),
        lambda: pcm.silence(-1, 8000),
        lambda: pcm.silence(math.nan, 8000),
        lambda: pcm.silence(math.inf, 8000),
        lambda: pcm.silence(1, -8000),
    ):
        with pytest.raises(pcm.PcmError):
            call()


@given(st.integers(0, 3000), st.sampled_from([8000, 16000, 22050, 24000]))
def test_silence_lasts_as_asked(ms: int, rate: int) -> None:
    quiet = pcm.silence(ms, rate)
    assert not any(quiet)
    assert abs(pcm.duration_ms(len(quiet), rate) - ms) <= 500 / rate


def test_fades_are_linear_and_reach_zero() -> None:
    # 4 ms at 1 kHz: four samples.
    loud = s16(*[1000] * 6)
    assert ints(pcm.fade_in(loud, 4, 1000)) == [0, 250, 500, 750, 1000, 1000]
    assert ints(pcm.fade_out(loud, 4, 1000)) == [1000, 1000, 750, 500, 250, 0]


def test_short_audio_fades_over_its_whole_length() -> None:
    assert ints(pcm.fade_out(s16(-900, -900, -900), 1000, 8000)) == [-600, -300, 0]
    assert pcm.fade_in(b"", 20, 8000) == b""
    assert pcm.fade_out(b"", 20, 8000) == b""


@given(sample_lists, st.integers(0, 60))
def test_a_fade_touches_only_its_end_and_mirrors_the_other(samples: list[int], ms: int) -> None:
    rate, count = 4000, ms * 4
    faded = ints(pcm.fade_out(s16(*samples), ms, rate))
    kept = max(len(samples) - count, 0)
    assert faded[:kept] == samples[:kept]
    assert all(abs(a) <= abs(b) for a, b in zip(faded, samples, strict=True))
    assert faded[::-1] == ints(pcm.fade_in(s16(*samples[::-1]), ms, rate))


def test_level_of_known_signals() -> None:
    square = s16(*[-32768] * 100)
    half = s16(*[16384, -16384] * 50)
    sine = pcm.from_float(np.sin(np.arange(8000) * 2 * np.pi / 80))
    assert pcm.level_dbfs(square) == 0.0
    assert math.isclose(pcm.level_dbfs(half), -6.0206, abs_tol=1e-4)
    assert math.isclose(pcm.level_dbfs(sine), -3.0103, abs_tol=1e-2)


def test_silence_has_the_floor_as_level() -> None:
    lone = s16(1, *[0] * 9999)
    assert pcm.level_dbfs(b"") == pcm.FLOOR_DBFS
    assert pcm.level_dbfs(bytes(640)) == pcm.FLOOR_DBFS
    assert pcm.level_dbfs(lone) == pcm.FLOOR_DBFS
