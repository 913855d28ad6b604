import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.codecs.denoise import RATE, Denoiser, Field
from antiphon.codecs.pcm import from_float, level_dbfs, to_float
from antiphon.engines.chunks import Samples

FIELDS: tuple[Field, ...] = ("near_field", "far_field")

HELD_BYTES = 2 * RATE * 20 // 1000
"""20 ms."""


def hiss(samples: int, db: float) -> bytes:
    noise = np.random.default_rng(0).normal(0, 10 ** (db / 20), samples)
    return from_float(noise.astype(np.float32))


def whole(field: Field, pcm: bytes) -> bytes:
    denoiser = Denoiser(field)
    return denoiser.feed(pcm) + denoiser.flush()


@pytest.mark.parametrize("field", FIELDS)
@given(
    pcm=st.integers(0, 6000).map(lambda size: hiss(size // 2, -20) + bytes(size % 2)),
    cuts=st.lists(st.integers(0, 6000), max_size=20),
)
@settings(max_examples=25, deadline=None)
def test_the_same_bytes_come_however_the_audio_is_split(
    field: Field, pcm: bytes, cuts: list[int]
) -> None:
    denoiser, made = Denoiser(field), b""
    edges = sorted(min(cut, len(pcm)) for cut in [0, *cuts, len(pcm)])
    for start, stop in zip(edges, edges[1:], strict=False):
        made += denoiser.feed(pcm[start:stop])
        assert 0 <= stop - len(made) <= HELD_BYTES
    made += denoiser.flush()
    assert made == whole(field, pcm)
    assert len(made) == len(pcm) & ~1


@pytest.mark.parametrize("field", FIELDS)
def test_a_flushed_stream_begins_anew(field: Field) -> None:
    denoiser = Denoiser(field)
    pcm = hiss(RATE, -30)
    first = denoiser.feed(pcm + b"\x01") + denoiser.flush()
    assert denoiser.flush() == b""
    assert denoiser.feed(pcm) + denoiser.flush() == first


@pytest.mark.parametrize(("field", "less"), [("near_field", 4.0), ("far_field", 8.0)])
@pytest.mark.parametrize("db", [-50.0, -30.0])
def test_steady_noise_becomes_softer(field: Field, less: float, db: float) -> None:
    quiet = whole(field, hiss(4 * RATE, db))
    assert level_dbfs(quiet[2 * RATE * 2 :]) < db - less


@pytest.mark.parametrize("field", FIELDS)
def test_silence_stays_silent(field: Field) -> None:
    assert whole(field, bytes(2 * RATE)) == bytes(2 * RATE)


@pytest.mark.models
@pytest.mark.parametrize("field", FIELDS)
def test_a_voice_keeps_its_place_and_its_loudness(
    field: Field, spoken: Callable[[str], Samples]
) -> None:
    voice = from_float(np.pad(spoken("The train leaves from the second platform."), 12_000))
    cleaned = whole(field, voice)
    assert level_dbfs(voice) - 4 < level_dbfs(cleaned) < level_dbfs(voice) + 1
    before, after = to_float(voice), to_float(cleaned)
    shifts = range(-48, 49)
    likeness = [float(before @ np.roll(after, shift)) for shift in shifts]
    # Within half a millisecond.
    assert abs(shifts[int(np.argmax(likeness))]) <= 12


@pytest.mark.parametrize("field", FIELDS)
def test_streams_know_nothing_of_each_other(field: Field) -> None:
    loud, soft = hiss(RATE, -10), hiss(RATE, -50)
    one, other = Denoiser(field), Denoiser(field)
    made = b""
    for start in range(0, len(soft), 960):
        one.feed(loud[start : start + 960])
        made += other.feed(soft[start : start + 960])
    assert made + other.flush() == whole(field, soft)


@pytest.mark.parametrize("field", FIELDS)
def test_full_scale_does_not_wrap_around(field: Field) -> None:
    t = np.arange(4 * RATE) / RATE
    sweep = np.sin(2 * math.pi * (200 + 300 * t) * t) * (t % 0.5 < 0.2)
    loud = from_float(sweep.astype(np.float32))
    difference = to_float(whole(field, loud)) - to_float(loud)
    assert np.abs(difference).max() < 1.5
