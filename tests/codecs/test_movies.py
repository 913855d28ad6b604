"""Frames and sound into MP4, whole and in fragments, as FFmpeg reads them back."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from antiphon.codecs.fragments import FragmentedMovie, boxes
from antiphon.codecs.h264 import Frame
from antiphon.codecs.movies import encode_movie, read_movie_parameters
from antiphon.codecs.stills import (
    MAX_SPRITES,
    encode_spritesheet,
    encode_thumbnail,
    moments,
)

LEVELS = (30, 60, 90, 120, 150, 180, 210, 240)


def film(count: int, width: int, height: int, first: int = 0) -> list[Frame]:
    """Frames that are told from each other by how bright they are."""
    return [
        np.full((height, width, 3), LEVELS[(first + at) % len(LEVELS)], np.uint8)
        for at in range(count)
    ]


def shown(data: bytes) -> list[Any]:
    with av.open(io.BytesIO(data), "r") as container:
        return list(container.decode(video=0))


def levels(frames: list[Any]) -> list[int]:
    means = [frame.to_ndarray(format="rgb24").mean() for frame in frames]
    return [min(LEVELS, key=lambda level: abs(level - mean)) for mean in means]


def sound(seconds: float, rate: int, channels: int) -> NDArray[np.float32]:
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)
    return np.repeat(tone[None].astype(np.float32), channels, axis=0)


@settings(max_examples=15)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.integers(1, 60))
# No whole number of milliseconds.
@example(33, 33, 4, 3)
def test_any_size_count_and_rate(width: int, height: int, count: int, fps: int) -> None:
    data = encode_movie(film(count, width, height), fps)
    with av.open(io.BytesIO(data), "r") as container:
        (video,) = container.streams.video
        assert (video.width, video.height) == (width + width % 2, height + height % 2)
        assert video.frames == count
        assert video.duration is not None
        assert video.time_base is not None
        assert video.duration * video.time_base == Fraction(count, fps)
    frames = shown(data)
    assert [frame.time for frame in frames] == pytest.approx([at / fps for at in range(count)])
    assert levels(frames) == [LEVELS[at % len(LEVELS)] for at in range(count)]


def test_the_index_stands_in_front() -> None:
    names = [name for name, _ in boxes(encode_movie(film(5, 32, 32), 8))]
    assert names[:2] == [b"ftyp", b"moov"]
    assert names[-1] == b"mdat"


def test_colours_are_right_and_named() -> None:
    frame = np.zeros((32, 48, 3), np.uint8)
    frame[:, :16], frame[:, 16:32], frame[:, 32:] = (220, 30, 30), (30, 200, 60), (20, 40, 230)
    (back,) = shown(encode_movie([frame], 1))
    assert (back.colorspace, back.color_range, back.color_primaries) == (1, 1, 1)
    pixels = back.to_ndarray(format="rgb24").astype(int)
    for left in (0, 16, 32):
        assert np.abs(pixels[16, left + 8] - frame[16, left + 8]).max() <= 6


@pytest.mark.parametrize(("rate", "channels"), [(24_000, 1), (44_100, 2), (11_025, 1)])
def test_sound_goes_along(rate: int, channels: int) -> None:
    audio = sound(1.5, rate, channels)
    audio[0, :3] = (np.nan, np.inf, -np.inf)
    # The sound is longer, and all of it is kept.
    data = encode_movie(film(8, 32, 32), 8, audio=audio, audio_rate=rate)
    with av.open(io.BytesIO(data), "r") as container:
        (track,) = container.streams.audio
        assert track.codec_context.name == "aac"
        assert track.codec_context.layout.nb_channels == channels
        kept = track.codec_context.sample_rate
        heard = np.concatenate([each.to_ndarray() for each in container.decode(track)], axis=1)
    assert heard.shape[1] / kept == pytest.approx(1.5, abs=0.1)
    middle = heard[0, kept // 2 : kept]
    loudest = np.abs(np.fft.rfft(middle * np.hanning(len(middle)))).argmax() * kept / len(middle)
    assert loudest == pytest.approx(440, abs=5)
    assert middle.std() == pytest.approx(0.5 / np.sqrt(2), rel=0.1)
    assert len(shown(data)) == 8


def test_parameters_come_back_and_the_same_frames_give_the_same_bytes() -> None:
    told = '{"prompt": "Möwe 🕊", "seed": 7}'
    data = encode_movie(film(3, 32, 32), 8, parameters=told)
    assert read_movie_parameters(data) == told
    assert data == encode_movie(film(3, 32, 32), 8, parameters=told)
    assert read_movie_parameters(encode_movie(film(3, 32, 32), 8)) is None


@pytest.mark.parametrize(
    ("frames", "fps", "options"),
    [
        ([], 8, {}),
        (film(2, 32, 32), 0, {}),
        (film(2, 32, 32), 241, {}),
        (film(2, 32, 32) + film(1, 30, 32), 8, {}),
        ([np.zeros((8, 8, 4), np.uint8)], 8, {}),
        ([np.zeros((1, 8194, 3), np.uint8)], 8, {}),
        (film(2, 32, 32), 8, {"audio": sound(1, 8_000, 3), "audio_rate": 8_000}),
        (film(2, 32, 32), 8, {"audio": sound(1, 8_000, 1)}),
    ],
)
def test_what_is_no_film_is_refused(frames: list[Frame], fps: int, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        encode_movie(frames, fps, **options)


@settings(max_examples=10)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 60),
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
)
def test_fragments_follow_each_other(width: int, height: int, fps: int, runs: list[int]) -> None:
    movie = FragmentedMovie(width, height, fps)
    made = [movie.feed(film(run, width, height, movie.frames)) for run in runs]
    total = sum(runs)
    assert movie.frames == total
    assert [name for name, _ in boxes(movie.init)] == [b"ftyp", b"moov"]
    full = [fragment for fragment in made if fragment]
    assert len(full) == sum(1 for run in runs if run)
    for number, fragment in enumerate(full, 1):
        assert [name for name, _ in boxes(fragment)] == [b"moof", b"mdat"]
        at = fragment.index(b"mfhd") + 8
        assert int.from_bytes(fragment[at : at + 4], "big") == number
    if not total:
        return
    frames = shown(movie.init + b"".join(made))
    assert [frame.time for frame in frames] == pytest.approx([at / fps for at in range(total)])
    assert levels(frames) == [LEVELS[at % len(LEVELS)] for at in range(total)]
    starts = {sum(runs[:at]) for at in range(len(runs)) if runs[at]}
    assert {at for at, frame in enumerate(frames) if frame.key_frame} == starts


def test_a_player_may_begin_at_any_fragment() -> None:
    movie = FragmentedMovie(63, 47, 7)
    made = [movie.feed(film(3, 63, 47, movie.frames)) for _ in range(4)]
    frames = shown(movie.init + made[2])
    assert levels(frames) == [LEVELS[at % len(LEVELS)] for at in (6, 7, 8)]
    assert movie.codec.startswith("avc1.64")
    with pytest.raises(ValueError, match="expected"):
        movie.feed(film(1, 62, 47))
    # Nothing came of that.
    assert movie.frames == 12
    assert levels(shown(movie.init + made[0] + made[1] + made[2] + made[3])[-1:]) == [LEVELS[3]]


def test_a_thumbnail_shows_the_middle() -> None:
    frames = film(5, 900, 300)
    image = Image.open(io.BytesIO(encode_thumbnail(frames)))
    assert (image.format, image.size) == ("WEBP", (480, 160))
    assert abs(np.asarray(image.convert("RGB")).mean() - LEVELS[2]) < 3
    small = Image.open(io.BytesIO(encode_thumbnail(np.stack(film(1, 20, 10)))))
    assert small.size == (20, 10)
    for encode in (encode_thumbnail, encode_spritesheet):
        with pytest.raises(ValueError, match="at least one"):
            encode([])


@pytest.mark.parametrize(("count", "columns", "rows"), [(1, 1, 1), (4, 4, 1), (7, 5, 2)])
def test_a_spritesheet_shows_the_film_in_order(count: int, columns: int, rows: int) -> None:
    image = Image.open(io.BytesIO(encode_spritesheet(film(count, 640, 320))))
    assert (image.format, image.size) == ("JPEG", (columns * 160, rows * 80))
    pixels = np.asarray(image.convert("RGB"))
    for at in range(count):
        seen = pixels[at // columns * 80 + 40, at % columns * 160 + 80].mean()
        assert abs(seen - LEVELS[at % len(LEVELS)]) < 4
    if count < columns * rows:
        assert pixels[-10:, -10:].max() < 10


@given(st.integers(1, 2000))
def test_moments_run_from_the_first_to_the_last(count: int) -> None:
    chosen = moments(count)
    assert (chosen[0], chosen[-1], len(chosen)) == (0, count - 1, min(count, MAX_SPRITES))
    assert len(set(chosen)) == len(chosen)
    assert chosen == sorted(chosen)
