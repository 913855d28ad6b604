"""What a client may set, and how an update is merged in."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from antiphon.sessions.errors import Refusal
from antiphon.sessions.settings import (
    MAX_OUTPUT_TOKENS,
    UNSET,
    AudioFormat,
    Capabilities,
    Modality,
    Settings,
    SettingsPatch,
    Transcription,
    TranscriptionPatch,
    TurnDetection,
    TurnDetectionPatch,
    check_text,
    check_tokens,
    check_voice,
    merge,
)

CAN = Capabilities(voices=("ada", "bob"), max_text_chars=10)
NOW = Settings(voice="ada", instructions="Be brief.")


def merged(**patch: Any) -> Settings:
    return merge(NOW, SettingsPatch(**patch), CAN)


def turns(**patch: Any) -> Settings:
    return merged(turn_detection=TurnDetectionPatch(**patch))


def test_what_a_patch_does_not_name_keeps_its_value() -> None:
    assert merged() == NOW
    assert turns() == NOW
    assert merged(speed=1.5) == replace(NOW, speed=1.5)


@pytest.mark.parametrize(
    ("patch", "param"),
    [
        ({"speed": 0.24}, "session.audio.output.speed"),
        ({"speed": 1.51}, "session.audio.output.speed"),
        ({"speed": float("nan")}, "session.audio.output.speed"),
        ({"voice": "eve"}, "session.audio.output.voice"),
        ({"instructions": "x" * 11}, "session.instructions"),
        ({"max_output_tokens": 0}, "session.max_output_tokens"),
        ({"max_output_tokens": MAX_OUTPUT_TOKENS + 1}, "session.max_output_tokens"),
    ],
)
def test_what_is_not_allowed_is_named(patch: dict[str, Any], param: str) -> None:
    with pytest.raises(Refusal) as refused:
        merged(**patch)
    assert refused.value.param == param
    assert param in refused.value.message


@pytest.mark.parametrize(
    ("member", "low", "high", "step"),
    [
        ("threshold", 0.0, 1.0, 0.01),
        ("prefix_padding_ms", 0, 5000, 1),
        ("silence_duration_ms", 20, 10_000, 1),
    ],
)
def test_turn_detection_has_bounds(member: str, low: float, high: float, step: float) -> None:
    for value in (low, high):
        detection = turns(**{member: value}).turn_detection
        assert getattr(detection, member) == value
    for value in (low - step, high + step):
        with pytest.raises(Refusal) as refused:
            turns(**{member: value})
        assert refused.value.param == f"session.audio.input.turn_detection.{member}"


def test_turn_detection_is_cleared_kept_and_begun_anew() -> None:
    quick = merge(NOW, SettingsPatch(turn_detection=TurnDetectionPatch(threshold=0.9)), CAN)
    patch = SettingsPatch(turn_detection=TurnDetectionPatch(create_response=False))
    both = merge(quick, patch, CAN)
    assert both.turn_detection == TurnDetection(threshold=0.9, create_response=False)
    off = merge(both, SettingsPatch(turn_detection=None), CAN)
    assert off.turn_detection is None
    again = merge(off, SettingsPatch(turn_detection=TurnDetectionPatch()), CAN)
    assert again.turn_detection == TurnDetection()


def test_transcription_is_merged_member_by_member() -> None:
    patch = SettingsPatch(transcription=TranscriptionPatch(language="en"))
    one = merge(NOW, patch, CAN)
    assert one.transcription == Transcription(model="whisper-1", language="en")
    patch = SettingsPatch(transcription=TranscriptionPatch(model="tiny", prompt="names"))
    two = merge(one, patch, CAN)
    assert two.transcription == Transcription(model="tiny", language="en", prompt="names")
    assert merge(two, SettingsPatch(transcription=None), CAN).transcription is None


def test_a_check_returns_what_is_allowed() -> None:
    assert check_tokens(None, "p") is None
    assert check_tokens(1, "p") == 1
    assert check_text("x" * 10, CAN, "p") == "x" * 10
    assert check_voice("bob", CAN, "p") == "bob"


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "instructions": st.text(max_size=12),
    "modality": st.sampled_from(Modality),
    "input_format": st.sampled_from(AudioFormat),
    "output_format": st.sampled_from(AudioFormat),
    "voice": st.sampled_from(["ada", "bob", "eve"]),
    "speed": st.floats(0, 2),
    "max_output_tokens": st.none() | st.integers(-1, 5000),
    "extensions": st.booleans(),
}


@profile(deadline=None)
@given(st.fixed_dictionaries({}, optional=VALUES))
def test_a_merge_takes_all_of_a_patch_or_nothing(patch: dict[str, Any]) -> None:
    if any(_refused(**{name: value}) for name, value in patch.items()):
        assert _refused(**patch)
        return
    after = merged(**patch)
    for field in fields(Settings):
        asked = patch.get(field.name, UNSET)
        kept = getattr(NOW, field.name)
        assert getattr(after, field.name) == (kept if asked is UNSET else asked)


def _refused(**patch: Any) -> bool:
    try:
        merged(**patch)
    except Refusal:
        return True
    return False
