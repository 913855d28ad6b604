"""Who may use a server: credentials in every place, keys, files of keys, and origins."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import WebSocketDenialResponse
from tests.support.fakes import FakePipeline

from antiphon.engines.deployment import (
    Access,
    DeploymentError,
    load_deployment,
    parse_deployment,
)
from antiphon.web.api_keys import Keys, load_keys
from antiphon.web.app import SOCKETS, Server
from antiphon.web.reach import is_loopback

from .visitor import HOME, URL, Visitor

KEY = "sk-the-right-one"
FOREIGN = "https://foreign.example"
LISTED = "https://app.example"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def places(key: str) -> list[tuple[dict[str, str], list[str]]]:
    """Headers and subprotocols of each place that a key may be in."""
    return [
        ({"authorization": f"Bearer {key}"}, []),
        ({"Authorization": f"bearer  {key} "}, ["realtime"]),
        ({"api-key": key}, []),
        ({"X-API-Key": key}, []),
        ({"authorization": basic("", key)}, []),
        ({}, ["realtime", f"openai-insecure-api-key.{key}"]),
        ({}, [f"openai-insecure-api-key.{key}", "openai-beta.realtime-v1", "realtime"]),
        ({"authorization": "Bearer wrong", "api-key": key}, []),
        ({"authorization": "Bearer wrong"}, ["realtime", f"openai-insecure-api-key.{key}"]),
    ]


NOT_SENT: list[dict[str, str]] = [
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer "},
    {"authorization": f"Token {KEY}"},
    {"authorization": f"Basic {KEY}"},
    {"authorization": basic("user", KEY)},
    {"api-key": ""},
    {"cookie": f"key={KEY}"},
]

NOTHING: list[str] = []

WRONG = [KEY[:-1], f"{KEY}x", KEY.upper(), "ek_test", "-"]


def visitor(host: str = "testclient", **access: Any) -> Visitor:
    deployment = parse_deployment({"model": "fake-model", "access": access})
    return Visitor(Server(deployment, FakePipeline()).app, host=host)


@pytest.fixture
def keyed() -> Iterator[Visitor]:
    with visitor(keys=["sk-another", KEY], origins=[LISTED]) as client:
        yield client


@pytest.fixture
def unkeyed() -> Iterator[Visitor]:
    with visitor(origins=[LISTED]) as client:
        yield client


def check_unauthorized(status: int, headers: Mapping[str, str], body: Any) -> None:
    assert status == 401
    assert headers["www-authenticate"] == "Bearer"
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert (body["error"]["type"], body["error"]["code"]) == (
        "invalid_request_error",
        "invalid_api_key",
    )
    assert KEY not in body["error"]["message"]


# With keys.


@pytest.mark.parametrize(("headers", "offered"), places(KEY))
def test_a_key_opens_a_session_from_every_place(
    keyed: Visitor, headers: dict[str, str], offered: list[str]
) -> None:
    with keyed.session(offered=offered, **headers) as socket:
        assert socket.receive_json()["type"] == "session.created"
        assert socket.accepted_subprotocol == ("realtime" if "realtime" in offered else None)


@pytest.mark.parametrize(
    ("headers", "offered"),
    [
        *((headers, NOTHING) for headers in NOT_SENT),
        *(place for key in WRONG for place in places(key)),
        ({}, ["realtime", "openai-insecure-api-key."]),
        ({}, ["realtime", KEY]),
    ],
)
def test_without_the_key_no_session_is_opened(
    keyed: Visitor, headers: dict[str, str], offered: list[str]
) -> None:
    denied = keyed.denied(offered=offered, **headers)
    check_unauthorized(denied.status_code, denied.headers, denied.json())


@pytest.mark.parametrize("path", SOCKETS)
def test_no_address_of_sessions_is_open(keyed: Visitor, path: str) -> None:
    assert keyed.denied(path).status_code == 401
    with keyed.session(f"{path}?deployment=x&api-version=1", **{"api-key": KEY}) as socket:
        assert socket.receive_json()["type"] == "session.created"


@pytest.mark.parametrize("headers", [headers for headers, offered in places(KEY) if not offered])
def test_a_key_opens_the_routes_from_every_place(keyed: Visitor, headers: dict[str, str]) -> None:
    assert keyed.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers", [*NOT_SENT, *({"authorization": f"Bearer {key}"} for key in WRONG)]
)
def test_without_the_key_the_routes_are_shut(keyed: Visitor, headers: dict[str, str]) -> None:
    answer = keyed.get("/v1/models", headers=headers)
    check_unauthorized(answer.status_code, answer.headers, answer.json())


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/fake-model"),
        ("GET", "/v1/sessions"),
        ("GET", "/v1/realtime"),
        ("POST", "/v1/realtime/client_secrets"),
        ("POST", "/v1/realtime/sessions"),
        ("POST", "/v1/realtime/transcription_sessions"),
        ("GET", "/v1/nowhere"),
        ("DELETE", "/v1/models"),
    ],
)
def test_every_route_of_the_api_needs_the_key(keyed: Visitor, method: str, path: str) -> None:
    assert keyed.request(method, path).status_code == 401
    right = keyed.request(method, path, headers={"api-key": KEY})
    assert right.status_code in (200, 404, 405)


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/static/app.js"])
def test_page_and_health_need_none(keyed: Visitor, path: str) -> None:
    assert keyed.get(path).status_code == 200


def test_the_operator_needs_the_key_too() -> None:
    with visitor("127.0.0.1", keys=[KEY]) as operator:
        assert operator.get("/v1/sessions").status_code == 401
    with visitor(keys=[KEY]) as elsewhere:
        assert elsewhere.get("/v1/sessions", headers={"api-key": KEY}).json()["open"] == 0


# Without.


@pytest.mark.parametrize(
    ("headers", "offered"), [*places("anything"), *places("ek_test"), ({}, [])]
)
def test_where_there_are_no_keys_any_will_do(
    unkeyed: Visitor, headers: dict[str, str], offered: list[str]
) -> None:
    with unkeyed.session(offered=offered, **headers) as socket:
        assert socket.receive_json()["type"] == "session.created"
    assert unkeyed.get("/v1/models", headers=headers).status_code == 200


# Origins.


@pytest.mark.parametrize("origin", [None, HOME, "https://localhost:8000", LISTED, LISTED.upper()])
def test_our_own_page_and_listed_ones_may_open_sessions(
    keyed: Visitor, unkeyed: Visitor, origin: str | None
) -> None:
    headers = {} if origin is None else {"origin": origin}
    with unkeyed.session(**headers) as socket:
        assert socket.receive_json()["type"] == "session.created"
    with keyed.session(**headers, **{"authorization": basic("", KEY)}) as socket:
        assert socket.receive_json()["type"] == "session.created"


@pytest.mark.parametrize(
    "origin", [FOREIGN, f"{HOME}.evil.example", f"{HOME}1", "null", "", f"{LISTED}:444"]
)
def test_a_foreign_page_needs_a_key_of_its_own(
    keyed: Visitor, unkeyed: Visitor, origin: str
) -> None:
    offered = ["realtime", f"openai-insecure-api-key.{KEY}"]
    with keyed.session(offered=offered, origin=origin) as socket:
        assert socket.receive_json()["type"] == "session.created"
    # What a browser may add by itself proves nothing about the page.
    denied = keyed.denied(origin=origin, authorization=basic("", KEY))
    assert (denied.status_code, denied.json()["error"]["code"]) == (403, "origin_not_allowed")
    # Where any key will do, none proves anything.
    denied = unkeyed.denied(offered=offered, origin=origin)
    assert (denied.status_code, denied.json()["error"]["code"]) == (403, "origin_not_allowed")


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1:8000", "[::1]:8000", "[::1]"])
def test_without_keys_our_page_has_a_name_of_this_machine(unkeyed: Visitor, name: str) -> None:
    with unkeyed.session(host=name, origin=f"http://{name}") as socket:
        assert socket.receive_json()["type"] == "session.created"


@pytest.mark.parametrize("name", ["rebound.example:8000", "192.0.2.1:8000", "localhost.example"])
def test_a_name_that_was_made_to_point_here_is_not_ours(unkeyed: Visitor, name: str) -> None:
    denied = unkeyed.denied(host=name, origin=f"http://{name}")
    assert denied.json()["error"]["code"] == "origin_not_allowed"
    with visitor(open=True) as everyone, everyone.session(host=name, origin=f"http://{name}") as it:
        assert it.receive_json()["type"] == "session.created"
    with (
        visitor(keys=[KEY]) as keyed,
        keyed.session(host=name, origin=f"http://{name}", authorization=basic("", KEY)) as it,
    ):
        assert it.receive_json()["type"] == "session.created"


def test_a_foreign_page_can_change_nothing_where_there_are_no_keys(unkeyed: Visitor) -> None:
    path = "/v1/realtime/client_secrets"
    assert unkeyed.post(path, headers={"origin": FOREIGN}).status_code == 403
    for origin in (HOME, LISTED):
        assert unkeyed.post(path, headers={"origin": origin}).status_code == 200


def test_listed_pages_may_read_the_answers(keyed: Visitor) -> None:
    def allowed(origin: str, **headers: str) -> str | None:
        answer = keyed.get("/v1/models", headers={"origin": origin, "api-key": KEY, **headers})
        return answer.headers.get("access-control-allow-origin")

    assert allowed(LISTED) == LISTED
    assert allowed(FOREIGN) is None


def test_a_listed_page_may_ask_what_it_may_send_without_a_key(keyed: Visitor) -> None:
    asked = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    path = "/v1/realtime/client_secrets"
    answer = keyed.options(path, headers={"origin": LISTED, **asked})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == LISTED
    assert "authorization" in answer.headers["access-control-allow-headers"].lower()
    assert keyed.options(path, headers={"origin": FOREIGN, **asked}).status_code == 400


# Keys of the deployment.


def test_keys_are_compared_whole() -> None:
    keys = Keys(["one", "two"])
    assert keys
    assert "one" in keys
    assert "two" in keys
    for value in ("", "on", "one ", "onetwo", "three", "\ud800"):
        assert value not in keys
    assert not Keys([])
    assert "" not in Keys([])
    assert "one" not in str(vars(keys))


def test_a_file_of_keys_beside_the_deployment(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text("access: {keys: [three], keys_file: keys.txt}\n")
    (tmp_path / "keys.txt").write_text("# ours\none  # of Ada\n\n  two\r\n")
    keys = load_keys(load_deployment(file).access)
    assert all(key in keys for key in ("one", "two", "three"))
    assert "ours" not in keys
    assert "" not in keys


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read {path}: No such file or directory; write API keys into it"),
        (b"\n# none\n", "there is no key in {path}; write API keys into it, one a line"),
        (b"", "there is no key in {path}"),
        (b"\xff\xfe", "cannot read {path}: it is not UTF-8"),
        (b"good\nnot good\n", "line 2 of {path}: an API key has letters, digits and"),
        (b"ek_good\n", "line 1 of {path}: an API key does not begin with ek_"),
    ],
)
def test_a_file_of_keys_that_can_not_be_used(
    content: bytes | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DeploymentError) as raised:
        load_keys(Access(keys_file=str(path)))
    assert str(raised.value).startswith(f"access.keys_file: {said.format(path=path)}")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("server.example", False),
    ],
)
def test_which_addresses_are_this_machine_alone(host: str, local: bool) -> None:
    assert is_loopback(host) == local


def test_the_denial_is_an_http_answer(keyed: Visitor) -> None:
    with pytest.raises(WebSocketDenialResponse), keyed.websocket_connect(URL):
        raise AssertionError("accepted")
