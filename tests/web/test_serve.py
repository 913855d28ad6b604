"""A server process from its socket to its goodbye, with a pipeline that needs no models."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import openai
import pytest
from openai.types.realtime import RealtimeSessionCreateRequest
from tests.support.certificates import self_signed
from tests.support.fakes import BROKEN, FakePipeline
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from antiphon.engines.deployment import Deployment, DeploymentError, parse_deployment
from antiphon.engines.stage import StageFailure
from antiphon.realtime.client import RealtimeClient
from antiphon.web import serve as module
from antiphon.web.app import Server
from antiphon.web.serve import SWITCH_SECONDS, ServeError, serve

Capture = pytest.CaptureFixture[str]
LIMITS = {"append_bytes": 1_000_000}
DEPLOYMENT = parse_deployment({"model": "m", "limits": LIMITS})
KEY = "sk-test"


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a server does to its process."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    interval, handlers, level = sys.getswitchinterval(), logging.root.handlers, logging.root.level
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)
    logging.root.handlers, logging.root.level = handlers, level
    gc.unfreeze()


class Visited(FakePipeline):
    """A pipeline that is visited by a client once it is served; then the server is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self.visit: asyncio.Task[None] | None = None
        self.seen: list[str] = []
        self.close_code: int | None = None

    async def start(self) -> None:
        self.visit = asyncio.create_task(self._visit())

    async def close(self) -> None:
        await super().close()
        assert self.visit is not None
        await self.visit

    async def _visit(self) -> None:
        url = f"ws://127.0.0.1:{self.port}/v1/realtime"
        # Where there are no keys, any will do.
        offered = [Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{KEY}")]
        async with connect(url, subprotocols=offered, max_size=None, compression=None) as socket:
            client = RealtimeClient(socket)
            await self._talk(client)
            signal.raise_signal(signal.SIGINT)
            try:
                async with asyncio.timeout(30):
                    await client.wait_for("nothing")
            except ConnectionClosed as closed:
                self.close_code = closed.rcvd.code if closed.rcvd else None

    async def _talk(self, client: RealtimeClient) -> None:
        self.seen.append((await client.receive())["type"])
        await client.append(bytes(DEPLOYMENT.limits.append_bytes))
        await client.append(bytes(DEPLOYMENT.limits.append_bytes + 2))
        self.seen.append((await client.wait_for("error"))["type"])
        await client.send("response.create")
        self.seen.append((await client.wait_for("response.done"))["type"])


def use(monkeypatch: pytest.MonkeyPatch, pipeline: FakePipeline) -> None:
    def build(
        deployment: Deployment, cache_root: Path, on_progress: object, voices: Path | None
    ) -> FakePipeline:
        return pipeline

    monkeypatch.setattr(module, "CascadePipeline", build)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def deployed(**access: object) -> Deployment:
    return parse_deployment({"model": "m", "limits": LIMITS, "access": access})


@pytest.mark.parametrize(
    ("host", "access", "said"),
    [
        ("127.0.0.1", {}, "listening on 127.0.0.1: only this machine can use the server"),
        ("127.0.0.1", {"keys": [KEY]}, "listening on 127.0.0.1: an API key is needed"),
        ("0.0.0.0", {"keys": [KEY]}, "listening on 0.0.0.0: an API key is needed"),
        ("0.0.0.0", {"open": True}, "listening on 0.0.0.0: ANYONE who can reach"),
    ],
)
def test_a_server_serves_until_it_is_told_to_stop(
    host: str,
    access: dict[str, object],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    pipeline = Visited()
    pipeline.port = free_port()
    use(monkeypatch, pipeline)
    with pytest.raises(KeyboardInterrupt):
        serve(deployed(**access), Path("unused"), host, pipeline.port)
    assert pipeline.seen == ["session.created", "error", "response.done"]
    assert pipeline.close_code == 1001, "clients come back to a server that restarts"
    assert pipeline.closed
    assert pipeline.open_streams == 0
    printed = capsys.readouterr().out
    shown = "localhost" if host == "0.0.0.0" else host
    assert "starting m" in printed
    assert f"ready: open http://{shown}:{pipeline.port}/\n" in printed
    assert said in printed
    assert KEY not in printed
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_without_keys_other_machines_are_not_served(host: str) -> None:
    with pytest.raises(DeploymentError) as refused:
        serve(DEPLOYMENT, Path("unused"), host, 0)
    said = str(refused.value)
    assert said.startswith(f"--host {host} would let other machines use the server without a key")
    assert all(key in said for key in ("access.keys", "access.keys_file", "access.open: true"))


def test_a_file_of_keys_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match=r"^access\.keys_file: cannot read .*/none: No such"):
        serve(deployed(keys_file=str(tmp_path / "none")), Path("unused"), "127.0.0.1", 0)


def test_a_certificate_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    access = {"tls_certificate": str(tmp_path / "none"), "tls_key": str(tmp_path / "none")}
    with pytest.raises(DeploymentError, match=r"^access\.tls_certificate: cannot read .*/none"):
        serve(deployed(**access), Path("unused"), "127.0.0.1", 0)


class Encrypted(Visited):
    """Visited by the client library of OpenAI, over TLS."""

    def __init__(self, trusted: ssl.SSLContext) -> None:
        super().__init__()
        self._trusted = trusted
        self.models: list[str] = []

    async def _visit(self) -> None:
        http = openai.DefaultAsyncHttpxClient(verify=self._trusted)
        async with openai.AsyncOpenAI(
            api_key=KEY, base_url=f"https://localhost:{self.port}/v1", http_client=http
        ) as client:
            self.models = [model.id for model in (await client.models.list()).data]
            secret = await client.realtime.client_secrets.create(
                session={"type": "realtime", "instructions": "Be brief."}
            )
            await self._converse(client.with_options(api_key=secret.value))
        signal.raise_signal(signal.SIGINT)

    async def _converse(self, client: openai.AsyncOpenAI) -> None:
        # The library passes on more than its types name.
        options = cast(Any, {"ssl": self._trusted})
        async with client.realtime.connect(
            model="m", websocket_connection_options=options
        ) as connection:
            created = await connection.recv()
            assert created.type == "session.created"
            assert isinstance(created.session, RealtimeSessionCreateRequest)
            self.seen.append(created.session.instructions or "")
            await connection.response.create()
            async for event in connection:
                if event.type == "response.done":
                    self.seen.append(event.response.status or "")
                    return


def test_openais_client_is_served_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    made = self_signed(tmp_path)
    pipeline = Encrypted(ssl.create_default_context(cafile=str(made.certificate)))
    pipeline.port = free_port()
    use(monkeypatch, pipeline)
    with pytest.raises(KeyboardInterrupt):
        serve(deployed(keys=[KEY], **made.access), Path("unused"), "127.0.0.1", pipeline.port)
    assert pipeline.models == ["m"]
    assert pipeline.seen == ["Be brief.", "completed"]
    assert f"ready: open https://127.0.0.1:{pipeline.port}/\n" in capsys.readouterr().out


class Unanswering(FakePipeline):
    """Visited by a client that answers no pings; the server stops once it is dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self.visit: asyncio.Task[None] | None = None
        self.opened = False

    async def start(self) -> None:
        self.visit = asyncio.create_task(self._visit())

    async def close(self) -> None:
        await super().close()
        assert self.visit is not None
        await self.visit

    async def _visit(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(
            b"GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        )
        async with asyncio.timeout(30):
            received = await reader.read()
        self.opened = b"session.created" in received
        writer.close()
        await writer.wait_closed()
        await self.all_streams_gone()
        signal.raise_signal(signal.SIGINT)


def test_a_client_that_answers_no_pings_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Unanswering()
    pipeline.port = free_port()
    use(monkeypatch, pipeline)
    monkeypatch.setattr(module, "PING_SECONDS", 0.3)
    servers: list[Server] = []

    class Noted(Server):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            servers.append(self)

    monkeypatch.setattr(module, "Server", Noted)
    with pytest.raises(KeyboardInterrupt):
        serve(DEPLOYMENT, Path("unused"), "127.0.0.1", pipeline.port)
    assert pipeline.opened
    (server,) = servers
    assert (server.service.opened, server.service.open_sessions) == (1, 0)


def test_a_pipeline_that_does_not_start_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = FakePipeline(ready=False)
    pipeline.start_failure = StageFailure(BROKEN)
    use(monkeypatch, pipeline)
    with pytest.raises(ServeError, match=r"^The part is broken\. \(see `antiphon doctor`\)$"):
        serve(DEPLOYMENT, Path("unused"), "127.0.0.1", 0)
    assert pipeline.closed


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=f"^port {port} is taken: .* --port {port + 1}$"):
            serve(DEPLOYMENT, Path("unused"), "127.0.0.1", port)


def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(ServeError, match=r"^cannot listen on 192\.0\.2\.1:0: .*another --host$"):
        serve(deployed(open=True), Path("unused"), "192.0.2.1", 0)


@pytest.fixture
def speech_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if what jobs need was not installed."""
    monkeypatch.setitem(sys.modules, "antiphon.engines.jobs.sql_desk", None)


@pytest.mark.usefixtures("speech_alone")
def test_without_what_jobs_need_the_rest_is_served(tmp_path: Path) -> None:
    assert module.jobs_of(parse_deployment({"model": "m"}).media, tmp_path, None) is None


@pytest.mark.usefixtures("speech_alone")
def test_what_is_asked_for_and_can_not_be_had_stops_the_start(tmp_path: Path) -> None:
    media = parse_deployment({"model": "m", "media": {"queue": 7}}).media
    with pytest.raises(StageFailure, match=r"antiphon\[jobs\]"):
        module.jobs_of(media, tmp_path, None)


@pytest.mark.parametrize(
    ("secret", "told"), [(None, "cannot read"), ("whsec_c2hvcnQ=", "24 to 64 bytes")]
)
def test_a_webhook_secret_that_can_not_be_used_stops_the_start(
    tmp_path: Path, secret: str | None, told: str
) -> None:
    file = tmp_path / "secret"
    if secret is not None:
        file.write_text(secret)
    media = parse_deployment({"model": "m", "media": {"webhook_secret_file": str(file)}}).media
    with pytest.raises(StageFailure, match=told) as failed:
        module.jobs_of(media, tmp_path, None)
    assert "media.webhook_secret_file" in failed.value.error.message


def test_a_worker_of_our_own_is_started_with_the_same_file(tmp_path: Path) -> None:
    for worker, command in (("embedded", True), ("none", False)):
        media = parse_deployment({"model": "m", "media": {"worker": worker}}).media
        jobs = module.jobs_of(media, tmp_path, tmp_path / "it.yaml")
        assert jobs is not None
        assert (jobs.worker is not None) is command
        if jobs.worker is not None:
            where = ["--config", str(tmp_path / "it.yaml"), "--data", str(tmp_path)]
            assert jobs.worker[-6:] == ["worker", *where, "--embedded"]
    assert module.jobs_of(None, tmp_path, None) is None
