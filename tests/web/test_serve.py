"""A server process from its socket to its goodbye, with a pipeline that needs no models."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fakes import BROKEN, FakePipeline
from websockets.exceptions import ConnectionClosed

from antiphon.engines.deployment import Deployment, parse_deployment
from antiphon.engines.stage import StageFailure
from antiphon.realtime.client import RealtimeClient, open_session
from antiphon.web import serve as module
from antiphon.web.serve import SWITCH_SECONDS, ServeError, serve

Capture = pytest.CaptureFixture[str]
DEPLOYMENT = parse_deployment({"model": "m", "limits": {"append_bytes": 1_000_000}})


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a server does to its process."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    interval, handlers, level = sys.getswitchinterval(), logging.root.handlers, logging.root.level
    yield
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
        async with open_session(f"ws://127.0.0.1:{self.port}/v1/realtime") as client:
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
    def build(deployment: Deployment, cache_root: Path, on_progress: object) -> FakePipeline:
        return pipeline

    monkeypatch.setattr(module, "CascadePipeline", build)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_server_serves_until_it_is_told_to_stop(
    host: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    pipeline = Visited()
    pipeline.port = free_port()
    use(monkeypatch, pipeline)
    with pytest.raises(KeyboardInterrupt):
        serve(DEPLOYMENT, Path("unused"), host, pipeline.port)
    assert pipeline.seen == ["session.created", "error", "response.done"]
    assert pipeline.close_code == 1012, "clients come back to a server that restarts"
    assert pipeline.closed
    assert pipeline.open_streams == 0
    printed = capsys.readouterr().out
    shown = "localhost" if host == "0.0.0.0" else host
    assert "starting m" in printed
    assert f"ready: open http://{shown}:{pipeline.port}/\n" in printed
    assert ("anyone who can reach this machine" in printed) == (host == "0.0.0.0")
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)


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
        serve(DEPLOYMENT, Path("unused"), "192.0.2.1", 0)
