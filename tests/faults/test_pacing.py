"""Listeners that stop, and more replies than there is time for: what each bound does."""

from __future__ import annotations

import asyncio
import socket
import time
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.line import Event, Line
from tests.support.server import Server, serving, shipped, wait_quiet, write_deployment
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from antiphon.realtime.client import MAX_FRAME, RealtimeClient, audio_of, open_session
from antiphon.realtime.playback import Listener, Player

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]

BYTES_PER_MS = 48
MS_PER_WORD = 300
CHUNK_MS = 100

SMALL_BUFFER = 4096
"""Bytes that the client's end of a connection holds."""

ON_MS = 600.0
"""How long a listener is taken to play on behind a report."""


@contextmanager
def paced_server(
    folder: Path, lines: list[str], talker: Mapping[str, object], **other: Mapping[str, object]
) -> Generator[Server]:
    """Serve replies that are made much faster than they are heard."""
    deployment = shipped("silent")
    deployment["stages"]["ar"]["lines"] = lines
    deployment["stages"]["talker"] = {
        "use": "scripted",
        "ms_per_word": MS_PER_WORD,
        "chunk_ms": CHUNK_MS,
        **talker,
    }
    deployment |= {name: {**deployment.get(name, {}), **members} for name, members in other.items()}
    with serving(write_deployment(deployment, folder)) as server:
        yield server


@asynccontextmanager
async def listening(server: Server, *, buffer: int | None = None) -> AsyncGenerator[Line]:
    """Open a session without turn detection.

    ``buffer``: bytes that wait at this end while nothing is read.
    """
    ours = socket.create_connection(("127.0.0.1", server.port))
    if buffer is not None:
        set_buffer(ours, buffer)
    async with connect(
        server.ws_url, sock=ours, max_size=MAX_FRAME, compression=None, max_queue=1
    ) as opened:
        each = Line(opened)
        assert (await each.hear())["type"] == "session.created"
        await each.say("session.update", session={"audio": {"input": {"turn_detection": None}}})
        assert (await each.hear())["type"] == "session.updated"
        yield each


def set_buffer(ours: socket.socket, size: int) -> None:
    """Say how much may wait at this end of a connection."""
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


async def hear_all(each: Line) -> tuple[Event, float]:
    """Return the end of a response, and the ms of audio that came before it."""
    heard_ms = 0.0
    while True:
        event = await each.until("response.output_audio.delta", "response.done")
        if event["type"] == "response.done":
            return event["response"], heard_ms
        heard_ms += len(b64decode(event["delta"])) / BYTES_PER_MS


async def asked(server: Server) -> Any:
    """Return what the server says of itself; another process, so it may take its time."""
    return await asyncio.to_thread(server.sessions)


async def wait_until(server: Server, is_so: Callable[[Any], bool], seconds: float = 60) -> Any:
    """Return what the server says of itself once that is as wanted."""
    async with asyncio.timeout(seconds):
        while not is_so(told := await asked(server)):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
    return told


def metric(server: Server, name: str, **labels: str) -> float:
    """Return a number of ``/metrics``."""
    with urlopen(f"{server.url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    (value,) = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    return float(value)


def made_ms(told: Any) -> float:
    """Audio that was made, of all replies."""
    return float(told["stages"]["code2wav"]["audio_seconds"]) * 1000


def is_idle(told: Any) -> bool:
    return not told["stages"]["reply"]["running"]


def words(count: int) -> str:
    return " ".join(f"word{number}" for number in range(count)) + "."


@dataclass
class Device:
    """A sound card that plays at once what it has, up to where it was paused."""

    pauses_at_ms: float = CHUNK_MS
    received_ms: float = 0.0
    paused: bool = True

    @property
    def position_ms(self) -> float:
        return min(self.received_ms, self.pauses_at_ms) if self.paused else self.received_ms

    def resume(self) -> None:
        self.paused = False

    async def hear(self, client: RealtimeClient, listener: Listener) -> str:
        """Take in a response; return how it ended."""
        async for event in client:
            if event["type"] == "response.output_audio.delta":
                self.received_ms += len(audio_of(event)) / BYTES_PER_MS
            listener.take(event)
            if event["type"] == "response.done":
                return str(event["response"]["status"])
        raise AssertionError("the server closed the connection")


def test_a_client_that_never_reads_costs_no_more_than_the_lead(tmp_path: Path) -> None:
    lead_ms, long_ms, short_ms = 60_000, 2000 * MS_PER_WORD, 10 * MS_PER_WORD
    with paced_server(
        tmp_path,
        [words(2000), words(10)],
        {},
        pacing={"lead_ms": lead_ms},
        limits={"stalled_seconds": 3},
    ) as server:

        async def main() -> tuple[float, float, ConnectionClosed]:
            async with (
                listening(server) as other,
                listening(server, buffer=SMALL_BUFFER) as deaf,
            ):
                began = time.monotonic()
                await deaf.ask("Tell me everything.", aloud=True)
                await wait_until(server, lambda told: made_ms(told) > 0)
                # Nobody else notices.
                await other.ask("And me?", aloud=True)
                response, heard_ms = await hear_all(other)
                assert response["status"] == "completed"
                assert heard_ms == short_ms
                # It has to go; there is time left to read why.
                told = await wait_until(server, is_idle)
                passed_ms = (time.monotonic() - began) * 1000
                set_buffer(deaf.socket.transport.get_extra_info("socket"), MAX_FRAME)
                with pytest.raises(ConnectionClosed) as closed:
                    await hear_all(deaf)
                return made_ms(told) - short_ms, passed_ms, closed.value

        deaf_ms, passed_ms, closed = asyncio.run(main())
        # What the kernels take is heard as time passes; the rest is the lead.
        assert lead_ms <= deaf_ms <= lead_ms + CHUNK_MS + passed_ms
        assert deaf_ms < long_ms / 2
        assert closed.rcvd is not None
        assert (closed.rcvd.code, closed.rcvd.reason) == (1008, "the client does not read")
        wait_quiet(server)
        unheard_s = metric(server, "antiphon_unheard_seconds_total", response="interrupted")
        assert 0 < unheard_s <= deaf_ms / 1000
        outcomes = [
            metric(server, "antiphon_responses_total", outcome=outcome)
            for outcome in ("completed", "cancelled", "incomplete", "failed")
        ]
        assert sum(outcomes) == 2


def test_a_listener_who_pauses_is_waited_for(tmp_path: Path) -> None:
    lead_ms, total_ms = 1000.0, 40 * MS_PER_WORD
    with paced_server(
        tmp_path, [words(40), words(12)], {"pace": 4}, pacing={"lead_ms": int(lead_ms)}
    ) as server:

        async def main() -> None:
            device = Device()
            async with (
                open_session(server.ws_url, extensions=True) as client,
                listening(server) as other,
            ):
                player = Player(position_ms=lambda: device.position_ms)
                listener = Listener(client, player)
                reporting = asyncio.create_task(listener.run())
                hearing = asyncio.create_task(device.hear(client, listener))
                await client.send("response.create")
                await wait_until(server, lambda told: made_ms(told) >= lead_ms / 2)

                # Long enough for all of it to be made, were it not held back.
                await other.ask("And you?", aloud=True)
                response, short_ms = await hear_all(other)
                assert (response["status"], short_ms) == ("completed", 12 * MS_PER_WORD)
                told = await asked(server)
                held_ms = made_ms(told) - short_ms
                assert told["stages"]["reply"]["running"] == 1
                assert lead_ms / 2 <= held_ms <= device.pauses_at_ms + ON_MS + lead_ms + CHUNK_MS

                # On it goes, and nothing is lost.
                device.resume()
                async with asyncio.timeout(60):
                    status = await hearing
                assert (status, device.received_ms) == ("completed", total_ms)
                reporting.cancel()
                await asyncio.gather(reporting, return_exceptions=True)

        asyncio.run(main())
        wait_quiet(server)
        assert metric(server, "antiphon_spoken_responses_total", source="report") == 1


def test_of_a_burst_some_wait_and_the_rest_is_told_to_come_again(tmp_path: Path) -> None:
    burst, waiting, reply_ms = 30, 6, 6 * MS_PER_WORD
    with paced_server(
        tmp_path,
        [words(40), *([words(6)] * burst)],
        # A fifth of the decoder's time for each reply that is heard.
        {"decode_frame_ms": 4},
        pacing={"waiting": waiting, "lead_ms": 2000},
    ) as server:

        async def main() -> list[Event]:
            async with AsyncExitStack() as stack:
                first = await stack.enter_async_context(listening(server))
                lines = [await stack.enter_async_context(listening(server)) for _ in range(burst)]
                await first.ask("Tell me something long.", aloud=True)
                await first.until("response.output_audio.delta")
                for each in lines:
                    await each.ask("And me?", aloud=True)
                async with asyncio.timeout(60):
                    ends = await asyncio.gather(*(hear_all(each) for each in lines))
                    established, _ = await hear_all(first)
                assert established["status"] == "completed"
                for response, heard_ms in ends:
                    expected_ms = reply_ms if response["status"] == "completed" else 0
                    assert heard_ms == expected_ms
                # One more event of any kind would be the second end of a response.
                for each in lines:
                    await each.say("input_audio_buffer.clear")
                    event = await each.until("input_audio_buffer.cleared", "response.done")
                    assert event["type"] == "input_audio_buffer.cleared"
                return [response for response, _ in ends]

        responses = asyncio.run(main())
        completed = [each for each in responses if each["status"] == "completed"]
        refused = [each for each in responses if each["status"] == "failed"]
        assert len(completed) + len(refused) == burst
        assert len(completed) >= waiting
        assert refused, "all were served at once: the burst was none"
        for each in refused:
            error = each["status_details"]["error"]
            assert (error["type"], error["code"]) == ("server_error", "overloaded")
            assert error["retry_after_ms"] > 0
        told = wait_quiet(server)["stages"]["reply"]
        assert told["refused"] == len(refused)
        assert told["admitted"] == len(completed) + 1
        assert told["delayed"] >= waiting
        assert (told["waiting"], told["spoken"]) == (0, 0)
        assert metric(server, "antiphon_reply_refused_total") == len(refused)
        assert metric(server, "antiphon_responses_total", outcome="failed") == len(refused)
        assert metric(server, "antiphon_reply_delayed_seconds_total") > 0
