"""Sessions over HTTP: parsed and refused as updates are, and shown whole."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.realtime.wire_in import Refused
from antiphon.realtime.wire_session import session_object, session_patch
from antiphon.sessions.errors import ErrorInfo
from antiphon.sessions.settings import (
    Eagerness,
    NoiseReduction,
    SessionKind,
    Settings,
    SettingsPatch,
    Transcription,
    Truncation,
    TruncationMode,
    TurnDetection,
    TurnKind,
)
from antiphon.sessions.tools import Tool, ToolChoice, ToolMode

Json = dict[str, Any]
KIND = SessionKind.REALTIME


def refusal(raw: Any, kind: SessionKind = KIND) -> ErrorInfo:
    with pytest.raises(Refused) as caught:
        session_patch(raw, kind)
    return caught.value.error


def test_objects_and_json_are_parsed_alike() -> None:
    session = {"type": "realtime", "instructions": "Sing.", "audio": {"output": {"voice": "bob"}}}
    made = session_patch(session, KIND)
    assert made == SettingsPatch(instructions="Sing.", voice="bob")
    assert session_patch(msgspec.json.encode(session), KIND) == made
    assert session_patch({}, KIND) == SettingsPatch()


@pytest.mark.parametrize(
    ("raw", "code", "param"),
    [
        ({"instructions": 3}, "invalid_value", "session.instructions"),
        ({"audio": {"input": {"format": {}}}}, "missing_required_parameter", None),
        ({"type": "transcription"}, "invalid_value", "session.type"),
        ({"tools": [{"type": "mcp"}]}, "unsupported_value", "session.tools[0].type"),
        (b'{"instructions": 3}', "invalid_value", "session.instructions"),
        (b"[]", "invalid_value", "session"),
        (b'"x"', "invalid_value", "session"),
        (b"{", "invalid_json", None),
        (b"\xff", "invalid_json", None),
        (b"[" * 100_000, "invalid_json", None),
    ],
)
def test_refusals_name_the_member(raw: Any, code: str, param: str | None) -> None:
    error = refusal(raw)
    assert error.code == code
    if param is not None or code == "invalid_json":
        assert error.param == param


def test_a_session_of_another_kind_is_refused() -> None:
    assert refusal({"type": "realtime"}, SessionKind.TRANSCRIPTION).param == "session.type"
    made = session_patch({"type": "transcription", "tools": []}, SessionKind.TRANSCRIPTION)
    assert made == SettingsPatch()


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["audio", "tools", "type", "input", "name"]), inner)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(_json, st.sampled_from(SessionKind))
def test_any_json_is_parsed_or_refused(raw: Any, kind: SessionKind) -> None:
    try:
        assert isinstance(session_patch(msgspec.json.encode(raw), kind), SettingsPatch)
    except Refused:
        return


# As clients are told.


def test_all_of_a_session() -> None:
    now = Settings(
        voice="ada",
        turn_detection=TurnDetection(kind=TurnKind.SEMANTIC_VAD, eagerness=Eagerness.LOW),
        transcription=Transcription(model="w", language="en", keywords=("k",)),
        noise_reduction=NoiseReduction.FAR_FIELD,
        tools=(Tool(name="f", description="d", parameters='{"type":"object"}'),),
        tool_choice=ToolChoice(mode=ToolMode.FUNCTION, name="f"),
        truncation=Truncation(
            mode=TruncationMode.RETENTION_RATIO, retention_ratio=0.8, post_instructions=9
        ),
        logprobs=True,
    )
    told = session_object("sess_1", now, 5, "m")
    assert told["audio"]["input"] == {
        "format": {"type": "audio/pcm", "rate": 24000},
        "transcription": {"model": "w", "language": "en", "keywords": ["k"]},
        "noise_reduction": {"type": "far_field"},
        "turn_detection": {
            "type": "semantic_vad",
            "eagerness": "low",
            "create_response": True,
            "interrupt_response": True,
        },
    }
    assert told["tools"] == [
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}
    ]
    assert told["tool_choice"] == {"type": "function", "name": "f"}
    assert told["truncation"] == {
        "type": "retention_ratio",
        "retention_ratio": 0.8,
        "token_limits": {"post_instructions": 9},
    }
    assert told["include"] == ["item.input_audio_transcription.logprobs"]


def test_a_session_that_transcribes() -> None:
    now = Settings(kind=SessionKind.TRANSCRIPTION, transcription=Transcription(model="w"))
    assert session_object("sess_1", now, 5, "m") == {
        "type": "transcription",
        "object": "realtime.transcription_session",
        "id": "sess_1",
        "expires_at": 5,
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": {"model": "w"},
                "noise_reduction": None,
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 500,
                },
            }
        },
        "include": None,
    }
