"""The routes of a server, and who may open a session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import WebSocketTestSession
from starlette.types import Message
from tests.support.fakes import BROKEN, FakePipeline

from antiphon.engines.deployment import parse_deployment
from antiphon.engines.stage import StageFailure
from antiphon.web.app import STATIC, Server

from .visitor import URL, Visitor

Json = dict[str, Any]


def server(pipeline: FakePipeline | None = None, **limits: int) -> Server:
    deployment = parse_deployment({"model": "fake-model", "limits": limits})
    return Server(deployment, pipeline or FakePipeline())


@pytest.fixture
def client() -> Iterator[Visitor]:
    with Visitor(server().app) as client:
        yield client


def until(socket: WebSocketTestSession, kind: str) -> Json:
    while True:
        event: Json = socket.receive_json()
        if event["type"] == kind:
            return event


# REST.


def test_a_server_lives_before_it_is_ready() -> None:
    with Visitor(server(FakePipeline(ready=False)).app) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.json() == {"ready": False, "stages": {"fake": "starting"}}


def test_a_server_that_is_ready_says_so(client: Visitor) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "stages": {"fake": "ready"}}


def test_the_model_is_listed(client: Visitor) -> None:
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    (card,) = listed["data"]
    assert (card["id"], card["object"]) == ("fake-model", "model")
    assert client.get("/v1/models/fake-model").json() == card


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models/other"),
        ("GET", "/nowhere"),
        ("POST", "/v1/completions"),
        ("GET", "/v1/realtime"),
        ("GET", "/v1/realtime/calls"),
        ("POST", "/v1/realtime/translations/client_secrets"),
        ("GET", "/static/nothing.js"),
        ("GET", "/static/../app.py"),
        ("GET", "/static/%2e%2e/app.py"),
    ],
)
def test_what_is_not_here_is_told_in_openais_envelope(
    client: Visitor, method: str, path: str
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", "unknown_url")
    assert error["message"].startswith(f"Unknown request URL: {method} /")


def test_a_method_that_is_not_allowed(client: Visitor) -> None:
    answer = client.delete("/v1/models")
    assert answer.status_code == 405
    assert answer.json()["error"]["code"] == "method_not_allowed"
    assert "GET" in answer.headers["allow"]


def test_a_failure_of_ours_tells_nothing_of_its_cause() -> None:
    class Broken(FakePipeline):
        def statistics(self) -> Any:
            raise ValueError("a secret")

    app = server(Broken()).app
    with Visitor(app, host="127.0.0.1") as client:
        answer = client.get("/v1/sessions")
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/models", "/nowhere", "/static/app.js"])
def test_every_answer_has_the_headers_that_protect_the_page(client: Visitor, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "microphone=(self)" in headers["permissions-policy"]


def test_the_page_and_all_that_it_names_is_served(client: Visitor) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-cache"
    assert page.text == (STATIC / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'(?:src|href)="(static/[^"]+)"', page.text)
    assert named
    for path in named:
        assert client.get(f"/{path}").status_code == 200, path


def test_modules_have_the_type_that_browsers_ask_for(client: Visitor) -> None:
    assert "javascript" in client.get("/static/app.js").headers["content-type"]


def test_what_goes_on_is_told_on_this_machine_only() -> None:
    app = server().app
    with Visitor(app) as stranger:
        assert stranger.get("/v1/sessions").status_code == 404
    with Visitor(app, host="127.0.0.1") as operator:
        with operator.session() as socket:
            session_id = socket.receive_json()["session"]["id"]
            told = operator.get("/v1/sessions").json()
            assert (told["open"], told["opened"]) == (1, 1)
            assert list(told["sessions"]) == [session_id]
            assert told["stages"] == {"fake": {"open": 1}}
            assert set(told["loop"]) == {
                "beats",
                "stalls_over_20ms",
                "p50_ms",
                "p99_ms",
                "worst_ms",
            }
        operator.get("/v1/sessions?reset=loop")
        assert operator.get("/v1/sessions").json()["loop"]["worst_ms"] >= 0


# Start and end.


def test_the_pipeline_is_started_and_closed_with_the_server() -> None:
    pipeline = FakePipeline()
    told: list[str | None] = []
    started = server(pipeline)
    started.on_started = told.append
    with Visitor(started.app) as client:
        for _ in range(10_000):
            client.get("/healthz")
            if told:
                break
        assert not pipeline.closed
    assert pipeline.closed
    assert told == [None]
    assert started.failure is None


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (StageFailure(BROKEN), BROKEN.message),
        (ValueError("a bug"), "the pipeline did not start"),
    ],
)
def test_a_pipeline_that_does_not_start(failure: Exception, message: str) -> None:
    pipeline = FakePipeline(ready=False)
    pipeline.start_failure = failure
    told: list[str | None] = []
    failed = server(pipeline)
    failed.on_started = told.append
    with Visitor(failed.app) as client:
        assert client.get("/healthz").status_code == 200
    assert told == [message]
    assert failed.failure == message
    assert pipeline.closed


# The realtime socket.


def test_a_session_is_told_of_first(client: Visitor) -> None:
    with client.session() as socket:
        created = socket.receive_json()
        assert created["type"] == "session.created"
        assert created["session"]["model"] == "fake-model"
        assert "antiphon" not in created["session"]


def test_a_session_answers_and_is_forgotten_when_its_client_goes() -> None:
    pipeline = FakePipeline()
    served = server(pipeline)
    with Visitor(served.app) as client:
        with client.session() as socket:
            socket.send_bytes(b"\0\1")
            assert "Binary" in until(socket, "error")["error"]["message"]
            socket.send_json({"type": "response.create"})
            assert until(socket, "response.done")["response"]["status"] == "completed"
            assert served.service.open_sessions == 1
        assert served.service.open_sessions == 0
        assert pipeline.open_streams == 0


@pytest.mark.parametrize(
    ("query", "extended"),
    [("antiphon=1", True), ("antiphon=0", False), ("antiphon=false", False), ("antiphon=", False)],
)
def test_extensions_are_asked_for_in_the_address(
    client: Visitor, query: str, extended: bool
) -> None:
    with client.session(f"{URL}?{query}&model=gpt-realtime&api-version=1") as socket:
        assert ("antiphon" in socket.receive_json()["session"]) == extended


@pytest.mark.parametrize(
    ("offered", "answered"),
    [
        (["realtime", "openai-insecure-api-key.secret"], "realtime"),
        (["openai-insecure-api-key.secret", "realtime"], "realtime"),
        (["openai-insecure-api-key.secret"], None),
        ([], None),
    ],
)
def test_only_the_subprotocol_realtime_is_answered(
    client: Visitor, offered: list[str], answered: str | None
) -> None:
    with client.session(offered=offered) as socket:
        assert socket.accepted_subprotocol == answered


def test_a_session_may_be_for_transcription(client: Visitor) -> None:
    with client.session(f"{URL}?intent=transcription") as socket:
        session = socket.receive_json()["session"]
        assert session["type"] == "transcription"
        assert session["audio"]["input"]["transcription"]["model"] == "whisper-1"
        socket.send_json({"type": "response.create"})
        assert until(socket, "error")["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("intent", ["translation", "Transcription", "x"])
def test_no_other_intent_is_known(client: Visitor, intent: str) -> None:
    answer = client.denied(f"{URL}?intent={intent}")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_intent")


def test_there_are_no_calls_to_join(client: Visitor) -> None:
    answer = client.denied(f"{URL}?call_id=rtc_1")
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["code"] == "call_id_not_found"
    assert error["message"] == "No session found for the provided call_id."


@pytest.mark.parametrize(
    "headers", [{"openai-beta": "realtime=v1"}, {"OpenAI-Beta": "assistants=v2, realtime=v1"}]
)
def test_the_beta_is_spoken_to_clients_of_the_beta(
    client: Visitor, headers: dict[str, str]
) -> None:
    with client.session(**headers) as socket:
        assert "modalities" in socket.receive_json()["session"]
    with client.session(offered=["realtime", "openai-beta.realtime-v1"]) as socket:
        assert "modalities" in socket.receive_json()["session"]


def test_nobody_talks_before_the_models_are_loaded() -> None:
    with Visitor(server(FakePipeline(ready=False)).app) as client:
        answer = client.denied()
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    error = answer.json()["error"]
    assert (error["code"], error["retry_after_ms"]) == ("server_starting", 1000)
    assert error["type"] == "server_error"


def test_one_session_too_many_is_refused_until_another_ends() -> None:
    with Visitor(server(sessions=1).app) as client:
        with client.session() as socket:
            socket.receive_json()
            answer = client.denied()
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "5"
            error = answer.json()["error"]
            assert (error["code"], error["retry_after_ms"]) == ("too_many_sessions", 5000)
        with client.session() as socket:
            assert socket.receive_json()["type"] == "session.created"


def test_upgrades_that_come_together_share_the_room() -> None:
    served = server(sessions=3)
    upgrades = 20

    async def main() -> list[str]:
        opened = asyncio.Semaphore(0)
        leave = asyncio.Event()

        async def come() -> str:
            incoming: list[Message] = [{"type": "websocket.connect"}]
            said = "nothing"

            async def receive() -> Message:
                if incoming:
                    return incoming.pop()
                await leave.wait()
                return {"type": "websocket.disconnect", "code": 1000}

            async def send(message: Message) -> None:
                nonlocal said
                if said == "nothing":
                    # As a slow line does: everybody else comes in the meantime.
                    said = str(message.get("status", message["type"]))
                    opened.release()
                    await leave.wait()

            await served.app(
                {
                    "type": "websocket",
                    "path": URL,
                    "headers": [],
                    "query_string": b"",
                    "subprotocols": [],
                    "extensions": {"websocket.http.response": {}},
                },
                receive,
                send,
            )
            return said

        tasks = [asyncio.create_task(come()) for _ in range(upgrades)]
        async with asyncio.timeout(30):
            for _ in range(upgrades):
                await opened.acquire()
            leave.set()
            return await asyncio.gather(*tasks)

    answers = asyncio.run(main())
    assert sorted(answers) == ["503"] * (upgrades - 3) + ["websocket.accept"] * 3
    assert served.service.open_sessions == 0
    assert served.service.reserve() is not None


def test_a_server_that_stops_lets_nobody_in() -> None:
    served = server()
    with Visitor(served.app) as client:
        asyncio.run(served.service.stop())
        answer = client.denied()
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "server_stopping"
