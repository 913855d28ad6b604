"""Text in while audio goes out, of a whole server."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.support.server import Server, serving, shipped, wait_quiet, write_deployment
from tests.support.speech import RATE, Ear, word_error_rate
from websockets.asyncio.client import ClientConnection, connect

pytestmark = [pytest.mark.server]

Event = dict[str, Any]

EVENT_SECONDS = 20.0
TEXT = "Good morning, everybody. The light of the evening takes a longer way, and turns red."
LONG = f"{TEXT} " * 100


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One without any voice, which makes silence as fast as it would be heard."""
    with serving(write_deployment(shipped("silent"), tmp_path_factory.mktemp("silent"))) as server:
        yield server


class Stream:
    """A client's end; audio is told as an event of type ``binary``."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.heard = bytearray()

    async def say(self, kind: str, **members: object) -> None:
        await self.socket.send(msgspec.json.encode({"type": kind, **members}).decode())

    async def write(self, text: str) -> None:
        """Send a text a word at a time, as a language model writes it."""
        for word in text.split(" "):
            await self.say("input.text", text=f"{word} ")

    async def hear(self) -> Event:
        async with asyncio.timeout(EVENT_SECONDS):
            data = await self.socket.recv()
        if isinstance(data, bytes):
            self.heard += data
            return {"type": "binary", "audio": data}
        return msgspec.json.decode(data, type=Event)

    async def until(self, kind: str) -> Event:
        return (await self.all_until(kind))[-1]

    async def all_until(self, kind: str) -> list[Event]:
        events = [await self.hear()]
        while events[-1]["type"] != kind:
            assert events[-1]["type"] != "error", events[-1]
            events.append(await self.hear())
        return events


@asynccontextmanager
async def stream(server: Server, **config: object) -> AsyncGenerator[Stream]:
    url = f"ws{server.url.removeprefix('http')}/v1/audio/speech/stream"
    async with connect(url, max_size=None, compression=None) as socket:
        each = Stream(socket)
        await each.until("session.ready")
        if config:
            await each.say("session.config", **config)
            await each.until("session.ready")
        yield each


def test_it_sounds_while_the_text_is_still_written(silent: Server) -> None:
    async def main() -> None:
        async with stream(silent) as each:
            await each.write("Good morning, everybody. The light of the evening takes a")
            started = await each.until("audio.start")
            assert (started["utterance_index"], started["sample_rate"]) == (0, RATE)
            await each.until("binary")
            # Only now comes the rest.
            await each.write("longer way, and turns red.")
            await each.say("input.done")
            done = await each.until("audio.done")
            assert done["total_bytes"] == len(each.heard)
            assert done["duration_ms"] == pytest.approx(len(each.heard) / 48, abs=0.1)
            # 300 ms a word.
            assert len(each.heard) / 48 >= len(TEXT.split()) * 300
            ended = await each.until("session.done")
            assert (ended["total_sentences"], ended["status"]) == (1, "completed")

    asyncio.run(main())
    wait_quiet(silent)


def test_utterances_on_one_connection(silent: Server) -> None:
    async def main() -> None:
        async with stream(silent) as each:
            for text in ("One.", " ", "Two and three.", "Four."):
                await each.write(text)
                await each.say("input.done")
            ended = [await each.until("session.done") for _ in range(4)]
            assert [e["utterance_index"] for e in ended] == [0, 1, 2, 3]
            assert [e["total_sentences"] for e in ended] == [1, 0, 1, 1]
            await each.say("session.close")
            await each.socket.wait_closed()
            assert each.socket.close_code == 1000

    asyncio.run(main())
    wait_quiet(silent)


def test_a_cancel_ends_it_at_once_and_the_next_begins(silent: Server) -> None:
    async def main() -> None:
        async with stream(silent) as each:
            await each.write(LONG)
            await each.until("binary")
            await each.say("input.cancel")
            await each.until("audio.cancelled")
            assert (await each.hear())["status"] == "cancelled"
            await each.write("Two.")
            await each.say("input.done")
            events = await each.all_until("session.done")
            assert events[0]["type"] == "audio.start"
            assert {e.get("utterance_index", 1) for e in events} == {1}
            assert events[-1]["status"] == "completed"

    asyncio.run(main())
    wait_quiet(silent)


def test_clients_who_vanish_leave_nothing(silent: Server) -> None:
    async def vanish(utterances: int) -> None:
        async with stream(silent) as each:
            # Behind the second, the server does not read on.
            for _ in range(utterances):
                await each.say("input.text", text=LONG)
                await each.say("input.done")
            await each.until("binary")
            each.socket.transport.abort()

    async def main() -> None:
        await asyncio.gather(*(vanish(1 + number % 4) for number in range(12)))

    asyncio.run(main())
    told = wait_quiet(silent)
    assert told["stages"]["speech"]["running"] == 0


@pytest.mark.models
@pytest.mark.parametrize("words", [False, True])
def test_what_is_written_is_heard(scripted_server: Server, ear: Ear, words: bool) -> None:
    async def main() -> None:
        async with stream(scripted_server, word_timestamps=words, voice="alloy") as each:
            await each.write(TEXT)
            await each.say("input.done")
            events = await each.all_until("audio.done")
            chunks = [event for event in events if event["type"] == "audio.chunk"]
            assert bool(chunks) == words
            pcm = b"".join(b64decode(chunk["audio_b64"]) for chunk in chunks) or bytes(each.heard)
            assert word_error_rate(TEXT, ear.hear(pcm)) < 0.1
            if words:
                check_times(chunks)

    asyncio.run(main())
    wait_quiet(scripted_server)


def check_times(chunks: list[Event]) -> None:
    times = [(time, chunk) for chunk in chunks for time in chunk["timestamps"]]
    assert [time["word"].lower().strip(".,") for time, _ in times] == [
        word.lower().strip(".,") for word in TEXT.split()
    ]
    starts = [time["start_ms"] for time, _ in times]
    assert starts == sorted(starts)
    for time, chunk in times:
        assert chunk["chunk_start_ms"] <= time["start_ms"] + 0.1 <= chunk["chunk_end_ms"] + 0.2
    for before, after in zip(chunks, chunks[1:], strict=False):
        assert before["chunk_end_ms"] == after["chunk_start_ms"]
        assert before["chunk_id"] + 1 == after["chunk_id"]
