"""The client of the protocol against a server that plays a script, over real sockets."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.support.fakes import tone
from websockets.asyncio.server import ServerConnection, serve

from antiphon.codecs.opus import OpusDecoder, OpusEncoder
from antiphon.realtime.binary import BinaryFrame, Kind, unpack
from antiphon.realtime.client import (
    MAX_PARTS,
    BinaryFormat,
    RealtimeClient,
    ServerError,
    audio_of,
    open_session,
)

Json = dict[str, Any]

DELTA = "response.output_audio.delta"


def talk(
    script: Callable[[ServerConnection], Awaitable[None]],
    client: Callable[[RealtimeClient], Awaitable[None]],
    *,
    extensions: bool = False,
    binary: BinaryFormat | None = None,
) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(30),
            serve(script, "127.0.0.1", 0, compression=None) as server,
        ):
            host, port = server.sockets[0].getsockname()[:2]
            url = f"ws://{host}:{port}/v1/realtime"
            async with open_session(url, extensions=extensions, binary=binary) as session:
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


# Binary audio.

PART = {"response_id": "r", "item_id": "i", "output_index": 0, "content_index": 0}


def confirmed(form: str) -> Json:
    ours = {"binary_audio": True, "binary_format": form}
    return {"type": "session.updated", "session": {"antiphon": ours}}


def started(number: int = 1, **more: object) -> Json:
    return {"type": "antiphon.output_audio.started", **PART, "number": number, **more}


def done(response_id: str = "r") -> Json:
    return {"type": "response.done", "response": {"id": response_id}}


async def heard(session: RealtimeClient, until: str = "end") -> list[Json]:
    events: list[Json] = []
    while (event := await session.receive())["type"] != until:
        events.append(event)
    return events


def test_binary_is_asked_for_and_used_once_it_is_confirmed() -> None:
    async def script(socket: ServerConnection) -> None:
        assert socket.request is not None
        assert socket.request.path == "/v1/realtime?antiphon=1"
        assert msgspec.json.decode(await socket.recv()) == {
            "type": "session.update",
            "session": {"antiphon": {"binary_audio": True, "binary_format": "pcm16"}},
        }
        assert msgspec.json.decode(await socket.recv())["type"] == "input_audio_buffer.append"
        await say(socket, confirmed("pcm16"))
        frame = await socket.recv()
        assert isinstance(frame, bytes)
        assert unpack(frame) == BinaryFrame(Kind.PCM16, tone(20))
        assert msgspec.json.decode(await socket.recv())["session"] == {
            "antiphon": {"binary_audio": False}
        }
        await say(socket, {"type": "session.updated", "session": {"antiphon": {}}})

    async def client(session: RealtimeClient) -> None:
        assert session.binary is None
        await session.append(tone(20))
        await session.wait_for("session.updated")
        assert session.binary == "pcm16"
        await session.append(tone(20))
        await session.ask_binary(None)
        await session.wait_for("session.updated")
        assert session.binary is None

    talk(script, client, binary="pcm16")


def test_a_server_that_knows_nothing_of_it_is_talked_to_in_json() -> None:
    async def script(socket: ServerConnection) -> None:
        await socket.recv()
        await say(socket, {"type": "session.updated", "session": {"type": "realtime"}})
        assert msgspec.json.decode(await socket.recv())["type"] == "input_audio_buffer.append"

    async def client(session: RealtimeClient) -> None:
        await session.wait_for("session.updated")
        await session.append(tone(20))

    talk(script, client, binary="opus")


def test_opus_is_sent_in_packets_and_flushed_by_a_commit() -> None:
    said = tone(70) + tone(5, -900)

    async def script(socket: ServerConnection) -> None:
        await socket.recv()
        await say(socket, confirmed("opus"))
        packets: list[bytes] = []
        while isinstance(frame := await socket.recv(), bytes):
            assert unpack(frame).kind is Kind.OPUS
            packets.append(unpack(frame).payload)
        assert msgspec.json.decode(frame)["type"] == "input_audio_buffer.commit"
        encoder = OpusEncoder()
        assert packets == encoder.feed(said) + encoder.flush()
        for kind in ("input_audio_buffer.clear", "response.cancel", "response.cancel"):
            assert msgspec.json.decode(await socket.recv())["type"] == kind
        await say(socket, {"type": "end"})

    async def client(session: RealtimeClient) -> None:
        await session.wait_for("session.updated")
        for start in range(0, len(said), 700):
            await session.append(said[start : start + 700])
        await session.commit()
        await session.clear()
        await session.cancel()
        await session.cancel("r")
        await session.wait_for("end")

    talk(script, client, binary="opus")


def test_binary_pcm_is_heard_as_deltas() -> None:
    async def script(socket: ServerConnection) -> None:
        await say(socket, started())
        for number, pcm in enumerate((tone(20), tone(40, 5))):
            frame = BinaryFrame(Kind.PCM16, pcm, number=1, position_ms=20 * number)
            await socket.send(frame.pack())
        await socket.send(BinaryFrame(Kind.PCM16, b"", number=1, last=True).pack())
        await say(socket, {"type": "end"})

    async def client(session: RealtimeClient) -> None:
        announced, *deltas = await heard(session)
        assert announced == started()
        assert [audio_of(delta) for delta in deltas] == [tone(20), tone(40, 5)]
        assert [delta["position_ms"] for delta in deltas] == [0, 20]
        for delta in deltas:
            assert delta["type"] == "response.output_audio.delta"
            assert {name: delta[name] for name in PART} == PART

    talk(script, client)


def test_opus_is_heard_to_its_end_and_a_damaged_packet_is_passed_over() -> None:
    encoder, decoder = OpusEncoder(), OpusDecoder()
    packets = encoder.feed(tone(300)) + encoder.flush()
    expected = b"".join([*(decoder.feed(packet) for packet in packets), decoder.flush()])

    async def script(socket: ServerConnection) -> None:
        await say(socket, started())
        for number, packet in enumerate(packets, 1):
            last = number == len(packets)
            frame = BinaryFrame(Kind.OPUS, packet, number=1, position_ms=200, last=last)
            await socket.send(frame.pack())
            if number == 3:
                await socket.send(BinaryFrame(Kind.OPUS, b"\3", number=1).pack())
        await say(socket, {"type": "end"})

    async def client(session: RealtimeClient) -> None:
        _, *deltas = await heard(session)
        assert b"".join(audio_of(delta) for delta in deltas) == expected
        at = 200.0
        for delta in deltas:
            assert delta["position_ms"] == pytest.approx(at)
            at += len(audio_of(delta)) / 48

    talk(script, client)


def test_frames_that_belong_to_nothing_are_passed_over() -> None:
    async def script(socket: ServerConnection) -> None:
        old, new = (BinaryFrame(Kind.PCM16, tone(20), number=n).pack() for n in (1, 2))
        await socket.send(old)
        await socket.send(b"\7\7")
        await say(socket, started(1), done("r"))
        await socket.send(old)
        await say(socket, started(2, response_id="s"))
        await socket.send(new)
        await say(socket, {"type": "end"})

    async def client(session: RealtimeClient) -> None:
        kinds = [event["type"] for event in await heard(session)]
        assert kinds == [started()["type"], "response.done", started()["type"], DELTA]

    talk(script, client)


def test_parts_that_never_end_are_forgotten() -> None:
    async def script(socket: ServerConnection) -> None:
        await say(socket, *(started(number) for number in range(1, MAX_PARTS + 2)))
        for number in (1, MAX_PARTS + 1):
            await socket.send(BinaryFrame(Kind.PCM16, tone(20), number=number).pack())
        await say(socket, {"type": "end"})

    async def client(session: RealtimeClient) -> None:
        events = await heard(session)
        assert [event["type"] for event in events].count(DELTA) == 1

    talk(script, client)


def test_it_needs_neither_engines_nor_a_web_framework() -> None:
    blocked = ("torch", "vllm", "onnxruntime", "starlette", "uvicorn", "transformers", "av")
    script = f"""
import sys
sys.modules.update(dict.fromkeys({blocked!r}))
import antiphon.realtime.client
import antiphon.realtime.playback
loaded = [name for name in sys.modules if name.startswith(("antiphon.engines", "antiphon.web"))]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
