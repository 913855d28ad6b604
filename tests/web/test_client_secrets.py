"""Secrets for pages: how they are asked for, and what sessions that are opened with them get."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.fakes import FakePipeline

from antiphon.engines.deployment import parse_deployment
from antiphon.realtime import secrets
from antiphon.web.app import Server
from antiphon.web.client_secrets import BODY_BYTES

from .visitor import URL, Visitor

Json = dict[str, Any]

KEY = "sk-of-the-server"
ROUTE = "/v1/realtime/client_secrets"
BETA_ROUTE = "/v1/realtime/sessions"
BETA_TRANSCRIPTION = "/v1/realtime/transcription_sessions"

TOOL: Json = {"type": "function", "name": "look_up", "description": "Looks up.", "parameters": {}}


def visitor(pipeline: FakePipeline | None = None, **access: Any) -> Visitor:
    data = {"model": "fake-model", "instructions": "As deployed.", "access": access}
    return Visitor(Server(parse_deployment(data), pipeline or FakePipeline()).app)


@pytest.fixture
def keyed() -> Iterator[Visitor]:
    with visitor(keys=[KEY]) as client:
        yield client


def make(client: Visitor, body: Json | None = None, path: str = ROUTE) -> Json:
    answer = client.post(path, json=body, headers={"authorization": f"Bearer {KEY}"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    made: Json = answer.json()
    return made


def refused(client: Visitor, body: Any, path: str = ROUTE, status: int = 400) -> Json:
    content = body if isinstance(body, (bytes, str)) else None
    answer = client.post(
        path,
        content=content,
        json=None if content is not None else body,
        headers={"authorization": f"Bearer {KEY}"},
    )
    assert answer.status_code == status, answer.text
    error: Json = answer.json()["error"]
    return error


def session_with(client: Visitor, value: str, url: str = URL) -> Json:
    """Open a session as a browser does; return how it begins."""
    offered = ["realtime", f"openai-insecure-api-key.{value}"]
    with client.session(url, offered=offered, origin="https://app.example") as socket:
        assert socket.accepted_subprotocol == "realtime"
        session: Json = socket.receive_json()["session"]
        return session


@pytest.mark.parametrize("body", [None, {}, {"session": None}, {"expires_after": None}])
def test_a_secret_may_be_asked_for_with_nothing(keyed: Visitor, body: Json | None) -> None:
    before = int(time.time())
    made = make(keyed, body)
    assert set(made) == {"value", "expires_at", "session"}
    assert made["value"].startswith("ek_")
    assert before + 600 <= made["expires_at"] <= time.time() + 600
    session = made["session"]
    assert (session["type"], session["object"]) == ("realtime", "realtime.session")
    assert session["id"].startswith("sess_")
    assert (session["model"], session["instructions"]) == ("fake-model", "As deployed.")
    begun = session_with(keyed, made["value"])
    assert begun["instructions"] == "As deployed."
    assert begun["id"] != session["id"]


def test_a_secret_lives_as_long_as_is_asked(keyed: Visitor) -> None:
    for seconds in (10, 7200):
        made = make(keyed, {"expires_after": {"anchor": "created_at", "seconds": seconds}})
        assert made["expires_at"] == pytest.approx(time.time() + seconds, abs=5)


def test_sessions_begin_as_their_secret_says(keyed: Visitor) -> None:
    turns = {"type": "server_vad", "silence_duration_ms": 900}
    wanted: Json = {
        "type": "realtime",
        "model": "gpt-realtime",
        "instructions": "Speak like a pirate.",
        "output_modalities": ["text"],
        "audio": {"input": {"turn_detection": turns}, "output": {"voice": "bob", "speed": 1.2}},
        "tools": [TOOL],
        "tool_choice": "required",
        "max_output_tokens": 77,
    }
    made = make(keyed, {"session": wanted})
    for session in (made["session"], *(session_with(keyed, made["value"]) for _ in range(2))):
        assert session["model"] == "fake-model"
        assert session["instructions"] == "Speak like a pirate."
        assert session["output_modalities"] == ["text"]
        assert session["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 900
        assert session["audio"]["output"]["voice"] == "bob"
        assert session["audio"]["output"]["speed"] == 1.2
        assert [tool["name"] for tool in session["tools"]] == ["look_up"]
        assert session["tool_choice"] == "required"
        assert session["max_output_tokens"] == 77


def test_what_a_secret_says_may_be_changed_by_the_client(keyed: Visitor) -> None:
    made = make(keyed, {"session": {"type": "realtime", "instructions": "One.", "tools": [TOOL]}})
    offered = ["realtime", f"openai-insecure-api-key.{made['value']}"]
    with keyed.session(offered=offered) as socket:
        assert socket.receive_json()["session"]["instructions"] == "One."
        update: Json = {"type": "realtime", "instructions": "Two.", "tools": []}
        socket.send_json({"type": "session.update", "session": update})
        session = socket.receive_json()["session"]
        assert (session["instructions"], session["tools"]) == ("Two.", [])
    assert session_with(keyed, made["value"])["instructions"] == "One."


def test_a_secret_works_where_any_key_does() -> None:
    with visitor() as client:
        made = make(client, {"session": {"type": "realtime", "instructions": "One."}})
        # A valid secret lets any page in; an invented one is a key like any other.
        assert session_with(client, made["value"])["instructions"] == "One."
        with client.session(**{"authorization": "Bearer ek_invented"}) as socket:
            assert socket.receive_json()["session"]["instructions"] == "As deployed."


@pytest.mark.parametrize("keys", [[], [KEY]])
def test_an_expired_secret_opens_nothing(keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(secrets.SecretStore.__init__, "__defaults__", (lambda: now,))
    with visitor(keys=keys) as client:
        value = make(client)["value"]
        now += 599
        with client.session(**{"authorization": f"Bearer {value}"}) as socket:
            socket.receive_json()
            now += 1
            denied = client.denied(**{"authorization": f"Bearer {value}"})
            # The session that is open already goes on.
            socket.send_json({"type": "input_audio_buffer.clear"})
            assert socket.receive_json()["type"] == "input_audio_buffer.cleared"
    assert denied.status_code == 401
    assert denied.json()["error"]["code"] == "invalid_api_key"
    assert "expired" in denied.json()["error"]["message"]


def test_a_secret_opens_sessions_and_nothing_else(keyed: Visitor) -> None:
    headers = {"authorization": f"Bearer {make(keyed)['value']}"}
    for method, path in [("GET", "/v1/models"), ("POST", ROUTE), ("GET", "/v1/sessions")]:
        answer = keyed.request(method, path, headers=headers)
        assert answer.status_code == 401
        assert "opens realtime sessions only" in answer.json()["error"]["message"]


def test_a_secret_of_a_transcription(keyed: Visitor) -> None:
    wanted = {
        "type": "transcription",
        "audio": {"input": {"transcription": {"model": "whisper-1", "language": "en"}}},
    }
    made = make(keyed, {"session": wanted})
    assert made["session"]["object"] == "realtime.transcription_session"
    for url in (URL, f"{URL}?intent=transcription", f"{URL}?model=x&intent=transcription"):
        session = session_with(keyed, made["value"], url)
        assert session["type"] == "transcription"
        assert session["audio"]["input"]["transcription"]["language"] == "en"


def test_a_secret_of_a_conversation_is_none_of_a_transcription(keyed: Visitor) -> None:
    value = make(keyed, {"session": {"type": "realtime"}})["value"]
    denied = keyed.denied(f"{URL}?intent=transcription", **{"api-key": value})
    assert denied.status_code == 400
    assert denied.json()["error"]["code"] == "invalid_intent"
    # One that says nothing is good for both.
    value = make(keyed)["value"]
    assert session_with(keyed, value, f"{URL}?intent=transcription")["type"] == "transcription"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ("{", "invalid_json", None),
        (b"\xff", "invalid_json", None),
        ('{"session":' + "[" * 50_000, "invalid_json", None),
        ("[]", "invalid_value", None),
        ({"session": []}, "invalid_value", "session"),
        ({"session": {"type": "translation"}}, "invalid_value", "session.type"),
        ({"session": {"type": 1}}, "invalid_value", "session.type"),
        ({"session": {"instructions": 1}}, "invalid_value", "session.instructions"),
        ({"session": {"audio": {"output": {"voice": "nobody"}}}}, None, "voice"),
        ({"session": {"audio": {"output": {"speed": 9}}}}, None, "speed"),
        ({"session": {"max_output_tokens": 0}}, None, "session.max_output_tokens"),
        (
            {"session": {"tools": [TOOL], "tool_choice": {"type": "function", "name": "other"}}},
            None,
            "session.tool_choice.name",
        ),
        ({"expires_after": {"seconds": 9}}, "invalid_value", "expires_after.seconds"),
        ({"expires_after": {"seconds": 7201}}, "invalid_value", "expires_after.seconds"),
        ({"expires_after": {"seconds": "60"}}, "invalid_value", "expires_after.seconds"),
        ({"expires_after": {"anchor": "used_at"}}, "invalid_value", "expires_after.anchor"),
    ],
)
def test_a_mistake_is_named(keyed: Visitor, body: Any, code: str | None, param: str | None) -> None:
    error = refused(keyed, body)
    assert error["type"] == "invalid_request_error"
    if code is not None:
        assert error["code"] == code
    assert error["param"] == param or str(error["param"]).endswith(str(param))


def test_a_body_that_is_too_long(keyed: Visitor) -> None:
    error = refused(keyed, b" " * (BODY_BYTES + 1), status=413)
    assert error["code"] == "request_too_large"


def test_too_many_secrets(keyed: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise secrets.StoreFull(7)

    monkeypatch.setattr(secrets.SecretStore, "issue", full)
    error = refused(keyed, {}, status=429)
    assert (error["code"], error["retry_after_ms"]) == ("too_many_client_secrets", 7000)


def test_no_secret_is_made_before_the_models_are_loaded() -> None:
    with visitor(FakePipeline(ready=False), keys=[KEY]) as client:
        assert refused(client, {}, status=503)["code"] == "server_starting"


# The beta.


def test_a_secret_of_the_beta(keyed: Visitor) -> None:
    body = {"model": "gpt-4o-realtime-preview", "voice": "bob", "modalities": ["text"]}
    made = make(keyed, body, BETA_ROUTE)
    assert made["object"] == "realtime.session"
    assert (made["voice"], made["modalities"]) == ("bob", ["text"])
    assert made["client_secret"]["expires_at"] == pytest.approx(time.time() + 60, abs=5)
    session = session_with(keyed, made["client_secret"]["value"])
    assert session["audio"]["output"]["voice"] == "bob"
    offered = [
        "realtime",
        f"openai-insecure-api-key.{made['client_secret']['value']}",
        "openai-beta.realtime-v1",
    ]
    with keyed.session(offered=offered) as socket:
        assert socket.receive_json()["session"]["voice"] == "bob"


def test_a_secret_of_a_transcription_of_the_beta(keyed: Visitor) -> None:
    body = {"input_audio_transcription": {"model": "whisper-1", "language": "de"}}
    made = make(keyed, body, BETA_TRANSCRIPTION)
    assert made["object"] == "realtime.transcription_session"
    assert made["input_audio_transcription"]["language"] == "de"
    session = session_with(keyed, made["client_secret"]["value"])
    assert session["audio"]["input"]["transcription"]["language"] == "de"


@pytest.mark.parametrize("path", [BETA_ROUTE, BETA_TRANSCRIPTION])
def test_a_mistake_in_the_beta_is_named(keyed: Visitor, path: str) -> None:
    assert refused(keyed, "{", path)["code"] == "invalid_json"
    error = refused(keyed, {"turn_detection": {"threshold": "loud"}}, path)
    assert str(error["param"]).endswith("turn_detection.threshold")
    assert refused(keyed, "[]", path)["code"] == "invalid_value"
