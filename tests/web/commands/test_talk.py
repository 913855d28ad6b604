"""``antiphon talk`` without a server and without devices: what it says then."""

from __future__ import annotations

import asyncio
import socket
from http import HTTPStatus

import pytest
from tests.support.devices import FakeDevices
from tests.support.speech import StageLoop
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from antiphon.web.cli import FAILED, MISUSED, OK, main
from antiphon.web.commands import talk

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch) -> FakeDevices:
    for name in ("ANTIPHON_URL", "ANTIPHON_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    devices = FakeDevices()
    monkeypatch.setattr(talk, "PortAudioDevices", lambda: devices)
    return devices


def test_devices_are_listed(capsys: Capture) -> None:
    assert main(["talk", "--list-devices"]) == OK
    assert capsys.readouterr().out.startswith("   0  fake: microphone")


def test_without_devices_nothing_is_started(devices: FakeDevices, capsys: Capture) -> None:
    devices.missing = "there is no microphone: buy one"
    assert main(["talk", "--config", "silent"]) == FAILED
    assert capsys.readouterr().err == (
        "antiphon: there is no microphone: buy one; without devices, `antiphon serve` talks in a "
        "browser\n"
    )


def test_a_server_that_is_not_there(devices: FakeDevices, capsys: Capture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert main(["talk", "--url", f"127.0.0.1:{taken.getsockname()[1]}"]) == FAILED
    assert "nobody answers at 127.0.0.1" in capsys.readouterr().err
    assert devices.loudspeakers[0].closed
    assert devices.microphones[0].closed


@pytest.mark.parametrize(
    ("status", "message"), [(401, ": pass --key or set ANTIPHON_API_KEY"), (503, "HTTP 503")]
)
def test_a_server_that_opens_no_session(
    status: int, message: str, devices: FakeDevices, capsys: Capture
) -> None:
    keys: list[str | None] = []

    def answer(connection: ServerConnection, request: Request) -> Response:
        if request.path == "/readyz":
            return connection.respond(HTTPStatus.OK, "ready")
        keys.append(request.headers.get("Authorization"))
        return connection.respond(HTTPStatus(status), "no")

    async def open_server() -> Server:
        return await serve(lambda socket: asyncio.sleep(0), "127.0.0.1", 0, process_request=answer)

    async def close(server: Server) -> None:
        server.close()
        await server.wait_closed()

    loop = StageLoop()
    server = loop.run(open_server())
    try:
        port = next(iter(server.sockets)).getsockname()[1]
        assert main(["talk", "--url", f"127.0.0.1:{port}", "--key", "mine"]) == FAILED
    finally:
        loop.run(close(server))
        loop.close()
    assert keys == ["Bearer mine"]
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert devices.loudspeakers[0].closed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "silent", "--url", "h:1"], "leave out --url"),
        (["--config", "nowhere.yaml"], "cannot read nowhere.yaml"),
        (["--url", "ftp://h"], "expected a URL"),
    ],
)
def test_what_can_not_be_done(arguments: list[str], message: str, capsys: Capture) -> None:
    assert main(["talk", *arguments]) == MISUSED
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
