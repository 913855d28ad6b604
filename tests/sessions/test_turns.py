"""Endpointing, frame by frame."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.sessions.settings import TurnDetection
from antiphon.sessions.turns import (
    MIN_SPEECH_MS,
    PauseLasted,
    SpeechBegan,
    SpeechResumed,
    TurnChange,
    TurnDetector,
    TurnEnded,
)

FRAME_MS = 20


def judge(detector: TurnDetector, script: str) -> list[TurnChange]:
    """Judge a frame for each letter: ``s`` is speech; return what changed."""
    changes = (detector.judge(float(letter == "s"), FRAME_MS) for letter in script)
    return [change for change in changes if change is not None]


def detector(
    silence_ms: int = 200, padding_ms: int = 0, speculate_ms: int = 0, position_ms: int = 0
) -> TurnDetector:
    turns = TurnDetection(silence_duration_ms=silence_ms, prefix_padding_ms=padding_ms)
    return TurnDetector(turns, speculate_ms, position_ms)


def test_a_turn_starts_at_its_first_frame_once_there_is_enough_speech() -> None:
    judged = detector(position_ms=1000)
    assert judge(judged, ".." + "ssss") == []
    assert judge(judged, "s") == [SpeechBegan(1040)]
    assert judged.position_ms == 1140


def test_a_weak_frame_in_the_first_speech_only_takes_back_its_own_length() -> None:
    assert judge(detector(), "sss.sss") == [SpeechBegan(0)]
    assert judge(detector(), "ss..sss") == []


def test_a_turn_ends_after_the_silence_and_not_a_frame_before() -> None:
    judged = detector()
    judge(judged, "sssss")
    assert judge(judged, "." * 9) == []
    assert judge(judged, ".") == [TurnEnded(100, 300)]


def test_silence_that_is_no_whole_number_of_frames_ends_within_one() -> None:
    judged = detector(silence_ms=190)
    judge(judged, "sssss")
    assert judge(judged, "." * 10) == [TurnEnded(100, 290)]
    # The last frame lies across the end: it belongs to no turn.
    assert judge(judged, "sssss") == [SpeechBegan(300)]


def test_a_pause_is_told_once_and_again_after_speech_went_on() -> None:
    judged = detector(silence_ms=400, speculate_ms=100)
    judge(judged, "sssss")
    assert judge(judged, "." * 8) == [PauseLasted(100, 200)]
    assert judge(judged, "sss") == [SpeechResumed()]
    assert judge(judged, "." * 8) == [PauseLasted(320, 420)]


def test_a_short_noise_neither_ends_nor_prolongs_a_pause() -> None:
    judged = detector(silence_ms=400)
    judge(judged, "sssss")
    assert judge(judged, "." * 10 + "ss" + "." * 8) == [TurnEnded(100, 500)]


def test_speech_that_goes_on_after_one_weak_frame_is_no_pause() -> None:
    judged = detector(silence_ms=400, speculate_ms=40)
    assert judge(judged, "sssss.sss.sss") == [SpeechBegan(0)]
    assert judged.speech_end_ms == 260


def test_what_was_cut_off_belongs_to_no_later_turn() -> None:
    judged = detector(padding_ms=300)
    judge(judged, "sssss")
    judged.restart(150)
    assert judge(judged, "sss") == []
    assert judge(judged, "sssss") == [SpeechBegan(150)]


def test_new_settings_hold_from_the_next_frame_on() -> None:
    judged = detector(silence_ms=400)
    judge(judged, "sssss" + "....")
    judged.configure(TurnDetection(silence_duration_ms=60))
    assert judge(judged, ".") == [TurnEnded(100, 160)]
    judged.configure(TurnDetection(threshold=0.0))
    assert len(judge(judged, ".....")) == 1


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 1), max_size=300),
    st.integers(20, 300),
    st.integers(0, 500),
    st.sampled_from([0, 60, 200]),
)
def test_turns_follow_each_other_and_lie_within_what_was_judged(
    probabilities: list[float], silence_ms: int, padding_ms: int, speculate_ms: int
) -> None:
    judged = detector(silence_ms, padding_ms, speculate_ms)
    floor_ms, open_since, paused = 0, None, False
    for probability in probabilities:
        match judged.judge(probability, FRAME_MS):
            case SpeechBegan(start_ms):
                assert open_since is None
                assert floor_ms <= start_ms <= judged.position_ms - MIN_SPEECH_MS
                open_since = start_ms
            case PauseLasted(speech_end_ms, heard_ms):
                assert open_since is not None
                assert not paused
                assert heard_ms == judged.position_ms >= speech_end_ms + speculate_ms
                paused = True
            case SpeechResumed():
                assert paused
                paused = False
            case TurnEnded(speech_end_ms, end_ms):
                assert open_since is not None
                assert open_since < speech_end_ms
                assert end_ms == speech_end_ms + silence_ms
                assert judged.position_ms - FRAME_MS < end_ms <= judged.position_ms
                floor_ms, open_since, paused = end_ms, None, False
            case None:
                pass
