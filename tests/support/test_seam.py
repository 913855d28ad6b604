import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.seam import seam

from antiphon.engines.speech.joins import CrossFade, fade_in

RATE = 24_000
AT = 12_000


def voice(seed: int = 0, *, hiss: float = 0.003) -> NDArray[np.float32]:
    """A second of something like a vowel: harmonics of 120 Hz under a falling envelope."""
    random = np.random.default_rng(seed)
    times = np.arange(RATE) / RATE
    tones = sum(
        np.sin(2 * np.pi * 120 * k * times + random.uniform(0, 6)) / k**1.3 for k in range(1, 30)
    )
    noise = random.normal(0, hiss, RATE)
    return np.asarray(0.15 * tones + noise, np.float32)


@pytest.mark.parametrize("at", [AT, AT + 37, AT + 111])
def test_sound_that_was_never_cut_is_clean(at: int) -> None:
    for seed in range(5):
        assert seam(voice(seed), at, RATE).clean()
    assert seam(np.zeros(RATE, np.float32), at, RATE).clean()


def test_an_s_over_the_seam_is_no_click() -> None:
    hiss = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
    assert seam(hiss, AT, RATE).clean()


@pytest.mark.parametrize("kind", ["other sound", "half a millisecond gone", "silence", "step"])
def test_a_hard_cut_is_not(kind: str) -> None:
    whole = voice()
    rest = {
        "other sound": 1.0 * voice(7)[AT:],
        "half a millisecond gone": whole[AT + 12 :],
        "silence": np.zeros(RATE - AT, np.float32),
        "step": whole[AT:] + np.float32(0.1),
    }[kind]
    figures = seam(np.concatenate([whole[:AT], rest]).astype(np.float32), AT, RATE)
    assert not figures.clean()
    assert figures.jump > 2 or figures.splash_db > 10


def test_a_cross_fade_of_two_versions_of_one_sound_is_clean_where_their_cut_is_not() -> None:
    one, other, overlap = voice(), voice() * np.float32(0.7), 480
    cut = np.concatenate([one[:AT], other[AT:]])
    join = CrossFade(overlap)
    parts = [join.feed(one[:AT]), join.feed(other[AT - overlap :]), join.end()]
    joined = np.concatenate(parts)
    assert len(joined) == RATE
    assert not seam(cut, AT, RATE).clean()
    for at in (AT - overlap, AT - overlap // 2, AT):
        assert seam(joined, at, RATE).clean()


def test_a_start_in_the_middle_of_a_sound_is_clean_once_it_is_faded_in() -> None:
    silence = np.zeros(AT, np.float32)
    hard = np.concatenate([silence, voice()[100:]])
    soft = np.concatenate([silence, fade_in(voice()[100:], RATE // 100)])
    assert not seam(hard, AT, RATE).clean()
    assert seam(soft, AT, RATE).clean()


@pytest.mark.parametrize("at", [0, 479, RATE - 479])
def test_too_little_sound_around_a_seam_is_said(at: int) -> None:
    with pytest.raises(ValueError, match="480 samples on each side"):
        seam(voice(), at, RATE)
