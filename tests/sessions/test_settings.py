"""What a client may set, and how an update is merged in."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from antiphon.sessions.errors import Refusal
from antiphon.sessions.merging import (
    MAX_KEYWORDS,
    MAX_OUTPUT_TOKENS,
    MAX_PROMPT_CHARS,
    MAX_TOOL_CHARS,
    MAX_TOOLS,
    check_choice,
    check_text,
    check_tokens,
    check_tools,
    check_voice,
    merge,
)
from antiphon.sessions.settings import (
    UNSET,
    AudioFormat,
    BinaryFormat,
    Capabilities,
    Eagerness,
    Modality,
    NoiseReduction,
    SessionKind,
    Settings,
    SettingsPatch,
    Transcription,
    TranscriptionPatch,
    Truncation,
    TruncationMode,
    TurnDetection,
    TurnDetectionPatch,
    TurnKind,
)
from antiphon.sessions.tools import Tool, ToolChoice, ToolMode

CAN = Capabilities(voices=("ada", "bob"), max_text_chars=10)
NOW = Settings(voice="ada", instructions="Be brief.")
AT = "session.audio.input"
LOOK_UP = Tool(name="look_up")
CALL = ToolChoice(mode=ToolMode.FUNCTION, name="look_up")
MUST = ToolChoice(mode=ToolMode.REQUIRED)


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
        ({"temperature": -0.1}, "session.temperature"),
        ({"temperature": 2.1}, "session.temperature"),
        ({"temperature": float("nan")}, "session.temperature"),
        ({"truncation": Truncation(retention_ratio=1.1)}, "session.truncation.retention_ratio"),
        (
            {"truncation": Truncation(post_instructions=0)},
            "session.truncation.token_limits.post_instructions",
        ),
        ({"tools": (LOOK_UP, LOOK_UP)}, "session.tools[1].name"),
        ({"tools": (Tool(name=""),)}, "session.tools[0].name"),
        ({"tools": (Tool(name="x" * 65),)}, "session.tools[0].name"),
        ({"tools": tuple(Tool(name=f"t{i}") for i in range(MAX_TOOLS + 1))}, "session.tools"),
        ({"tools": (Tool(name="t", parameters="x" * MAX_TOOL_CHARS),)}, "session.tools"),
        ({"tools": (Tool(name="other"),), "tool_choice": CALL}, "session.tool_choice.name"),
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


@pytest.mark.parametrize(
    ("member", "value", "param"),
    [
        ("model", "m" * 257, "model"),
        ("language", "l" * 36, "language"),
        ("prompt", "p" * (MAX_PROMPT_CHARS + 1), "prompt"),
        ("keywords", ("k",) * (MAX_KEYWORDS + 1), "keywords"),
        ("keywords", ("k", "k" * 201), "keywords[1]"),
    ],
)
def test_transcription_has_bounds(member: str, value: Any, param: str) -> None:
    with pytest.raises(Refusal) as refused:
        merged(transcription=TranscriptionPatch(**{member: value}))
    assert refused.value.param == f"{AT}.transcription.{param}"


def test_a_language_alone_keeps_the_model() -> None:
    chosen = replace(NOW, transcription=Transcription(model="tiny", keywords=("Ann",)))
    patch = SettingsPatch(transcription=TranscriptionPatch(language="de", keywords=None))
    assert merge(chosen, patch, CAN).transcription == Transcription(model="tiny", language="de")


# Kinds of turn detection.

SEMANTIC = TurnDetection(kind=TurnKind.SEMANTIC_VAD)


def test_another_kind_starts_from_its_own_defaults() -> None:
    quick = replace(NOW, turn_detection=TurnDetection(threshold=0.9, create_response=False))
    patch = SettingsPatch(turn_detection=TurnDetectionPatch(kind=TurnKind.SEMANTIC_VAD))
    words = merge(quick, patch, CAN)
    assert words.turn_detection == SEMANTIC
    patch = SettingsPatch(
        turn_detection=TurnDetectionPatch(kind=TurnKind.SERVER_VAD, idle_timeout_ms=6000)
    )
    again = merge(words, patch, CAN)
    assert again.turn_detection == TurnDetection(idle_timeout_ms=6000)


def test_the_same_kind_named_again_keeps_the_rest() -> None:
    quick = replace(NOW, turn_detection=TurnDetection(threshold=0.9))
    patch = TurnDetectionPatch(kind=TurnKind.SERVER_VAD, silence_duration_ms=800)
    after = merge(quick, SettingsPatch(turn_detection=patch), CAN).turn_detection
    assert after == TurnDetection(threshold=0.9, silence_duration_ms=800)
    eager = replace(NOW, turn_detection=replace(SEMANTIC, eagerness=Eagerness.HIGH))
    patch = TurnDetectionPatch(kind=TurnKind.SEMANTIC_VAD, create_response=False)
    after = merge(eager, SettingsPatch(turn_detection=patch), CAN).turn_detection
    assert after == replace(SEMANTIC, eagerness=Eagerness.HIGH, create_response=False)


def test_a_part_of_turn_detection_keeps_its_kind() -> None:
    words = replace(NOW, turn_detection=SEMANTIC)
    patch = SettingsPatch(turn_detection=TurnDetectionPatch(eagerness=Eagerness.LOW))
    assert merge(words, patch, CAN).turn_detection == replace(SEMANTIC, eagerness=Eagerness.LOW)


def test_semantic_detection_as_clients_ask_for_it_by_default() -> None:
    asked = turns(kind=TurnKind.SEMANTIC_VAD, eagerness=Eagerness.AUTO, idle_timeout_ms=None)
    assert asked.turn_detection == SEMANTIC


@pytest.mark.parametrize(
    ("kind", "member", "value"),
    [
        (TurnKind.SEMANTIC_VAD, "threshold", 0.5),
        (TurnKind.SEMANTIC_VAD, "prefix_padding_ms", 300),
        (TurnKind.SEMANTIC_VAD, "silence_duration_ms", 500),
        (TurnKind.SEMANTIC_VAD, "idle_timeout_ms", 6000),
        (TurnKind.SERVER_VAD, "eagerness", Eagerness.HIGH),
    ],
)
def test_members_of_the_other_kind_are_refused(kind: TurnKind, member: str, value: Any) -> None:
    with pytest.raises(Refusal) as refused:
        turns(kind=kind, **{member: value})
    assert refused.value.param == f"{AT}.turn_detection.{member}"
    assert kind.value in refused.value.message


def test_an_idle_timeout_has_the_bounds_of_the_protocol_and_can_be_cleared() -> None:
    idle = replace(NOW, turn_detection=TurnDetection(idle_timeout_ms=5000))
    for value in (5000, 30_000, None):
        patch = SettingsPatch(turn_detection=TurnDetectionPatch(idle_timeout_ms=value))
        after = merge(idle, patch, CAN).turn_detection
        assert after == TurnDetection(idle_timeout_ms=value)
    for value in (0, 4999, 30_001):
        with pytest.raises(Refusal) as refused:
            turns(idle_timeout_ms=value)
        assert refused.value.param == f"{AT}.turn_detection.idle_timeout_ms"


@pytest.mark.parametrize("kind", SessionKind)
def test_both_kinds_of_session_are_merged_alike_and_stay_what_they_are(kind: SessionKind) -> None:
    now = replace(NOW, kind=kind)
    after = merge(
        now,
        SettingsPatch(
            turn_detection=TurnDetectionPatch(kind=TurnKind.SEMANTIC_VAD),
            noise_reduction=NoiseReduction.FAR_FIELD,
            logprobs=True,
        ),
        CAN,
    )
    assert after == replace(
        now, turn_detection=SEMANTIC, noise_reduction=NoiseReduction.FAR_FIELD, logprobs=True
    )
    off = SettingsPatch(turn_detection=None, noise_reduction=None, logprobs=False)
    assert merge(after, off, CAN) == replace(now, turn_detection=None)


# Tools.


def test_tools_and_how_they_are_chosen_are_kept() -> None:
    chosen = merged(tools=(LOOK_UP,), tool_choice=CALL)
    assert merge(chosen, SettingsPatch(speed=1.5), CAN) == replace(chosen, speed=1.5)


@pytest.mark.parametrize("choice", [MUST, CALL])
def test_a_choice_may_come_before_its_tools(choice: ToolChoice) -> None:
    chosen = merged(tool_choice=choice)
    chosen = merge(chosen, SettingsPatch(instructions="Be brief."), CAN)
    assert chosen.tool_choice == choice
    assert merge(chosen, SettingsPatch(tools=(LOOK_UP,)), CAN).tool_choice == choice


def test_a_choice_that_came_first_gives_way_to_tools_that_lack_it() -> None:
    chosen = merged(tool_choice=CALL)
    after = merge(chosen, SettingsPatch(tools=(Tool(name="other"),)), CAN)
    assert after.tool_choice == ToolChoice()


@pytest.mark.parametrize("choice", [MUST, CALL])
def test_tools_that_are_taken_away_take_what_needs_them_along(choice: ToolChoice) -> None:
    chosen = merged(tools=(LOOK_UP,), tool_choice=choice)
    after = merge(chosen, SettingsPatch(tools=()), CAN)
    assert (after.tools, after.tool_choice) == ((), ToolChoice())


@pytest.mark.parametrize("mode", [ToolMode.AUTO, ToolMode.NONE])
def test_a_choice_that_needs_no_tools_stays(mode: ToolMode) -> None:
    chosen = merged(tools=(LOOK_UP,), tool_choice=ToolChoice(mode=mode))
    assert merge(chosen, SettingsPatch(tools=()), CAN).tool_choice.mode is mode


def test_truncation_is_taken_as_a_whole() -> None:
    asked = Truncation(mode=TruncationMode.RETENTION_RATIO, retention_ratio=0.8)
    assert merged(truncation=asked).truncation == asked


# What is looked at when.


@pytest.mark.parametrize(
    ("settings", "answers", "looks"),
    [
        (NOW, True, True),
        (replace(NOW, turn_detection=None), False, False),
        (replace(NOW, turn_detection=TurnDetection(create_response=False)), False, False),
        (replace(NOW, turn_detection=replace(SEMANTIC, create_response=False)), False, True),
        (replace(NOW, kind=SessionKind.TRANSCRIPTION), False, True),
    ],
)
def test_only_a_conversation_with_turns_is_answered_by_itself(
    settings: Settings, answers: bool, looks: bool
) -> None:
    assert (settings.answers_turns, settings.looks_ahead) == (answers, looks)


def test_a_check_returns_what_is_allowed() -> None:
    assert check_tools((LOOK_UP,), "p") == (LOOK_UP,)
    assert check_choice(CALL, (LOOK_UP,), "p") == CALL
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
    "temperature": st.none() | st.floats(-1, 3),
    "tools": st.sampled_from([(), (LOOK_UP,), (LOOK_UP, LOOK_UP)]),
    "truncation": st.builds(Truncation, retention_ratio=st.floats(-1, 2)),
    "noise_reduction": st.none() | st.sampled_from(NoiseReduction),
    "logprobs": st.booleans(),
    "extensions": st.booleans(),
    "binary_audio": st.booleans(),
    "binary_format": st.sampled_from(BinaryFormat),
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
