"""The client of the protocol against a server that plays a script, over real sockets."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, serve

from antiphon.realtime.client import RealtimeClient, ServerError, audio_of, open_session

Json = dict[str, Any]


def talk(
    script: Callable[[ServerConnection], Awaitable[None]],
    client: Callable[[RealtimeClient], Awaitable[None]],
    *,
    extensions: bool = False,
) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(30),
            serve(script, "127.0.0.1", 0, compression=None) as server,
        ):
            host, port = server.sockets[0].getsockname()[:2]
            url = f"ws://{host}:{port}/v1/realtime"
            async with open_session(url, extensions=extensions) as session:
                await client(session)

    asyncio.run(main())


async def say(socket: ServerConnection, *events: Json) -> None:
    for event in events:
        await socket.send(msgspec.json.encode(event).decode())


@pytest.mark.parametrize(
    ("extensions", "path"), [(False, "/v1/realtime"), (True, "/v1/realtime?antiphon=1")]
)
def test_extensions_are_asked_for_in_the_address(extensions: bool, path: str) -> None:
    async def script(socket: ServerConnection) -> None:
        assert socket.request is not None
        await say(socket, {"type": "session.created", "path": socket.request.path})

    async def client(session: RealtimeClient) -> None:
        assert await session.receive() == {"type": "session.created", "path": path}

    talk(script, client, extensions=extensions)


def test_what_is_sent_is_text() -> None:
    async def script(socket: ServerConnection) -> None:
        for _ in range(2):
            message = await socket.recv()
            assert isinstance(message, str)
            await say(socket, {"type": "echo", "of": msgspec.json.decode(message)})

    async def client(session: RealtimeClient) -> None:
        await session.send("response.cancel", response_id=None)
        await session.append(b"\1\0")
        assert (await session.receive())["of"] == {"type": "response.cancel", "response_id": None}
        assert (await session.receive())["of"] == {
            "type": "input_audio_buffer.append",
            "audio": "AQA=",
        }

    talk(script, client)


def test_events_are_iterated_until_the_server_closes() -> None:
    async def script(socket: ServerConnection) -> None:
        await say(socket, {"type": "a"}, {"type": "b"})

    async def client(session: RealtimeClient) -> None:
        assert [event["type"] async for event in session] == ["a", "b"]

    talk(script, client)


def test_waiting_skips_what_is_not_waited_for() -> None:
    async def script(socket: ServerConnection) -> None:
        await say(socket, {"type": "a"}, {"type": "c", "n": 1}, {"type": "error", "error": {}})

    async def client(session: RealtimeClient) -> None:
        assert await session.wait_for("b", "c") == {"type": "c", "n": 1}
        assert await session.wait_for("error") == {"type": "error", "error": {}}

    talk(script, client)


def test_an_error_instead_is_raised() -> None:
    async def script(socket: ServerConnection) -> None:
        await say(socket, {"type": "error", "error": {"message": "No.", "code": "x"}})

    async def client(session: RealtimeClient) -> None:
        with pytest.raises(ServerError, match=r"No\.") as caught:
            await session.wait_for("response.done")
        assert caught.value.error == {"message": "No.", "code": "x"}

    talk(script, client)


def test_a_long_frame_is_taken() -> None:
    pcm = bytes(3 * 1024 * 1024)

    async def script(socket: ServerConnection) -> None:
        await say(socket, {"type": "audio", "delta": b64encode(pcm).decode()})

    async def client(session: RealtimeClient) -> None:
        assert audio_of(await session.receive()) == pcm

    talk(script, client)


def test_nobody_listens() -> None:
    async def main() -> None:
        async with serve(_never, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
        with pytest.raises(OSError, match="Connect call failed"):
            async with open_session(f"ws://127.0.0.1:{port}/"):
                raise AssertionError("connected")

    asyncio.run(main())


async def _never(_socket: ServerConnection) -> None:
    raise AssertionError("connected")
