"""The route of the speech stream: who may open it, when, and what is left of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import WebSocketTestSession
from tests.support.fakes import RATE, SAID_MS, FakePipeline

from antiphon.engines.deployment import parse_deployment
from antiphon.web.app import Server

from .test_access import FOREIGN, KEY, LISTED, NOT_SENT, NOTHING, WRONG, basic, places
from .visitor import HOME, Visitor

Json = dict[str, Any]
URL = "/v1/audio/speech/stream"


def server(pipeline: FakePipeline | None = None, **parts: Any) -> Server:
    deployment = parse_deployment({"model": "fake-model", **parts})
    return Server(deployment, pipeline or FakePipeline())


@pytest.fixture
def client() -> Iterator[Visitor]:
    with Visitor(server().app) as client:
        yield client


@pytest.fixture
def keyed() -> Iterator[Visitor]:
    with Visitor(server(access={"keys": ["sk-another", KEY], "origins": [LISTED]}).app) as client:
        yield client


def is_greeted(socket: WebSocketTestSession) -> bool:
    return bool(socket.receive_json()["type"] == "session.ready")


def test_text_goes_in_and_audio_comes_out() -> None:
    pipeline = FakePipeline()
    served = server(pipeline)
    with Visitor(served.app, host="127.0.0.1") as client:
        with client.session(URL) as socket:
            assert is_greeted(socket)
            told = client.get("/v1/sessions").json()
            assert (told["open"], told["opened"]) == (1, 1)
            for _ in range(2):
                socket.send_json({"type": "input.text", "text": "Hello "})
                assert socket.receive_json()["type"] == "audio.start"
                assert len(socket.receive_bytes()) == 2 * RATE * SAID_MS // 1000
                socket.send_json({"type": "input.done"})
                assert socket.receive_json()["type"] == "audio.done"
                assert socket.receive_json()["type"] == "session.done"
        assert served.service.open_sessions == 0
        assert pipeline.open_streams == 0


def test_bounds_are_those_of_the_deployment() -> None:
    with (
        Visitor(server(limits={"speech_chars": 3}).app) as client,
        client.session(URL) as socket,
    ):
        assert is_greeted(socket)
        socket.send_json({"type": "input.text", "text": "Hello"})
        error = socket.receive_json()["error"]
        assert (error["code"], error["param"]) == ("string_above_max_length", "text")


# Who may.


@pytest.mark.parametrize(("headers", "offered"), places(KEY))
def test_a_key_opens_it_from_every_place(
    keyed: Visitor, headers: dict[str, str], offered: list[str]
) -> None:
    with keyed.session(URL, offered=offered, **headers) as socket:
        assert socket.accepted_subprotocol == ("realtime" if "realtime" in offered else None)
        assert is_greeted(socket)


@pytest.mark.parametrize(
    ("headers", "offered"),
    [*((headers, NOTHING) for headers in NOT_SENT), *(places(wrong)[0] for wrong in WRONG)],
)
def test_without_the_key_nobody_comes_in(
    keyed: Visitor, headers: dict[str, str], offered: list[str]
) -> None:
    answer = keyed.denied(URL, offered=offered, **headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "invalid_api_key"


def test_a_secret_opens_sessions_only(keyed: Visitor) -> None:
    made = keyed.post("/v1/realtime/client_secrets", headers={"api-key": KEY}, json={})
    secret = made.json()["value"]
    answer = keyed.denied(URL, authorization=f"Bearer {secret}")
    assert answer.status_code == 401
    with keyed.session(authorization=f"Bearer {secret}") as socket:
        assert socket.receive_json()["type"] == "session.created"


def test_pages_of_other_origins_need_a_key_of_their_own(client: Visitor, keyed: Visitor) -> None:
    assert client.denied(URL, origin=FOREIGN).status_code == 403
    answer = keyed.denied(URL, origin=FOREIGN, authorization=basic("", KEY))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_not_allowed")
    for visitor, headers in (
        (client, {"origin": HOME}),
        (keyed, {"origin": LISTED, "authorization": basic("", KEY)}),
        (keyed, {"origin": FOREIGN, "authorization": f"Bearer {KEY}"}),
    ):
        with visitor.session(URL, **headers) as socket:
            assert is_greeted(socket)


# When.


def test_nobody_is_served_before_the_models_are_loaded() -> None:
    with Visitor(server(FakePipeline(ready=False)).app) as client:
        answer = client.denied(URL)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"]["code"] == "server_starting"


def test_streams_and_sessions_share_the_room() -> None:
    with Visitor(server(limits={"sessions": 1}).app) as client:
        with client.session(URL) as socket:
            assert is_greeted(socket)
            for url in (URL, "/v1/realtime"):
                answer = client.denied(url)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
                assert answer.json()["error"]["code"] == "too_many_sessions"
        with client.session() as socket:
            assert socket.receive_json()["type"] == "session.created"
            assert client.denied(URL).status_code == 503


def test_a_server_that_stops_lets_nobody_in() -> None:
    served = server()
    with Visitor(served.app) as client:
        asyncio.run(served.service.stop())
        answer = client.denied(URL)
    assert answer.json()["error"]["code"] == "server_stopping"
