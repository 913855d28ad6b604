"""Client messages: what they become, and how those that can't be are refused."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antiphon.codecs import opus
from antiphon.codecs.g711 import ulaw_encode
from antiphon.realtime.client_messages import Append, Message
from antiphon.realtime.dialect import Dialect
from antiphon.realtime.wire_in import Refused, asked_shape, decode, to_event
from antiphon.realtime.wire_items import ECHO_IMAGE_CHARS, item_json
from antiphon.realtime.wire_tools import MAX_TOOLS_CHARS
from antiphon.sessions import events as ev
from antiphon.sessions.errors import ErrorInfo
from antiphon.sessions.items import Item, ItemKind, NewItem, Part, PartKind, Role
from antiphon.sessions.settings import (
    AudioFormat,
    BinaryFormat,
    Eagerness,
    Modality,
    NoiseReduction,
    SessionKind,
    Settings,
    SettingsPatch,
    TranscriptionPatch,
    Truncation,
    TruncationMode,
    TurnDetectionPatch,
    TurnKind,
)
from antiphon.sessions.tools import Tool, ToolChoice, ToolMode

Json = dict[str, Any]
PCM = b"\x01\x00\x02\x00"
BASE64 = b64encode(PCM).decode()
SETTINGS = Settings()
TRANSCRIBING = Settings(kind=SessionKind.TRANSCRIPTION)
TOOL = {
    "type": "function",
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {"type": "object", "properties": {"a": {"type": "number"}}},
}
MADE_TOOL = Tool(
    name="add",
    description="Add two numbers.",
    parameters='{"type":"object","properties":{"a":{"type":"number"}}}',
)


def event(
    message: Json, now: Settings = SETTINGS, dialect: Dialect = Dialect.GA
) -> ev.ClientEvent | None:
    return to_event(decode(msgspec.json.encode(message).decode()), now, dialect)


def refusal(message: Json, now: Settings = SETTINGS, dialect: Dialect = Dialect.GA) -> ErrorInfo:
    with pytest.raises(Refused) as caught:
        event(message, now, dialect)
    return caught.value.error


def update(**session: object) -> Json:
    return {"type": "session.update", "session": session}


def patch(**session: object) -> SettingsPatch:
    return patched(update(**session))


def patched(
    message: Json, now: Settings = SETTINGS, dialect: Dialect = Dialect.GA
) -> SettingsPatch:
    updated = event(message, now, dialect)
    assert isinstance(updated, ev.UpdateSession)
    return updated.patch


def ours(antiphon: object) -> Json:
    return update(antiphon=antiphon)


def report(**members: object) -> Json:
    return {"type": "antiphon.playback.report", "response_id": "r", "played_ms": 1, **members}


def create(*content: Json, role: str | None = "user", **item: object) -> Json:
    made = {"type": "message", "role": role, "content": list(content), **item}
    return {"type": "conversation.item.create", "item": made}


def options(**response: object) -> ev.ResponseOptions:
    made = event({"type": "response.create", "response": response})
    assert isinstance(made, ev.CreateResponse)
    return made.options


# What each message becomes.


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            {"type": "session.update", "session": {}, "event_id": "e"},
            ev.UpdateSession(SettingsPatch(), "e"),
        ),
        (
            {"type": "input_audio_buffer.append", "audio": BASE64, "event_id": "e"},
            ev.AppendAudio(PCM, "e"),
        ),
        ({"type": "input_audio_buffer.commit"}, ev.CommitAudio()),
        ({"type": "input_audio_buffer.clear", "event_id": "e"}, ev.ClearAudio("e")),
        (
            create({"type": "input_text", "text": "hi"}, id="mine") | {"previous_item_id": "root"},
            ev.CreateItem(
                NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, "hi"),), id="mine"), "root"
            ),
        ),
        ({"type": "conversation.item.retrieve", "item_id": "i"}, ev.RetrieveItem("i")),
        (
            {
                "type": "conversation.item.truncate",
                "item_id": "i",
                "content_index": 0,
                "audio_end_ms": 1500,
            },
            ev.TruncateItem("i", 0, 1500),
        ),
        (
            {"type": "conversation.item.delete", "item_id": "i", "event_id": "e"},
            ev.DeleteItem("i", "e"),
        ),
        ({"type": "response.create"}, ev.CreateResponse()),
        ({"type": "response.create", "response": None}, ev.CreateResponse()),
        ({"type": "response.cancel"}, ev.CancelResponse()),
        ({"type": "response.cancel", "response_id": "r"}, ev.CancelResponse("r")),
        (
            {
                "type": "antiphon.playback.report",
                "response_id": "r",
                "played_ms": 20.6,
                "buffered_ms": 3,
            },
            ev.ReportPlayback("r", 21, 3),
        ),
        (
            {
                "type": "antiphon.playback.report",
                "response_id": "r",
                "played_ms": 20,
                "buffered_ms": 0,
                "underruns": 2,
                "gap_ms": 140.4,
                "event_id": "e",
            },
            ev.ReportPlayback("r", 20, 0, 2, 140, "e"),
        ),
    ],
)
def test_every_message_has_its_event(message: Json, expected: ev.ClientEvent) -> None:
    assert event(message) == expected


def test_messages_may_come_as_bytes() -> None:
    assert decode(b'{"type":"input_audio_buffer.append","audio":"AAA="}') == Append(audio=b"\0\0")


def test_members_that_are_unknown_or_change_nothing_are_ignored() -> None:
    stock = update(
        type="realtime",
        model="gpt-realtime",
        tracing="auto",
        prompt={"id": "pmpt_1", "variables": {}},
        reasoning={"effort": "low"},
        parallel_tool_calls=True,
        audio={"input": {"format": None}, "output": {"voice": None}, "spatial": True},
        include=None,
        tools=None,
        tool_choice=None,
        truncation=None,
        instructions=None,
        max_output_tokens=None,
        no_such_member=[1, {"deep": 2}],
    )
    assert event({**stock, "extra": 1}) == ev.UpdateSession(SettingsPatch())


# Settings.


def test_an_update_says_only_what_it_mentions() -> None:
    assert patch() == SettingsPatch()
    assert patch(tools=None) == SettingsPatch()
    assert patch(audio={}) == SettingsPatch()
    assert patch(audio={"input": {}, "output": {}}) == SettingsPatch()


def test_an_update_of_everything() -> None:
    everything = patch(
        instructions="Be brief.",
        output_modalities=["text"],
        audio={
            "input": {
                "format": {"type": "audio/pcmu"},
                "transcription": {
                    "model": "whisper-1",
                    "language": "en",
                    "prompt": "names",
                    "keywords": ["Ada", "Bob"],
                    "delay": "low",
                },
                "noise_reduction": {"type": "far_field", "strength": 0.5},
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.6,
                    "prefix_padding_ms": 200,
                    "silence_duration_ms": 400,
                    "create_response": False,
                    "interrupt_response": False,
                    "idle_timeout_ms": 6000,
                },
            },
            "output": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "voice": "ada",
                "speed": 1.25,
            },
        },
        max_output_tokens=100,
        temperature=0.5,
        tools=[TOOL],
        tool_choice={"type": "function", "name": "add"},
        truncation={
            "type": "retention_ratio",
            "retention_ratio": 0.8,
            "token_limits": {"post_instructions": 900},
        },
        include=["item.input_audio_transcription.logprobs", "no.such"],
        antiphon=False,
    )
    assert everything == SettingsPatch(
        instructions="Be brief.",
        modality=Modality.TEXT,
        input_format=AudioFormat.PCMU,
        output_format=AudioFormat.PCM,
        voice="ada",
        speed=1.25,
        turn_detection=TurnDetectionPatch(
            kind=TurnKind.SERVER_VAD,
            threshold=0.6,
            prefix_padding_ms=200,
            silence_duration_ms=400,
            create_response=False,
            interrupt_response=False,
            idle_timeout_ms=6000,
        ),
        transcription=TranscriptionPatch(
            model="whisper-1", language="en", prompt="names", keywords=("Ada", "Bob")
        ),
        noise_reduction=NoiseReduction.FAR_FIELD,
        max_output_tokens=100,
        temperature=0.5,
        tools=(MADE_TOOL,),
        tool_choice=ToolChoice(mode=ToolMode.FUNCTION, name="add"),
        truncation=Truncation(
            mode=TruncationMode.RETENTION_RATIO, retention_ratio=0.8, post_instructions=900
        ),
        logprobs=True,
        extensions=False,
    )


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        ({"instructions": ""}, SettingsPatch(instructions="")),
        ({"output_modalities": ["audio"]}, SettingsPatch(modality=Modality.AUDIO)),
        ({"max_output_tokens": "inf"}, SettingsPatch(max_output_tokens=None)),
        ({"antiphon": {"words": True}}, SettingsPatch(extensions=True)),
        ({"antiphon": {}}, SettingsPatch(extensions=True)),
        ({"antiphon": True}, SettingsPatch(extensions=True)),
        ({"antiphon": None}, SettingsPatch(extensions=False)),
        (
            {"antiphon": {"binary_audio": True}},
            SettingsPatch(extensions=True, binary_audio=True),
        ),
        (
            {"antiphon": {"binary_audio": False, "binary_format": "opus"}},
            SettingsPatch(extensions=True, binary_audio=False, binary_format=BinaryFormat.OPUS),
        ),
        (
            {"antiphon": {"binary_audio": None, "binary_format": None}},
            SettingsPatch(extensions=True),
        ),
        (
            {"audio": {"input": {"turn_detection": None, "transcription": None}}},
            SettingsPatch(turn_detection=None, transcription=None),
        ),
        (
            {"audio": {"input": {"turn_detection": {"silence_duration_ms": 300}}}},
            SettingsPatch(turn_detection=TurnDetectionPatch(silence_duration_ms=300)),
        ),
        (
            {"audio": {"input": {"transcription": {"language": None}}}},
            SettingsPatch(transcription=TranscriptionPatch(language=None)),
        ),
        ({"audio": {"output": {"voice": {"id": "bob"}}}}, SettingsPatch(voice="bob")),
        (
            {"audio": {"output": {"format": {"type": "audio/pcma", "rate": 8000}}}},
            SettingsPatch(output_format=AudioFormat.PCMA),
        ),
        ({"audio": {"input": None, "output": None}}, SettingsPatch()),
        ({"audio": {"input": {"noise_reduction": None}}}, SettingsPatch(noise_reduction=None)),
        (
            {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}},
            SettingsPatch(turn_detection=TurnDetectionPatch(kind=TurnKind.SEMANTIC_VAD)),
        ),
        (
            {
                "audio": {
                    "input": {
                        "turn_detection": {
                            "type": "semantic_vad",
                            "eagerness": "high",
                            "threshold": None,
                            "prefix_padding_ms": None,
                            "silence_duration_ms": None,
                            "idle_timeout_ms": None,
                            "create_response": None,
                        }
                    }
                }
            },
            SettingsPatch(
                turn_detection=TurnDetectionPatch(
                    kind=TurnKind.SEMANTIC_VAD, eagerness=Eagerness.HIGH, idle_timeout_ms=None
                )
            ),
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "eagerness": None}}}},
            SettingsPatch(turn_detection=TurnDetectionPatch(kind=TurnKind.SERVER_VAD)),
        ),
        (
            {"audio": {"input": {"transcription": {"languages": ["de"], "keywords": None}}}},
            SettingsPatch(transcription=TranscriptionPatch(language="de", keywords=None)),
        ),
        (
            {"audio": {"input": {"transcription": {"languages": ["de", "en"], "model": None}}}},
            SettingsPatch(transcription=TranscriptionPatch()),
        ),
        (
            {"audio": {"input": {"transcription": {"languages": ["de"], "language": "fr"}}}},
            SettingsPatch(transcription=TranscriptionPatch(language="fr")),
        ),
        ({"tools": []}, SettingsPatch(tools=())),
        ({"tools": [{"name": "f"}]}, SettingsPatch(tools=(Tool(name="f"),))),
        (
            {"tool_choice": "required"},
            SettingsPatch(tool_choice=ToolChoice(mode=ToolMode.REQUIRED)),
        ),
        ({"truncation": "auto"}, SettingsPatch(truncation=Truncation())),
        (
            {"truncation": "disabled"},
            SettingsPatch(truncation=Truncation(mode=TruncationMode.DISABLED)),
        ),
        ({"include": []}, SettingsPatch(logprobs=False)),
        # The beta's names are taken in any dialect; those of GA win.
        ({"modalities": ["audio", "text"]}, SettingsPatch(modality=Modality.AUDIO)),
        ({"modalities": ["text"]}, SettingsPatch(modality=Modality.TEXT)),
        (
            {"modalities": ["text"], "output_modalities": ["audio"]},
            SettingsPatch(modality=Modality.AUDIO),
        ),
        ({"voice": "bob", "speed": 0.5}, SettingsPatch(voice="bob", speed=0.5)),
        (
            {"voice": "bob", "audio": {"output": {"voice": "ada"}}},
            SettingsPatch(voice="ada"),
        ),
        (
            {"input_audio_format": "pcm16", "output_audio_format": "g711_alaw"},
            SettingsPatch(input_format=AudioFormat.PCM, output_format=AudioFormat.PCMA),
        ),
        (
            {
                "input_audio_transcription": None,
                "input_audio_noise_reduction": None,
                "turn_detection": None,
            },
            SettingsPatch(transcription=None, noise_reduction=None, turn_detection=None),
        ),
        ({"max_response_output_tokens": "inf"}, SettingsPatch(max_output_tokens=None)),
        ({"max_response_output_tokens": 12}, SettingsPatch(max_output_tokens=12)),
    ],
)
def test_null_inf_and_nested_members(session: Json, expected: SettingsPatch) -> None:
    assert patch(**session) == expected


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        ({"type": "translation"}, "invalid_value", "session.type"),
        (
            {"tools": [TOOL, {"type": "mcp", "server_label": "s"}]},
            "unsupported_value",
            "session.tools[1].type",
        ),
        ({"tools": [{"type": "web_search"}]}, "invalid_value", "session.tools[0].type"),
        ({"tools": [{"type": "function"}]}, "missing_required_parameter", "session.tools[0].name"),
        (
            {"tools": [{**TOOL, "description": "x" * MAX_TOOLS_CHARS}]},
            "string_above_max_length",
            "session.tools",
        ),
        ({"tool_choice": "add"}, "invalid_value", "session.tool_choice"),
        (
            {"tool_choice": {"type": "function"}},
            "missing_required_parameter",
            "session.tool_choice.name",
        ),
        (
            {"tool_choice": {"type": "mcp", "server_label": "s"}},
            "unsupported_value",
            "session.tool_choice.type",
        ),
        ({"tool_choice": {"type": "other"}}, "invalid_value", "session.tool_choice.type"),
        ({"truncation": "some"}, "invalid_value", "session.truncation"),
        ({"truncation": {"type": "auto"}}, "invalid_value", "session.truncation.type"),
        (
            {"truncation": {"type": "retention_ratio"}},
            "missing_required_parameter",
            "session.truncation.retention_ratio",
        ),
        (
            {"audio": {"input": {"noise_reduction": {"type": "loud"}}}},
            "invalid_value",
            "session.audio.input.noise_reduction.type",
        ),
        (
            {"audio": {"input": {"noise_reduction": {}}}},
            "missing_required_parameter",
            "session.audio.input.noise_reduction.type",
        ),
        (
            {"audio": {"input": {"transcription": {"keywords": ["k"] * 129}}}},
            "invalid_value",
            "session.audio.input.transcription.keywords",
        ),
        ({"input_audio_format": "mp3"}, "invalid_value", "session.audio.input.format"),
        ({"modalities": []}, "invalid_value", "session.modalities"),
        ({"output_modalities": ["video"]}, "invalid_value", "session.output_modalities"),
        (
            {"audio": {"input": {"format": {"type": "audio/opus"}}}},
            "invalid_value",
            "session.audio.input.format.type",
        ),
        (
            {"output_modalities": ["audio", "text"]},
            "invalid_value",
            "session.output_modalities",
        ),
        ({"output_modalities": []}, "invalid_value", "session.output_modalities"),
        (
            {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}},
            "invalid_value",
            "session.audio.input.format.rate",
        ),
        (
            {"audio": {"output": {"format": {"type": "audio/pcmu", "rate": 24000}}}},
            "invalid_value",
            "session.audio.output.format.rate",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "psychic"}}}},
            "invalid_value",
            "session.audio.input.turn_detection.type",
        ),
        (
            {"audio": {"input": {"turn_detection": {"eagerness": "extreme"}}}},
            "invalid_value",
            "session.audio.input.turn_detection.eagerness",
        ),
    ],
)
def test_settings_that_this_server_cannot_follow(session: Json, code: str, param: str) -> None:
    error = refusal({**update(**session), "event_id": "e7"})
    assert (error.code, error.param, error.event_id) == (code, param, "e7")
    assert param in error.message


def test_a_refused_name_is_told_what_is_allowed() -> None:
    error = refusal(update(audio={"input": {"turn_detection": {"type": "psychic"}}}))
    assert error.message == (
        "Invalid value for 'session.audio.input.turn_detection.type': 'psychic'. "
        "Allowed: 'server_vad', 'semantic_vad'."
    )


def test_a_function_may_be_chosen_by_its_name_alone_in_the_beta() -> None:
    made = patched(update(tool_choice="add"), dialect=Dialect.BETA)
    assert made.tool_choice == ToolChoice(mode=ToolMode.FUNCTION, name="add")


# The kind of a session.


@pytest.mark.parametrize("kind", list(SessionKind))
def test_an_update_must_be_for_the_kind_of_session(kind: SessionKind) -> None:
    (other,) = set(SessionKind) - {kind}
    now = Settings(kind=kind)
    assert event(update(type=kind.value), now) == ev.UpdateSession(SettingsPatch())
    error = refusal(update(type=other.value), now)
    assert error.param == "session.type"
    assert error.message == (
        f"Passing a {other.value} session update event to a {kind.value} session is not allowed."
    )


def test_what_a_session_that_transcribes_lacks_is_ignored() -> None:
    session = {
        "type": "transcription",
        "instructions": "Sing.",
        "tools": [TOOL],
        "tool_choice": "required",
        "output_modalities": ["text"],
        "audio": {
            "input": {"transcription": {"model": "m"}, "noise_reduction": {"type": "near_field"}},
            "output": {"voice": "bob"},
        },
        "include": ["item.input_audio_transcription.logprobs"],
    }
    assert patched(update(**session), TRANSCRIBING) == SettingsPatch(
        transcription=TranscriptionPatch(model="m"),
        noise_reduction=NoiseReduction.NEAR_FIELD,
        logprobs=True,
    )


def test_the_update_of_a_transcription_in_the_beta() -> None:
    message = {
        "type": "transcription_session.update",
        "session": {
            "input_audio_format": "g711_ulaw",
            "input_audio_transcription": {"model": "m", "language": "de"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
            "modalities": ["text"],
        },
    }
    assert patched(message, TRANSCRIBING) == SettingsPatch(
        input_format=AudioFormat.PCMU,
        transcription=TranscriptionPatch(model="m", language="de"),
        turn_detection=TurnDetectionPatch(kind=TurnKind.SERVER_VAD, silence_duration_ms=300),
    )
    error = refusal(message)
    assert error.param == "type"
    assert "transcription session update event to a realtime session" in error.message


@pytest.mark.parametrize(
    ("message", "shape"),
    [
        (update(), None),
        (update(instructions="", tools=[]), None),
        (update(type="realtime"), Dialect.GA),
        (update(audio={}), Dialect.GA),
        (update(type="realtime", voice="ada"), Dialect.GA),
        (update(voice="ada"), Dialect.BETA),
        (update(turn_detection=None), Dialect.BETA),
        (update(modalities=["text"]), Dialect.BETA),
        ({"type": "transcription_session.update", "session": {}}, Dialect.BETA),
        ({"type": "response.create", "response": {"modalities": ["text"]}}, None),
    ],
)
def test_updates_show_a_dialect(message: Json, shape: Dialect | None) -> None:
    assert asked_shape(decode(msgspec.json.encode(message))) is shape


# Items.


def test_parts_of_every_role() -> None:
    system = event(create({"type": "input_text", "text": "Rules."}, role="system"))
    assert isinstance(system, ev.CreateItem)
    assert system.item.parts == (Part(PartKind.INPUT_TEXT, "Rules."),)
    user = event(
        create({"type": "input_text", "text": "a"}, {"type": "input_audio", "audio": BASE64})
    )
    assert isinstance(user, ev.CreateItem)
    assert user.item.parts == (Part(PartKind.INPUT_TEXT, "a"), Part(PartKind.INPUT_AUDIO, None))
    assert user.item.audio == PCM
    assistant = event(
        create(
            {"type": "output_text", "text": "a"},
            {"type": "text", "text": "b"},
            {"type": "output_audio", "transcript": "c", "audio": BASE64},
            {"type": "audio", "transcript": "d", "audio": BASE64},
            role="assistant",
        )
    )
    assert isinstance(assistant, ev.CreateItem)
    assert [part.text for part in assistant.item.parts] == ["a", "b", "c", "d"]
    assert assistant.item.audio == PCM + PCM


def test_audio_of_a_user_may_come_as_its_transcript_alone() -> None:
    made = event(create({"type": "input_audio", "transcript": "said"}))
    assert isinstance(made, ev.CreateItem)
    assert made.item == NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_AUDIO, "said"),))


def test_audio_of_items_has_the_sessions_formats() -> None:
    now = Settings(input_format=AudioFormat.PCMU, output_format=AudioFormat.PCM)
    sent = b64encode(ulaw_encode(b"\0\0" * 800)).decode()
    heard = event(create({"type": "input_audio", "audio": sent}), now)
    assert isinstance(heard, ev.CreateItem)
    assert heard.item.audio == b"\0\0" * 2400
    spoken = event(create({"type": "output_audio", "audio": BASE64}, role="assistant"), now)
    assert isinstance(spoken, ev.CreateItem)
    assert spoken.item.audio == PCM


def test_audio_in_a_part_that_is_text_is_ignored() -> None:
    made = event(create({"type": "input_text", "text": "a", "audio": "AA=="}))
    assert isinstance(made, ev.CreateItem)
    assert made.item.audio == b""


def test_the_betas_names_of_parts() -> None:
    made = event(create({"type": "text", "text": "a"}, {"type": "audio", "audio": BASE64}))
    assert isinstance(made, ev.CreateItem)
    assert [p.kind for p in made.item.parts] == [PartKind.INPUT_TEXT, PartKind.INPUT_AUDIO]


PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
JPEG = "data:image/jpeg;base64,/9j/4AAQSkZJRg=="


def image(**members: object) -> Json:
    return create({"type": "input_image", **members})


@pytest.mark.parametrize(("url", "detail"), [(PNG, "low"), (JPEG, None)])
def test_images(url: str, detail: str | None) -> None:
    made = event(image(image_url=url, detail=detail))
    assert isinstance(made, ev.CreateItem)
    (part,) = made.item.parts
    assert part == Part(PartKind.INPUT_IMAGE, image_url=url, detail=detail or "auto")


def test_a_long_image_is_not_echoed() -> None:
    part = Part(PartKind.INPUT_IMAGE, image_url=PNG + "A" * ECHO_IMAGE_CHARS, detail="auto")
    item = Item(id="i", role=Role.USER, parts=(part,))
    assert item_json(item, transcribed=False)["content"] == [
        {"type": "input_image", "detail": "auto"}
    ]
    whole = item_json(item, transcribed=False, whole=True)
    assert whole["content"][0]["image_url"] == part.image_url


def call(**item: object) -> Json:
    return {"type": "conversation.item.create", "item": item}


def test_calls_and_their_outputs() -> None:
    said = {"object": "realtime.item", "status": "completed"}
    asked = call(type="function_call", id="i", call_id="c", name="add", arguments="{}", **said)
    assert event(asked) == ev.CreateItem(
        NewItem(kind=ItemKind.FUNCTION_CALL, id="i", call_id="c", name="add", arguments="{}")
    )
    unnamed = event(call(type="function_call", name="add", arguments=""))
    assert isinstance(unnamed, ev.CreateItem)
    assert unnamed.item.call_id is None
    gave = call(type="function_call_output", call_id="c", output="3", **said)
    assert event(gave) == ev.CreateItem(
        NewItem(kind=ItemKind.FUNCTION_OUTPUT, call_id="c", output="3")
    )


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        (call(type="item_reference", id="i"), "invalid_value", "item.type"),
        (call(type="mcp_call", id="i"), "unsupported_value", "item.type"),
        (call(type="mcp_approval_response"), "unsupported_value", "item.type"),
        (call(type="function_call", arguments=""), "missing_required_parameter", "item.name"),
        (call(type="function_call", name="f"), "missing_required_parameter", "item.arguments"),
        (
            call(type="function_call_output", output=""),
            "missing_required_parameter",
            "item.call_id",
        ),
        (
            call(type="function_call_output", call_id="c"),
            "missing_required_parameter",
            "item.output",
        ),
        (
            call(type="function_call_output", call_id="c", output={"a": 1}),
            "invalid_value",
            "item.output",
        ),
        (image(), "missing_required_parameter", "item.content[0].image_url"),
        (image(image_url="https://x/y.png"), "invalid_value", "item.content[0].image_url"),
        (
            image(image_url="data:image/png;base64,AAAA"),
            "invalid_value",
            "item.content[0].image_url",
        ),
        (image(image_url=PNG, detail="original"), "invalid_value", "item.content[0].detail"),
        (create(role="tool"), "invalid_value", "item.role"),
        (create(role=None), "missing_required_parameter", "item.role"),
        (create(), "invalid_value", "item.content"),
        (
            create({"type": "input_image"}, role="assistant"),
            "invalid_value",
            "item.content[0].type",
        ),
        (
            create({"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}),
            "invalid_value",
            "item.content[1].type",
        ),
        (
            create({"type": "input_audio", "audio": BASE64}, role="system"),
            "invalid_value",
            "item.content[0].type",
        ),
        (create({"type": "input_text"}), "missing_required_parameter", "item.content[0].text"),
        (create({"type": "input_audio"}), "missing_required_parameter", "item.content[0].audio"),
        (
            create({"type": "input_text", "text": "a"}, {"type": "input_audio", "audio": "AA=="}),
            "invalid_value",
            "item.content[1].audio",
        ),
        (create({"type": "input_text", "text": "a"}, id=""), "invalid_value", "item.id"),
        (create({"type": "input_text", "text": "a"}, id="x" * 65), "invalid_value", "item.id"),
    ],
)
def test_items_that_cannot_be(message: Json, code: str, param: str) -> None:
    error = refusal({**message, "event_id": "e"})
    assert (error.code, error.param, error.event_id) == (code, param, "e")


# Options of a response.


def test_options_of_a_response() -> None:
    assert options() == ev.ResponseOptions()
    assert options(
        conversation="auto",
        instructions="Sing.",
        output_modalities=["text"],
        audio={"output": {"format": {"type": "audio/pcmu"}, "voice": "bob"}},
        max_output_tokens=12,
        metadata={"k": "v", "l": ""},
        tools=[TOOL],
        tool_choice="none",
        temperature=1,
    ) == ev.ResponseOptions(
        instructions="Sing.",
        modality=Modality.TEXT,
        voice="bob",
        output_format=AudioFormat.PCMU,
        max_output_tokens=12,
        metadata=(("k", "v"), ("l", "")),
        tools=(MADE_TOOL,),
        tool_choice=ToolChoice(mode=ToolMode.NONE),
        temperature=1.0,
    )
    assert options(
        modalities=["audio", "text"],
        voice="bob",
        output_audio_format="g711_ulaw",
        max_response_output_tokens=7,
        temperature=0.9,
    ) == ev.ResponseOptions(
        modality=Modality.AUDIO,
        voice="bob",
        output_format=AudioFormat.PCMU,
        max_output_tokens=7,
        temperature=0.9,
    )
    assert options(audio={"input": {}}) == ev.ResponseOptions()
    assert options(max_output_tokens="inf") == ev.ResponseOptions()


def test_what_a_response_answers() -> None:
    assert options(conversation="none", input=[]) == ev.ResponseOptions(out_of_band=True, input=())
    message = create({"type": "input_text", "text": "hi"})["item"]
    given = options(input=[message, {"type": "item_reference", "id": "i"}]).input
    assert given == (
        NewItem(role=Role.USER, parts=(Part(PartKind.INPUT_TEXT, "hi"),)),
        ev.ItemReference("i"),
    )


def test_output_that_the_client_plays_is_not_cleared_here() -> None:
    assert event({"type": "output_audio_buffer.clear"}) is None


def test_the_largest_metadata_is_taken() -> None:
    largest = {f"{number:064}": "v" * 512 for number in range(16)}
    assert options(metadata=largest).metadata == tuple(largest.items())


@pytest.mark.parametrize(
    ("response", "code", "param"),
    [
        ({"conversation": "conv_1"}, "invalid_value", "response.conversation"),
        ({"tools": [{"type": "mcp"}]}, "unsupported_value", "response.tools[0].type"),
        ({"tool_choice": "some"}, "invalid_value", "response.tool_choice"),
        (
            {"input": [{"type": "item_reference"}]},
            "missing_required_parameter",
            "response.input[0].id",
        ),
        (
            {"input": [{"type": "message", "role": "user", "content": [{"type": "video"}]}]},
            "invalid_value",
            "response.input[0].content[0].type",
        ),
        (
            {"input": [{"type": "item_reference", "id": "i"}] * 2001},
            "invalid_value",
            "response.input",
        ),
        ({"output_modalities": []}, "invalid_value", "response.output_modalities"),
        (
            {"audio": {"output": {"format": {"type": "audio/pcma", "rate": 1}}}},
            "invalid_value",
            "response.audio.output.format.rate",
        ),
        ({"metadata": {str(n): "" for n in range(17)}}, "invalid_value", "response.metadata"),
        ({"metadata": {"k" * 65: ""}}, "invalid_value", "response.metadata"),
        ({"metadata": {"k": "v" * 513}}, "invalid_value", "response.metadata"),
    ],
)
def test_options_that_cannot_be(response: Json, code: str, param: str) -> None:
    error = refusal({"type": "response.create", "response": response, "event_id": "e"})
    assert (error.code, error.param, error.event_id) == (code, param, "e")


# What is no message.


@pytest.mark.parametrize(
    "text", ["", "{", "hello", '{"type":"input_audio_buffer.clear"} x', '"\ud800"', b"\xff\xfe"]
)
def test_what_is_no_json(text: str | bytes) -> None:
    with pytest.raises(Refused) as caught:
        decode(text)
    assert caught.value.error == ErrorInfo("invalid_json", "The message is not valid JSON.")
    assert str(caught.value) == caught.value.error.message


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"session.update","session":{"antiphon":' + "[" * 100_000,
        '{"type":"session.update","session":3,"a":' + "[" * 100_000,
    ],
)
def test_nesting_without_end(text: str) -> None:
    with pytest.raises(Refused) as caught:
        decode(text)
    error = caught.value.error
    assert error.code in ("invalid_json", "invalid_value", "missing_required_parameter")


def test_nesting_that_is_parsed_and_yet_too_deep() -> None:
    """A schema that was parsed has to be written again, with less of the stack left."""
    schema = '{"a":' * 900 + "1" + "}" * 900
    message = decode(
        '{"type":"session.update","event_id":"e","session":{"tools":[{"name":"f","parameters":'
        f"{schema}}}]}}}}"
    )

    def called_from(depth: int) -> ev.ClientEvent | None:
        return called_from(depth - 1) if depth else to_event(message, SETTINGS)

    with pytest.raises(Refused) as caught:
        called_from(300)
    assert (caught.value.error.code, caught.value.error.event_id) == ("invalid_json", "e")


@pytest.mark.parametrize("text", ["{}", "[]", "7", "null", '{"type":null}'])
def test_a_message_without_a_type(text: str) -> None:
    with pytest.raises(Refused) as caught:
        decode(text)
    assert caught.value.error == ErrorInfo(
        "missing_required_parameter", "Missing required parameter: 'type'.", "type"
    )


@pytest.mark.parametrize("name", ["no.such.event", "", 3, ["session.update"]])
def test_an_unknown_type_is_told_what_there_is(name: object) -> None:
    error = refusal({"event_id": "e", "type": name})
    assert (error.code, error.param, error.event_id) == ("invalid_value", "type", "e")
    assert "input_audio_buffer.append, " in error.message


def test_a_long_type_is_not_echoed_whole() -> None:
    error = refusal({"type": "x" * 100_000})
    assert "x" * 64 + "'" in error.message
    assert len(error.message) < 1000


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        (
            {"type": "input_audio_buffer.append", "audio": "no base64!"},
            "invalid_value",
            "audio",
        ),
        ({"type": "input_audio_buffer.append", "audio": "AAA"}, "invalid_value", "audio"),
        ({"type": "input_audio_buffer.append", "audio": 3}, "invalid_value", "audio"),
        ({"type": "input_audio_buffer.append"}, "missing_required_parameter", "audio"),
        ({"type": "session.update"}, "missing_required_parameter", "session"),
        ({"type": "session.update", "session": "x"}, "invalid_value", "session"),
        (update(instructions=3), "invalid_value", "session.instructions"),
        (update(max_output_tokens=1.5), "invalid_value", "session.max_output_tokens"),
        (update(output_modalities=[1]), "invalid_value", "session.output_modalities[0]"),
        (update(tools=[TOOL, 3]), "invalid_value", "session.tools[1]"),
        (
            update(tools=[{**TOOL, "parameters": "{}"}]),
            "invalid_value",
            "session.tools[0].parameters",
        ),
        (
            update(turn_detection={"threshold": "x"}),
            "invalid_value",
            "session.turn_detection.threshold",
        ),
        (
            update(audio={"input": {"format": {}}}),
            "missing_required_parameter",
            "session.audio.input.format.type",
        ),
        (
            update(audio={"input": {"turn_detection": {"create_response": "yes"}}}),
            "invalid_value",
            "session.audio.input.turn_detection.create_response",
        ),
        (
            update(audio={"output": {"voice": {}}}),
            "missing_required_parameter",
            "session.audio.output.voice.id",
        ),
        (
            create({"type": "input_text", "text": "a"}, {"type": "input_text", "text": {}}),
            "invalid_value",
            "item.content[1].text",
        ),
        (
            {"type": "response.create", "response": {"metadata": {"k": 1}}},
            "invalid_value",
            "response.metadata[...]",
        ),
        (
            {"type": "antiphon.playback.report", "response_id": "r", "played_ms": -1},
            "invalid_value",
            "played_ms",
        ),
        (report(underruns=-1), "invalid_value", "underruns"),
        (report(underruns=1.5), "invalid_value", "underruns"),
        (report(underruns=2_000_000_000), "invalid_value", "underruns"),
        (report(gap_ms=-0.5), "invalid_value", "gap_ms"),
        (report(gap_ms=1e300), "invalid_value", "gap_ms"),
        (report(buffered_ms="much"), "invalid_value", "buffered_ms"),
        (ours("yes"), "invalid_value", "session.antiphon"),
        (ours({"binary_audio": 1}), "invalid_value", "session.antiphon.binary_audio"),
        (ours({"binary_format": 7}), "invalid_value", "session.antiphon.binary_format"),
        (ours({"binary_format": "mp3"}), "invalid_value", "session.antiphon.binary_format"),
    ],
)
def test_wrong_types_are_named_at_any_depth(message: Json, code: str, param: str) -> None:
    error = refusal({**message, "event_id": "e"})
    assert (error.code, error.param, error.event_id) == (code, param, "e")
    assert error.type == "invalid_request_error"


def test_opus_is_refused_by_name_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opus, "installed", lambda: False)
    error = refusal(ours({"binary_format": "opus"}))
    assert (error.code, error.param) == ("unsupported_value", "session.antiphon.binary_format")
    assert "'pcm16'" in error.message
    assert patched(ours({"binary_format": "pcm16"})).binary_format is BinaryFormat.PCM16


@pytest.mark.parametrize("event_id", [3, "x" * 513])
def test_an_event_id_that_is_none(event_id: object) -> None:
    error = refusal({"type": "input_audio_buffer.clear", "event_id": event_id})
    assert (error.code, error.param) == ("invalid_value", "event_id")


# Whatever comes.

_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=12)
)
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
_TYPES = [str(kind.__struct_config__.tag) for kind in Message.__args__]
_MEMBERS = (
    "event_id session audio item previous_item_id item_id content_index audio_end_ms response "
    "response_id played_ms type role content input output format voice turn_detection "
    "transcription metadata instructions max_output_tokens antiphon tools tool_choice name "
    "parameters truncation modalities include call_id arguments image_url temperature"
).split()
_members = st.recursive(
    _scalars | st.sampled_from(["message", "user", "assistant", "input_text", "AAA=", "audio/pcm"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_MEMBERS), inner, max_size=5)
    ),
    max_leaves=12,
)


def _message(kind: str, members: Json) -> Json:
    return {**members, "type": kind}


_messages = st.builds(
    _message,
    st.sampled_from(_TYPES),
    st.dictionaries(st.sampled_from(_MEMBERS), _members, max_size=6),
)


def outcome(text: str | bytes) -> ev.ClientEvent | ErrorInfo | None:
    try:
        return to_event(decode(text), SETTINGS)
    except Refused as refused:
        return refused.error


def understood_or_refused(text: str | bytes) -> None:
    made = outcome(text)
    assert isinstance(made, ev.ClientEvent | ErrorInfo | None)
    if isinstance(made, ErrorInfo):
        # It can be told to the client, whatever of its message it quotes.
        assert msgspec.json.encode(made)
        assert made.code


@settings(deadline=None)
@given(_json | _messages)
def test_any_json_is_understood_or_refused(message: object) -> None:
    understood_or_refused(msgspec.json.encode(message))


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=100))
@example('{"type":"\\ud800"}')
@example(b'{"type":"\xff"}')
@example('{"type":"antiphon.playback.report","response_id":"a","played_ms":1e999}')
@example('{"type":"response.create","response":{"max_output_tokens":' + "9" * 5000 + "}}")
def test_any_bytes_are_understood_or_refused(text: str | bytes) -> None:
    understood_or_refused(text)
