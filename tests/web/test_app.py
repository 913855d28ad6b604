"""The routes of a server, and who may open a session."""

from __future__ import annotations

import re
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse, WebSocketTestSession
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.support.fakes import BROKEN, FakePipeline

from antiphon.engines.deployment import parse_deployment
from antiphon.engines.stage import StageFailure
from antiphon.web.app import STATIC, Server

Json = dict[str, Any]
URL = "/v1/realtime"


def server(pipeline: FakePipeline | None = None, **limits: int) -> Server:
    deployment = parse_deployment({"model": "fake-model", "limits": limits})
    return Server(deployment, pipeline or FakePipeline())


class Watched:
    """An application that says when a socket of it has ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.ended = threading.Semaphore(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            if scope["type"] == "websocket":
                self.ended.release()


class Client(TestClient):
    """A client that waits for the end of its sessions: the usual one cancels them."""

    def __init__(self, app: ASGIApp, *, host: str = "testclient") -> None:
        self.watched = Watched(app)
        super().__init__(self.watched, raise_server_exceptions=False, client=(host, 50_000))

    @contextmanager
    def session(
        self, url: str = URL, *, offered: Sequence[str] = (), **headers: str
    ) -> Generator[WebSocketTestSession]:
        """Open a session and close it when left."""
        with self.websocket_connect(url, subprotocols=offered, headers=headers) as socket:
            yield socket
            socket.close(1000)
            assert self.watched.ended.acquire(timeout=30)


@pytest.fixture
def client() -> Iterator[Client]:
    with Client(server().app) as client:
        yield client


def denied(client: Client, url: str = URL, **headers: str) -> WebSocketDenialResponse:
    with pytest.raises(WebSocketDenialResponse) as caught, client.session(url, **headers):
        raise AssertionError("accepted")
    return caught.value


def until(socket: WebSocketTestSession, kind: str) -> Json:
    while True:
        event: Json = socket.receive_json()
        if event["type"] == kind:
            return event


# REST.


def test_a_server_lives_before_it_is_ready() -> None:
    with Client(server(FakePipeline(ready=False)).app) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.json() == {"ready": False, "stages": {"fake": "starting"}}


def test_a_server_that_is_ready_says_so(client: Client) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "stages": {"fake": "ready"}}


def test_the_model_is_listed(client: Client) -> None:
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
        ("POST", "/v1/chat/completions"),
        ("GET", "/static/nothing.js"),
        ("GET", "/static/../app.py"),
        ("GET", "/static/%2e%2e/app.py"),
    ],
)
def test_what_is_not_here_is_told_in_openais_envelope(
    client: Client, method: str, path: str
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", "unknown_url")
    assert error["message"].startswith(f"Unknown request URL: {method} /")


def test_a_method_that_is_not_allowed(client: Client) -> None:
    answer = client.delete("/v1/models")
    assert answer.status_code == 405
    assert answer.json()["error"]["code"] == "method_not_allowed"
    assert "GET" in answer.headers["allow"]


def test_a_failure_of_ours_tells_nothing_of_its_cause() -> None:
    class Broken(FakePipeline):
        def statistics(self) -> Any:
            raise ValueError("a secret")

    app = server(Broken()).app
    with Client(app, host="127.0.0.1") as client:
        answer = client.get("/v1/sessions")
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/models", "/nowhere", "/static/app.js"])
def test_every_answer_has_the_headers_that_protect_the_page(client: Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "microphone=(self)" in headers["permissions-policy"]


def test_the_page_and_all_that_it_names_is_served(client: Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-cache"
    assert page.text == (STATIC / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'(?:src|href)="(static/[^"]+)"', page.text)
    assert named
    for path in named:
        assert client.get(f"/{path}").status_code == 200, path


def test_modules_have_the_type_that_browsers_ask_for(client: Client) -> None:
    assert "javascript" in client.get("/static/app.js").headers["content-type"]


def test_what_goes_on_is_told_on_this_machine_only() -> None:
    app = server().app
    with Client(app) as stranger:
        assert stranger.get("/v1/sessions").status_code == 404
    with Client(app, host="127.0.0.1") as operator:
        with operator.session() as socket:
            session_id = socket.receive_json()["session"]["id"]
            told = operator.get("/v1/sessions").json()
            assert (told["open"], told["opened"]) == (1, 1)
            assert list(told["sessions"]) == [session_id]
            assert told["stages"] == {"fake": {"open": 1}}
            assert set(told["loop"]) == {"beats", "stalls_over_20ms", "worst_ms"}
        operator.get("/v1/sessions?reset=loop")
        assert operator.get("/v1/sessions").json()["loop"]["worst_ms"] >= 0


# Start and end.


def test_the_pipeline_is_started_and_closed_with_the_server() -> None:
    pipeline = FakePipeline()
    told: list[str | None] = []
    started = server(pipeline)
    started.on_started = told.append
    with Client(started.app) as client:
        client.get("/healthz")
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
    with Client(failed.app) as client:
        assert client.get("/healthz").status_code == 200
    assert told == [message]
    assert failed.failure == message
    assert pipeline.closed


# The realtime socket.


def test_a_session_is_told_of_first(client: Client) -> None:
    with client.session() as socket:
        created = socket.receive_json()
        assert created["type"] == "session.created"
        assert created["session"]["model"] == "fake-model"
        assert "antiphon" not in created["session"]


def test_a_session_answers_and_is_forgotten_when_its_client_goes() -> None:
    pipeline = FakePipeline()
    served = server(pipeline)
    with Client(served.app) as client:
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
    client: Client, query: str, extended: bool
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
    client: Client, offered: list[str], answered: str | None
) -> None:
    with client.session(offered=offered) as socket:
        assert socket.accepted_subprotocol == answered


@pytest.mark.parametrize("origin", ["http://testserver", "https://testserver"])
def test_our_own_page_may_open_a_session(client: Client, origin: str) -> None:
    with client.session(origin=origin) as socket:
        assert socket.receive_json()["type"] == "session.created"


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://testserver.evil.example", "http://testserver:81", "null", ""],
)
def test_other_pages_may_not(client: Client, origin: str) -> None:
    answer = denied(client, origin=origin)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "origin_not_allowed"


def test_transcription_sessions_are_refused(client: Client) -> None:
    answer = denied(client, f"{URL}?intent=transcription")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_intent")


def test_nobody_talks_before_the_models_are_loaded() -> None:
    with Client(server(FakePipeline(ready=False)).app) as client:
        answer = denied(client)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    error = answer.json()["error"]
    assert (error["code"], error["retry_after_ms"]) == ("server_starting", 1000)
    assert error["type"] == "server_error"


def test_one_session_too_many_is_refused_until_another_ends() -> None:
    with Client(server(sessions=1).app) as client:
        with client.session() as socket:
            socket.receive_json()
            answer = denied(client)
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "5"
            error = answer.json()["error"]
            assert (error["code"], error["retry_after_ms"]) == ("too_many_sessions", 5000)
        with client.session() as socket:
            assert socket.receive_json()["type"] == "session.created"
