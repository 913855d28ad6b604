"""A server without any model: how it starts, streams, refuses, and who may use it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.server import Server, serving, shipped, wait_quiet, write_deployment
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from antiphon.realtime.client import audio_of

from .line import line

pytestmark = [pytest.mark.server]

KEY = "sk-of-the-test"
APPEND_BYTES = 100_000


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that takes short messages only."""
    deployment = shipped("silent")
    deployment["limits"]["append_bytes"] = APPEND_BYTES
    with serving(write_deployment(deployment, tmp_path_factory.mktemp("silent"))) as server:
        yield server


def test_audio_comes_as_fast_as_it_is_heard(silent: Server) -> None:
    async def main() -> None:
        async with line(silent) as each:
            await each.ask("Tell me something about the sky.", aloud=True)
            began = time.monotonic()
            heard_s = chunk_s = 0.0
            while heard_s < 2:
                audio = audio_of(await each.until("response.output_audio.delta"))
                assert not any(audio)
                chunk_s = len(audio) / 48_000
                heard_s += chunk_s
            # It has to be made in time; that it comes no sooner is what load tests need.
            assert time.monotonic() - began >= heard_s - 2 * chunk_s

    asyncio.run(main())
    wait_quiet(silent)


def test_a_message_that_is_too_long_ends_its_session_and_no_other(silent: Server) -> None:
    async def main() -> None:
        async with line(silent) as other:
            async with line(silent) as each:
                await each.say_raw(b" " * (2 * APPEND_BYTES))
                with pytest.raises(ConnectionClosed):
                    await each.until("nothing")
                assert each.socket.close_code == 1009
            assert await other.is_answered("Are you there?")

    asyncio.run(main())
    wait_quiet(silent)


def test_a_client_that_is_done_is_answered_in_kind(silent: Server) -> None:
    async def main() -> None:
        async with line(silent) as each:
            await each.socket.close(1000, "done")
            assert each.socket.close_code == 1000

    asyncio.run(main())
    wait_quiet(silent)


async def greeting(socket: ClientConnection) -> Any:
    async with asyncio.timeout(20):
        return msgspec.json.decode(await socket.recv())["session"]


def test_a_server_with_keys(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# of the test\n{KEY}\n")
    deployment = shipped("silent") | {"access": {"keys_file": "keys"}}
    with serving(write_deployment(deployment, tmp_path)) as server:
        assert "an API key is needed" in server.output
        assert server.get("/v1/sessions")["error"]["code"] == "invalid_api_key"

        async def main() -> None:
            with pytest.raises(InvalidStatus) as refused:
                await connect(server.ws_url)
            assert refused.value.response.status_code == 401
            assert refused.value.response.headers["WWW-Authenticate"] == "Bearer"
            body = msgspec.json.decode(refused.value.response.body)
            assert body["error"]["code"] == "invalid_api_key"
            headers = {"Authorization": f"Bearer {KEY}"}
            async with connect(server.ws_url, additional_headers=headers) as socket:
                assert (await greeting(socket))["model"] == "antiphon-silent"
                assert socket.subprotocol is None
            offered = [Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{KEY}")]
            origin = Origin("https://elsewhere.example")
            async with connect(server.ws_url, subprotocols=offered, origin=origin) as socket:
                assert socket.subprotocol == "realtime"
                await greeting(socket)

        asyncio.run(main())
        assert KEY not in server.output
