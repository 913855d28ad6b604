"""Speech streams of a deployment: what each is given, and that the server can end them."""

from __future__ import annotations

import asyncio

from tests.support.fakes import FakePipeline, FakeSocket
from tests.support.loop import run_simulated

from antiphon.engines.deployment import parse_deployment
from antiphon.realtime.service import RealtimeService
from antiphon.realtime.speech_service import SpeechService


def services(**limits: int) -> tuple[RealtimeService, SpeechService]:
    deployment = parse_deployment({"model": "m", "limits": limits})
    pipeline = FakePipeline()
    sessions = RealtimeService(deployment, pipeline)
    return sessions, SpeechService(deployment, pipeline, sessions)


def test_a_stream_is_counted_and_has_the_deployments_bounds() -> None:
    async def main() -> None:
        sessions, streams = services(speech_idle_seconds=7)
        socket = FakeSocket()
        task = asyncio.create_task(streams.serve(socket))
        ready = await socket.wait_for("session.ready")
        assert ready["session"]["voice"] == "ada"
        assert (sessions.open_sessions, sessions.opened) == (1, 1)
        assert sessions.statistics() == {}
        await task
        assert socket.closed == (1000, "idle")
        assert asyncio.get_running_loop().time() == 7
        assert (sessions.open_sessions, sessions.opened) == (0, 1)

    run_simulated(main())


def test_a_server_that_stops_says_goodbye() -> None:
    async def main() -> None:
        sessions, streams = services()
        socket = FakeSocket()
        task = asyncio.create_task(streams.serve(socket))
        await socket.wait_for("session.ready")
        await sessions.stop()
        assert socket.closed == (1001, "the server is stopping")
        socket.vanish()
        await task
        assert sessions.open_sessions == 0

    run_simulated(main())
