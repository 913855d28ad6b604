"""The server is told to stop while somebody talks to it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.server.line import line
from tests.support.server import Server, shipped, write_deployment
from websockets.exceptions import ConnectionClosed

pytestmark = [pytest.mark.models, pytest.mark.server]


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_stopping_server_says_goodbye(told: signal.Signals, tmp_path: Path) -> None:
    server = Server(write_deployment(shipped("scripted"), tmp_path))
    server.start()

    async def main() -> ConnectionClosed:
        async with line(server) as idle, line(server) as busy:
            await busy.ask("Tell me something about the sky.", aloud=True)
            await busy.until("response.output_audio.delta")
            os.kill(server.pid, told)
            with pytest.raises(ConnectionClosed) as closed:
                await busy.until("nothing")
            with pytest.raises(ConnectionClosed) as left:
                await idle.until("nothing")
            assert left.value.rcvd is not None
            assert left.value.rcvd.code == 1001
            return closed.value

    try:
        closed = asyncio.run(main())
        status = server.wait_end()
    finally:
        server.kill()
    assert closed.rcvd is not None
    assert closed.rcvd.code == 1001, "going away: clients come back"
    # It ends by the signal that it was sent, as a shell or a supervisor expects.
    assert status in (-told, 128 + told), server.output
    assert "Traceback" not in server.output
