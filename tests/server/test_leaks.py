"""Clients that vanish leave nothing behind."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.server import Server, wait_quiet
from tests.support.speech import Speaker, in_real_time, silence
from websockets.asyncio.client import connect

from antiphon.realtime.client import MAX_FRAME

from .line import Line, line

pytestmark = [pytest.mark.models, pytest.mark.server]

CLIENTS = 20


async def vanish_while_spoken_to(server: Server) -> None:
    """Be gone, without a close frame, in the middle of the first words of a reply."""
    async with connect(server.ws_url, max_size=MAX_FRAME, compression=None) as socket:
        each = Line(socket)
        await each.hear()
        await each.ask("Tell me something about the sky.", aloud=True)
        await each.until("response.output_audio.delta")
        socket.transport.abort()


async def vanish_while_speaking(server: Server, pcm: bytes) -> None:
    """Be gone in the middle of a question."""
    async with connect(server.ws_url, max_size=MAX_FRAME, compression=None) as socket:
        each = Line(socket)
        await each.hear()

        async def speak() -> None:
            async for piece in in_real_time(pcm):
                await each.append(piece)

        speaking = asyncio.create_task(speak())
        await each.until("input_audio_buffer.speech_started")
        socket.transport.abort()
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)


def all_vanish(server: Server, pcm: bytes) -> None:
    opened = server.sessions()["opened"]

    async def main() -> None:
        spoken_to = [vanish_while_spoken_to(server) for _ in range(CLIENTS // 2)]
        speaking = [vanish_while_speaking(server, pcm) for _ in range(CLIENTS // 2)]
        await asyncio.gather(*spoken_to, *speaking)

    asyncio.run(main())
    told = wait_quiet(server)
    assert told["opened"] == opened + CLIENTS
    assert {"vad", "talker", "code2wav", "reply"} <= told["stages"].keys()

    async def still_answers() -> None:
        async with line(server) as each:
            assert await each.is_answered("Are you there?")

    asyncio.run(still_answers())


def test_vanished_clients_leave_no_session_and_no_stream(
    scripted_server: Server, speaker: Speaker
) -> None:
    all_vanish(scripted_server, silence(200) + speaker.say("What is the capital of France?").pcm)


@pytest.mark.timeout(180)
def test_vanished_clients_leave_no_request_of_the_language_model(
    embedded_server: Server, speaker: Speaker
) -> None:
    all_vanish(embedded_server, silence(200) + speaker.say("What is the capital of France?").pcm)
    stages = embedded_server.sessions()["stages"]
    assert stages["ar"]["unfinished"] == 0
    assert stages["ar"]["requests"] >= CLIENTS // 2
