"""The beta's dialect: what is told in it, and over a whole connection."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.fakes import FakePipeline, spoken
from tests.support.loop import run_simulated
from tests.support.rig import CAN, LISTENING, PUSH_TO_TALK, served

from antiphon.engines.chunks import CallDelta, End, EndReason
from antiphon.realtime.beta import beta_event, beta_item, beta_response, beta_session
from antiphon.realtime.dialect import Dialect
from antiphon.realtime.wire_session import session_object
from antiphon.sessions.settings import (
    AudioFormat,
    Modality,
    NoiseReduction,
    SessionKind,
    Settings,
    Transcription,
    TurnDetection,
)
from antiphon.sessions.tools import Tool, ToolChoice, ToolMode

Json = dict[str, Any]

GA_RESPONSE: Json = {
    "object": "realtime.response",
    "id": "resp_1",
    "status": "completed",
    "status_details": None,
    "output": [],
    "conversation_id": None,
    "output_modalities": ["audio"],
    "max_output_tokens": "inf",
    "audio": {"output": {"format": {"type": "audio/pcma"}, "voice": "ada"}},
    "usage": None,
    "metadata": None,
}


# Events.


@pytest.mark.parametrize(
    ("ga", "beta"),
    [
        ("response.output_text.delta", "response.text.delta"),
        ("response.output_audio.done", "response.audio.done"),
        ("response.output_audio_transcript.delta", "response.audio_transcript.delta"),
        ("response.output_item.added", "response.output_item.added"),
        ("input_audio_buffer.committed", "input_audio_buffer.committed"),
        ("antiphon.word", "antiphon.word"),
    ],
)
def test_names_of_events(ga: str, beta: str) -> None:
    assert beta_event(ga, {"a": 1}) == (beta, {"a": 1})


def test_an_item_is_told_once() -> None:
    item = {"id": "i", "type": "message", "content": [{"type": "output_audio", "transcript": "a"}]}
    told = beta_event("conversation.item.added", {"item": item, "previous_item_id": None})
    assert told == (
        "conversation.item.created",
        {
            "item": {**item, "content": [{"type": "audio", "transcript": "a"}]},
            "previous_item_id": None,
        },
    )
    assert beta_event("conversation.item.done", {"item": item}) is None


def test_parts_that_the_person_made_keep_their_names() -> None:
    content = [{"type": "input_text", "text": ""}, {"type": "output_text", "text": ""}]
    told = beta_item({"content": content})["content"]
    assert [part["type"] for part in told] == ["input_text", "text"]
    assert beta_item({"type": "function_call"}) == {"type": "function_call"}


def test_the_end_of_a_calls_arguments_has_no_name() -> None:
    body = {"call_id": "c", "name": "f", "arguments": "{}"}
    assert beta_event("response.function_call_arguments.done", body) == (
        "response.function_call_arguments.done",
        {"call_id": "c", "arguments": "{}"},
    )


@pytest.mark.parametrize(
    ("ga", "beta"),
    [
        ("session.audio.output.voice", "session.voice"),
        ("session.audio.input.turn_detection.threshold", "session.turn_detection.threshold"),
        ("session.audio.input.format", "session.input_audio_format"),
        ("session.output_modalities", "session.modalities"),
        ("response.max_output_tokens", "response.max_response_output_tokens"),
        ("session.instructions", "session.instructions"),
        ("item.content[0].type", "item.content[0].type"),
    ],
)
def test_errors_name_members_as_the_client_does(ga: str, beta: str) -> None:
    error = {"param": ga, "message": f"{ga} must be nice.", "code": "c"}
    assert beta_event("error", {"error": error}) == (
        "error",
        {"error": {"param": beta, "message": f"{beta} must be nice.", "code": "c"}},
    )


def test_an_error_that_names_nothing_stays_as_it_is() -> None:
    error = {"param": None, "message": "No."}
    assert beta_event("error", {"error": error}) == ("error", {"error": error})


def test_a_response_is_flat() -> None:
    told = beta_response(GA_RESPONSE, None)
    assert told["modalities"] == ["text", "audio"]
    assert (told["voice"], told["output_audio_format"], told["temperature"]) == (
        "ada",
        "g711_alaw",
        0.8,
    )
    assert "audio" not in told
    assert "output_modalities" not in told
    assert beta_response({**GA_RESPONSE, "output_modalities": ["text"]}, 1.1)["modalities"] == [
        "text"
    ]


def test_a_session_is_flat() -> None:
    settings = Settings(
        modality=Modality.TEXT,
        voice="ada",
        input_format=AudioFormat.PCMU,
        output_format=AudioFormat.PCM,
        noise_reduction=NoiseReduction.NEAR_FIELD,
        transcription=Transcription(model="w", keywords=("k",)),
        turn_detection=TurnDetection(idle_timeout_ms=6000),
        tools=(Tool(name="f"),),
        tool_choice=ToolChoice(mode=ToolMode.FUNCTION, name="f"),
        temperature=0.6,
    )
    assert session_object("sess_1", settings, 5, "m", Dialect.BETA) == {
        "id": "sess_1",
        "object": "realtime.session",
        "model": "m",
        "expires_at": 5,
        "modalities": ["text"],
        "instructions": "",
        "voice": "ada",
        "speed": 1.0,
        "input_audio_format": "g711_ulaw",
        "output_audio_format": "pcm16",
        "input_audio_transcription": {"model": "w"},
        "input_audio_noise_reduction": {"type": "near_field"},
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 500,
            "create_response": True,
            "interrupt_response": True,
        },
        "include": None,
        "tools": [{"type": "function", "name": "f", "description": "", "parameters": {}}],
        "tool_choice": "f",
        "temperature": 0.6,
        "max_response_output_tokens": "inf",
        "tracing": None,
        "client_secret": None,
    }


def test_a_session_that_transcribes_is_flat() -> None:
    settings = Settings(kind=SessionKind.TRANSCRIPTION, turn_detection=None)
    session = session_object("sess_1", settings, 5, "m")
    told = beta_session(session, None)
    assert told == session_object("sess_1", settings, 5, "m", Dialect.BETA)
    assert told == {
        "id": "sess_1",
        "object": "realtime.transcription_session",
        "expires_at": 5,
        "input_audio_format": "pcm16",
        "input_audio_transcription": None,
        "input_audio_noise_reduction": None,
        "turn_detection": None,
        "include": None,
        "client_secret": None,
    }


# A connection.

BETA_TURN = [
    "session.created",
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.created",
    "response.created",
    "rate_limits.updated",
    "response.output_item.added",
    "conversation.item.created",
    "response.content_part.added",
    "response.audio_transcript.delta",
    "response.audio.done",
    "response.audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.done",
]


def test_a_spoken_turn_has_the_names_of_the_beta() -> None:
    async def main() -> None:
        async with served(dialect=Dialect.BETA) as rig:
            rig.speak()
            await rig.socket.wait_for("response.done")
            kinds = [kind for kind in rig.socket.kinds if kind != "response.audio.delta"]
            assert kinds == BETA_TURN
            assert rig.socket.of("response.audio.delta")
            assert rig.socket.events[0]["session"]["voice"] == "ada"

    run_simulated(main())


def test_a_flat_update_makes_it_the_beta() -> None:
    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            session = {"modalities": ["text"], "temperature": 0.7, "max_response_output_tokens": 9}
            rig.socket.put("session.update", session=session)
            updated = (await rig.socket.wait_for("session.updated"))["session"]
            assert updated.items() >= session.items()
            rig.socket.put("response.create", response={"modalities": ["text"]})
            done = (await rig.socket.wait_for("response.done"))["response"]
            assert (done["modalities"], done["temperature"]) == (["text"], 0.7)
            assert done["output"][0]["content"] == [{"type": "text", "text": "hello there"}]
            assert rig.socket.of("response.text.done")
            # What GA names no longer decides.
            rig.socket.put("session.update", session={"type": "realtime"})
            assert "voice" in (await rig.socket.wait_for("session.updated", 2))["session"]

    run_simulated(main())


def test_an_update_of_ga_overrides_the_header() -> None:
    async def main() -> None:
        async with served(settings=PUSH_TO_TALK, dialect=Dialect.BETA) as rig:
            assert "voice" in rig.socket.events[0]["session"]
            rig.socket.put("session.update", session={"type": "realtime"})
            assert (await rig.socket.wait_for("session.updated"))["session"]["type"] == "realtime"
            rig.socket.put("response.create")
            await rig.socket.wait_for("response.output_audio.done")
            await rig.socket.wait_for("response.done")
            assert not rig.socket.of("conversation.item.created")

    run_simulated(main())


def test_a_refusal_names_the_betas_member() -> None:
    async def main() -> None:
        async with served(settings=LISTENING, dialect=Dialect.BETA) as rig:
            turns = {"type": "server_vad", "threshold": 7}
            rig.socket.put("session.update", event_id="e", session={"turn_detection": turns})
            error = (await rig.socket.wait_for("error"))["error"]
            assert (error["param"], error["event_id"]) == ("session.turn_detection.threshold", "e")
            rig.socket.put("session.update", session={"turn_detection": {"threshold": "x"}})
            error = (await rig.socket.wait_for("error", 2))["error"]
            assert error["param"] == "session.turn_detection.threshold"

    run_simulated(main())


def test_a_call_in_the_beta() -> None:
    call = (CallDelta(0, "f", '{"a":', False), CallDelta(0, "f", "1}", True))
    steps = (*call, End(EndReason.COMPLETED))

    async def main() -> None:
        async with served(FakePipeline(replies=[steps]), settings=PUSH_TO_TALK) as rig:
            tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
            rig.socket.put("session.update", session={"voice": "ada", "tools": [tool]})
            rig.socket.put("response.create", response={"tool_choice": "f"})
            done = await rig.socket.wait_for("response.function_call_arguments.done")
            assert "name" not in done
            assert done["arguments"] == '{"a":1}'
            (item,) = (await rig.socket.wait_for("response.done"))["response"]["output"]
            assert (item["type"], item["name"]) == ("function_call", "f")

    run_simulated(main())


def test_a_transcription_session_in_the_beta() -> None:
    settings = Settings(
        kind=SessionKind.TRANSCRIPTION,
        voice="ada",
        turn_detection=None,
        transcription=Transcription(model="whisper-1"),
    )

    async def main() -> None:
        async with served(
            FakePipeline(replies=[spoken("never")]),
            settings=settings,
            can=CAN,
            dialect=Dialect.BETA,
            first="transcription_session.created",
        ) as rig:
            session = {"input_audio_transcription": {"language": "en"}}
            rig.socket.put("transcription_session.update", session=session)
            updated = await rig.socket.wait_for("transcription_session.updated")
            assert updated["session"]["input_audio_transcription"] == {
                "model": "whisper-1",
                "language": "en",
            }

    run_simulated(main())
