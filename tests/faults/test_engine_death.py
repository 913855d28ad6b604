"""The language model's process is killed in the middle of a reply."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from tests.server.line import line
from tests.support.server import Server

pytestmark = [pytest.mark.models, pytest.mark.server, pytest.mark.timeout(240)]

RESTART_SECONDS = 90.0
"""Longest wait for the engine to be there again; it loads in 20 to 35 s."""


def engine_of(server: Server) -> psutil.Process:
    """The language model's process: none other of the server's is as large."""
    children = [each for each in server.processes() if each.pid != server.pid]
    engine = max(children, key=lambda each: each.memory_info().rss)
    assert engine.memory_info().rss > 400 * 2**20
    return engine


async def wait_ready(server: Server, seconds: float, until: Callable[[Any], bool]) -> Any:
    """Return what ``/readyz`` says once that is as wanted."""
    end = time.monotonic() + seconds
    while not until(told := await asyncio.to_thread(server.ready)):
        assert time.monotonic() < end, f"still {told} after {seconds:.0f} s"
        await asyncio.sleep(0.05)
    return told


def test_a_killed_engine_fails_its_reply_and_is_started_again(embedded_server: Server) -> None:
    killed = engine_of(embedded_server)

    async def main() -> None:
        async with line(embedded_server) as each:
            await each.ask("Tell me a very long story about the sea.", aloud=True)
            await each.until("response.output_audio_transcript.delta")
            killed.kill()
            response = (await each.until("response.done"))["response"]
            assert response["status"] == "failed"
            error = response["status_details"]["error"]
            assert (error["type"], error["code"]) == ("server_error", "engine_restarting")
            assert response["output"][0]["status"] == "incomplete"

            told = await wait_ready(embedded_server, 5, lambda told: not told["ready"])
            assert told["stages"]["ar"] == "restarting"
            assert all(state == "ready" for name, state in told["stages"].items() if name != "ar")
            # The session lives on, and says what is the matter.
            await each.ask("Are you there?")
            response = (await each.until("response.done"))["response"]
            assert response["status"] == "failed"
            assert response["status_details"]["error"]["code"] == "engine_restarting"

            await wait_ready(embedded_server, RESTART_SECONDS, lambda told: bool(told["ready"]))
            assert await each.is_answered("Are you there now?")

    asyncio.run(main())
    assert engine_of(embedded_server).pid != killed.pid
    assert embedded_server.sessions()["stages"]["ar"]["restarts"] == 1
