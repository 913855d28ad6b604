"""Endpointing, frame by frame."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.sessions.settings import Eagerness, TurnDetection, TurnKind
from antiphon.sessions.turns import (
    LOOK_MS,
    MIN_SPEECH_MS,
    NOTICE_MS,
    PauseLasted,
    PauseNoticed,
    SpeechBegan,
    SpeechResumed,
    TurnChange,
    TurnDetector,
    TurnEnded,
)

FRAME_MS = 20


def judge_all(detector: TurnDetector, script: str) -> list[TurnChange]:
    """Judge a frame for each letter: ``s`` is speech; return what changed."""
    changes = (detector.judge(float(letter == "s"), FRAME_MS) for letter in script)
    return [change for change in changes if change is not None]


def judge(detector: TurnDetector, script: str) -> list[TurnChange]:
    """Do the same, and leave out pauses that were only noticed."""
    return [c for c in judge_all(detector, script) if not isinstance(c, PauseNoticed)]


def detector(
    silence_ms: int = 200, padding_ms: int = 0, speculate_ms: int = 0, position_ms: int = 0
) -> TurnDetector:
    turns = TurnDetection(silence_duration_ms=silence_ms, prefix_padding_ms=padding_ms)
    return TurnDetector(turns, speculate_ms, position_ms)


def semantic(eagerness: Eagerness = Eagerness.MEDIUM, speculate_ms: int = 0) -> TurnDetector:
    turns = TurnDetection(kind=TurnKind.SEMANTIC_VAD, eagerness=eagerness, prefix_padding_ms=0)
    return TurnDetector(turns, speculate_ms, 0)


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


def test_a_pause_is_noticed_once_and_again_after_speech_went_on() -> None:
    judged = detector(silence_ms=400)
    judge_all(judged, "sssss")
    frames = NOTICE_MS // FRAME_MS
    assert judge_all(judged, "." * (frames - 1)) == []
    assert judge_all(judged, "." * 8) == [PauseNoticed()]
    assert judge_all(judged, "sss" + "." * frames) == [PauseNoticed()]


def test_a_pause_is_not_noticed_behind_the_look_at_it() -> None:
    judged = detector(silence_ms=400, speculate_ms=60)
    judge_all(judged, "sssss")
    assert judge_all(judged, "." * 19) == [PauseLasted(100, 160)]


def test_where_audio_is_quiet_ends_before_what_may_become_speech() -> None:
    judged = detector()
    judge(judged, "...")
    assert judged.quiet_ms == 60
    judge(judged, "ss")
    assert judged.quiet_ms == 60
    judge(judged, "...")
    assert judged.quiet_ms == 160


def test_what_is_kept_back_begins_no_later_turn() -> None:
    judged = detector(padding_ms=300)
    judge(judged, "." * 10 + "ss")
    judged.keep_from(judged.quiet_ms)
    assert judge(judged, "sss") == [SpeechBegan(200)]


# By the words.


@pytest.mark.parametrize(
    ("eagerness", "longest_ms"),
    [
        (Eagerness.LOW, 8000),
        (Eagerness.MEDIUM, 4000),
        (Eagerness.AUTO, 4000),
        (Eagerness.HIGH, 2000),
    ],
)
def test_without_words_a_turn_waits_as_long_as_its_eagerness_allows(
    eagerness: Eagerness, longest_ms: int
) -> None:
    judged = semantic(eagerness)
    judge(judged, "sssss")
    frames = longest_ms // FRAME_MS
    assert judge(judged, "." * (frames - 1)) == [PauseLasted(100, 100 + LOOK_MS)]
    assert judge(judged, ".") == [TurnEnded(100, 100 + longest_ms)]


@pytest.mark.parametrize(("speculate_ms", "look_ms"), [(0, 200), (100, 100), (3000, 200)])
def test_the_words_are_looked_for_whatever_is_speculated(speculate_ms: int, look_ms: int) -> None:
    judged = semantic(speculate_ms=speculate_ms)
    judge(judged, "sssss")
    assert judge(judged, "." * 20) == [PauseLasted(100, 100 + look_ms)]


def test_words_that_came_in_time_end_the_turn_with_a_frame() -> None:
    judged = semantic()
    judge(judged, "sssss" + "." * 10)
    judged.wait(400)
    assert judged.overdue() is None
    assert judge(judged, "." * 9) == []
    assert judge(judged, ".") == [TurnEnded(100, 500)]


def test_words_that_came_late_end_the_turn_without_a_frame() -> None:
    judged = semantic()
    judge(judged, "sssss" + "." * 40)
    judged.wait(400)
    assert judged.overdue() == TurnEnded(100, 500)
    assert judged.overdue() is None
    # What was judged in between was silence; it belongs to what comes next.
    assert judge(judged, "sssss") == [SpeechBegan(900)]


def test_words_that_came_while_speech_may_go_on_wait_for_it() -> None:
    judged = semantic()
    judge(judged, "sssss" + "." * 40 + "ss")
    judged.wait(400)
    assert judged.overdue() is None
    assert judge(judged, "s") == [SpeechResumed()]


def test_a_noise_holds_the_end_up_by_no_more_than_itself() -> None:
    judged = semantic()
    judge(judged, "sssss" + "." * 40 + "ss")
    judged.wait(400)
    assert judge(judged, ".") == [TurnEnded(100, 500)]


def test_what_was_judged_of_a_pause_does_not_hold_for_the_next() -> None:
    judged = semantic()
    judge(judged, "sssss" + "." * 10)
    judged.wait(400)
    judge(judged, "sss")
    assert judge(judged, "." * 60) == [PauseLasted(360, 360 + LOOK_MS)]


def test_words_do_not_hurry_silence_that_alone_decides() -> None:
    judged = detector(silence_ms=400)
    judge(judged, "sssss" + "." * 15)
    judged.wait(100)
    assert judged.overdue() is None


def test_a_greater_eagerness_holds_for_the_pause_that_lasts() -> None:
    judged = semantic(Eagerness.LOW)
    judge(judged, "sssss" + "." * 110)
    judged.configure(TurnDetection(kind=TurnKind.SEMANTIC_VAD, eagerness=Eagerness.HIGH))
    assert judge(judged, ".") == [TurnEnded(100, 2100)]


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
            case PauseNoticed() | None:
                pass
