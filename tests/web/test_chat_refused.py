"""What a chat may not ask for: refused by name, ahead of any work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.fakes import FakePipeline

from antiphon.web.chat import PATH

from .chatting import ALOUD, HELLO, said, user, visitor, wav
from .visitor import Visitor

Json = dict[str, Any]

APPEND_BYTES = 40_000
BODY_BYTES = APPEND_BYTES * 3 // 2
CHARS = 200
ITEMS = 6

TOOL: Json = {"type": "function", "function": {"name": "f"}}
CALL: Json = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.fixture(scope="module")
def pipeline() -> FakePipeline:
    return FakePipeline()


@pytest.fixture(scope="module")
def client(pipeline: FakePipeline) -> Iterator[Visitor]:
    with visitor(pipeline, append_bytes=APPEND_BYTES, text_chars=CHARS, items=ITEMS) as each:
        yield each


def refused(client: Visitor, pipeline: FakePipeline, asked: Json) -> Json:
    """The error, having seen that nothing was begun."""
    before = len(pipeline.requests)
    answer = client.post(PATH, json=asked)
    assert answer.status_code == 400, answer.text
    error: Json = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert len(pipeline.requests) == before
    return error


@pytest.mark.parametrize(
    ("asked", "param", "says"),
    [
        ({"model": 3}, "model", "expected `str"),
        ({"messages": None}, "messages", "expected `array`"),
        ({"stream": "yes"}, "stream", "expected `bool"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "only with stream"),
        ({"modalities": ["video"]}, "modalities", "'text', 'audio'"),
        ({"modalities": ["audio"]}, "modalities", "['text', 'audio']"),
        ({"modalities": []}, "modalities", "['text']"),
        ({"modalities": ["text", "audio"]}, "audio", "Missing"),
        (ALOUD | {"audio": {"voice": "alloy"}}, "audio.format", "Missing"),
        (ALOUD | {"audio": {"format": "wav"}}, "audio.voice", "Missing"),
        (ALOUD | {"audio": {"voice": "carol", "format": "wav"}}, "audio.voice", "'ada', 'bob'"),
        (ALOUD | {"audio": {"voice": {"id": "carol"}, "format": "wav"}}, "audio.voice", "'ada'"),
        (ALOUD | {"audio": {"voice": "ada", "format": "pcm"}}, "audio.format", "'pcm16'"),
        ({"temperature": 2.1}, "temperature", "from 0 to 2"),
        ({"temperature": -1}, "temperature", "from 0 to 2"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_completion_tokens": -3}, "max_completion_tokens", "at least 1"),
        ({"max_completion_tokens": 3, "max_tokens": 4}, "max_tokens", "one of them"),
        ({"n": 2}, "n", "one answer"),
        ({"top_p": 0.5}, "top_p", "temperature"),
        ({"presence_penalty": 0.1}, "presence_penalty", "avoid"),
        ({"frequency_penalty": -0.1}, "frequency_penalty", "avoid"),
        ({"logit_bias": {"50256": -100}}, "logit_bias", "tokens"),
        ({"seed": 0}, "seed", "drawn"),
        ({"stop": "\n"}, "stop", "stop"),
        ({"stop": ["a"]}, "stop", "stop"),
        ({"logprobs": True}, "logprobs", "probabilities"),
        ({"top_logprobs": 2}, "top_logprobs", "probabilities"),
        ({"store": True}, "store", "stored"),
        ({"service_tier": "flex"}, "service_tier", "'auto'"),
        ({"reasoning_effort": "high"}, "reasoning_effort", "reason"),
        ({"verbosity": "low"}, "verbosity", "system message"),
        ({"web_search_options": {}}, "web_search_options", "web"),
        ({"moderation": {"model": "m"}}, "moderation", "moderated"),
        ({"functions": [{"name": "f"}]}, "functions", "tools"),
        ({"function_call": {"name": "f"}}, "function_call", "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format.type", "JSON"),
        ({"response_format": {"type": "json_schema"}}, "response_format.type", "function"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "'text'"),
    ],
)
def test_parameters(
    client: Visitor, pipeline: FakePipeline, asked: Json, param: str, says: str
) -> None:
    error = refused(client, pipeline, HELLO | asked)
    assert error["param"] == param
    assert says in error["message"]


FUNCTIONS: list[tuple[Json, str, str]] = [
    ({"tools": [TOOL, {"type": "custom"}]}, "tools[1].type", "'function'"),
    ({"tools": [{"type": "web"}]}, "tools[0].type", "'function'"),
    ({"tools": [{"type": "function"}]}, "tools[0].function", "Missing"),
    (
        {"tools": [TOOL, {"type": "function", "function": {}}]},
        "tools[1].function.name",
        "Missi",
    ),
    (
        {"tools": [{"type": "function", "function": {"name": "a b"}}]},
        "tools[0].function.name",
        "A-Z",
    ),
    ({"tools": [TOOL, TOOL]}, "tools[1].function.name", "two tools"),
    (
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}
            ]
        },
        "tools[0].function.parameters",
        "object",
    ),
    ({"tools": [TOOL] * 129}, "tools", "at most 128"),
    ({"tool_choice": "sometimes"}, "tool_choice", "'required'"),
    ({"tool_choice": "required"}, "tool_choice", "no tools"),
    (
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        "tool_choice",
        "'g'",
    ),
    ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.function", "Missing"),
    (
        {"tool_choice": {"type": "custom", "custom": {"name": "x"}}},
        "tool_choice.type",
        "custom",
    ),
    ({"tool_choice": {"type": "mcp"}}, "tool_choice.type", "'allowed_tools'"),
    ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools", "Missing"),
    (
        {
            "tools": [TOOL],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "none", "tools": []},
            },
        },
        "tool_choice.allowed_tools.mode",
        "'auto'",
    ),
    (
        {
            "tools": [TOOL],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [TOOL, {"type": "function", "function": {"name": "g"}}],
                },
            },
        },
        "tool_choice.allowed_tools.tools[1].function.name",
        "'f'",
    ),
]


@pytest.mark.parametrize(
    ("asked", "param", "says"),
    FUNCTIONS,
)
def test_functions(
    client: Visitor, pipeline: FakePipeline, asked: Json, param: str, says: str
) -> None:
    error = refused(client, pipeline, HELLO | asked)
    assert error["param"] == param
    assert says in error["message"]


FIRST: Json = {"role": "user", "content": "Hi"}
IMAGE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


MESSAGES: list[tuple[Json, str, str]] = [
    ({"content": "x"}, ".role", "Missing"),
    ({"role": "function", "content": "x"}, ".role", "'developer'"),
    ({"role": "user"}, ".content", "Missing"),
    ({"role": "user", "content": 3}, ".content", "expected"),
    ({"role": "user", "content": []}, ".content", "at least one"),
    ({"role": "user", "content": ["x"]}, ".content[0]", "object"),
    ({"role": "user", "content": "x" * (CHARS + 1)}, "", f"at most {CHARS}"),
    ({"role": "system", "content": None}, ".content", "Missing"),
    ({"role": "user", "content": [{"text": "x"}]}, ".content[0].type", "Missing"),
    ({"role": "user", "content": [{"type": "text"}]}, ".content[0].text", "Missing"),
    ({"role": "user", "content": [{"type": "video"}]}, ".content[0].type", "'input_audio'"),
    ({"role": "user", "content": [{"type": "file", "file": {}}]}, ".content[0].type", "files"),
    ({"role": "user", "content": [IMAGE]}, ".content[0].type", "images"),
    ({"role": "system", "content": [said(b"x")]}, ".content[0].type", "'text'"),
    ({"role": "user", "content": [{"type": "input_audio"}]}, ".content[0].input_audio", "Miss"),
    (
        {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"format": "wav"}}],
        },
        ".content[0].input_audio.data",
        "Missing",
    ),
    (
        {"role": "user", "content": [said(b"x", "midi")]},
        ".content[0].input_audio.format",
        "'wav'",
    ),
    (
        {"role": "user", "content": [said(bytes(APPEND_BYTES + 1))]},
        ".content[0].input_audio.data",
        f"at most {APPEND_BYTES}",
    ),
    (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": ""},
                {"type": "input_audio", "input_audio": {"data": "@", "format": "wav"}},
            ],
        },
        ".content[1].input_audio.data",
        "base64",
    ),
    ({"role": "assistant"}, ".content", "Missing"),
    ({"role": "assistant", "content": [{"type": "refusal"}]}, ".content[0].refusal", "Missing"),
    ({"role": "assistant", "function_call": {"name": "f"}}, ".function_call", "tool_calls"),
    ({"role": "assistant", "audio": {}}, ".audio.id", "Missing"),
    ({"role": "assistant", "audio": {"id": "audio_1"}}, ".audio.id", "'audio_1'"),
    ({"role": "assistant", "tool_calls": [{}]}, ".tool_calls[0].id", "Missing"),
    (
        {"role": "assistant", "tool_calls": [CALL, {"id": "c"}]},
        ".tool_calls[1].function",
        "Missing",
    ),
    (
        {"role": "assistant", "tool_calls": [CALL | {"type": "custom"}]},
        ".tool_calls[0].type",
        "'function'",
    ),
    ({"role": "tool", "content": "x"}, ".tool_call_id", "Missing"),
    ({"role": "tool", "content": "x", "tool_call_id": "c9"}, ".tool_call_id", "'c9'"),
]


@pytest.mark.parametrize(
    ("message", "member", "says"),
    MESSAGES,
)
def test_messages(
    client: Visitor, pipeline: FakePipeline, message: Json, member: str, says: str
) -> None:
    error = refused(client, pipeline, {**HELLO, "messages": [FIRST, message]})
    assert error["param"] == f"messages[1]{member}"
    assert says in error["message"]


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "at least one"),
        ([FIRST] * (ITEMS + 1), f"at most {ITEMS}"),
        ([{"role": "user", "content": "x" * CHARS}] * 5 + [FIRST], f"at most {5 * CHARS}"),
    ],
)
def test_how_many_messages_and_of_what_length(
    client: Visitor, pipeline: FakePipeline, messages: list[Json], says: str
) -> None:
    error = refused(client, pipeline, {**HELLO, "messages": messages})
    assert error["param"] == "messages"
    assert says in error["message"]


@pytest.mark.parametrize(
    ("url", "member"),
    [
        ({"url": "https://example.com/a.png"}, ".url"),
        ({"url": "data:image/png;base64,/9j/"}, ".url"),
        ({"url": "data:image/gif;base64,R0lGOD"}, ".url"),
        ({"url": IMAGE["image_url"]["url"], "detail": "fine"}, ".detail"),
        ({}, ".url"),
    ],
)
def test_images_that_a_model_can_not_be_shown(url: Json, member: str) -> None:
    fake = FakePipeline()
    fake.sees = True
    with visitor(fake) as client:
        error = refused(client, fake, user({"type": "image_url", "image_url": url}))
    assert error["param"] == f"messages[0].content[0].image_url{member}"


def test_what_clients_send_without_meaning_it_is_accepted(client: Visitor) -> None:
    """Defaults, null, what changes no answer, and what is not known."""
    asked = {
        "modalities": ["text"],
        "audio": None,
        "stream": False,
        "stream_options": None,
        "n": 1,
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "logit_bias": {},
        "stop": None,
        "seed": None,
        "logprobs": False,
        "top_logprobs": 0,
        "store": False,
        "service_tier": "auto",
        "reasoning_effort": "none",
        "verbosity": "medium",
        "function_call": "auto",
        "functions": [],
        "response_format": {"type": "text"},
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "metadata": {"a": "b"},
        "user": "ada",
        "safety_identifier": "ada",
        "prompt_cache_key": "k",
        "prediction": {"type": "content", "content": "Hi"},
        "unheard_of": {"a": 1},
    }
    assert client.post(PATH, json=HELLO | asked).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"messages":[{"role":"\xff"}]}',
        b'{"messages":[{"role":"user","content":[' + b"[" * 50_000,
        b'{"messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"tools":[{"type":"function","function":{"name":"f","parameters":'
        + b'{"a":' * 20_000
        + b"1"
        + b"}" * 20_000
        + b'}}],"messages":[]}',
    ],
)
def test_a_body_that_is_no_request(client: Visitor, body: bytes) -> None:
    answer = client.post(PATH, content=body[:BODY_BYTES])
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_an_empty_body(client: Visitor) -> None:
    error = client.post(PATH, content=b"").json()["error"]
    assert (error["code"], error["param"]) == ("missing_required_parameter", "messages")


@pytest.mark.parametrize("told", [True, False])
def test_a_body_that_is_too_long_is_not_read(client: Visitor, told: bool) -> None:
    pieces = (bytes(64 * 1024) for _ in range(160))
    headers = {"content-length": "10485760"} if told else {}
    answer = client.post(PATH, content=pieces, headers=headers)
    assert answer.status_code == 413
    error = answer.json()["error"]
    assert error["code"] == "request_too_large"
    assert str(BODY_BYTES) in error["message"]


def test_a_recording_as_long_as_it_may_be_fits_the_body(client: Visitor) -> None:
    file = wav(1)
    body = json.dumps(user(said(file + bytes(APPEND_BYTES - len(file)))))
    assert client.post(PATH, content=body).status_code == 200
