"""The Python client and a whole server: audio in binary frames, both ways."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.server import Server, serving, shipped, wait_quiet, write_deployment

from antiphon.realtime.client import BinaryFormat, RealtimeClient, audio_of, open_session
from antiphon.realtime.playback import Listener

pytestmark = [pytest.mark.server]

Json = dict[str, Any]
EVENT_SECONDS = 20.0

LINE = "Yes, of course. It is so."
WORDS_MS = 6 * 50


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that answers with half a second of silence, made at once."""
    deployment = shipped("silent")
    deployment["stages"]["ar"]["lines"] = [LINE]
    deployment["stages"]["talker"] |= {"ms_per_word": 50, "pace": 100, "chunk_ms": 70}
    with serving(write_deployment(deployment, tmp_path_factory.mktemp("fast"))) as server:
        yield server


async def until(client: RealtimeClient, listener: Listener, kind: str) -> list[Json]:
    """Return all events up to one of a kind, each of them listened to."""
    events: list[Json] = []
    async with asyncio.timeout(EVENT_SECONDS):
        while True:
            event = await client.receive()
            assert event["type"] != "error", event
            listener.take(event)
            events.append(event)
            if event["type"] == kind:
                return events


@pytest.mark.parametrize("form", ["pcm16", "opus"])
def test_a_conversation_in_binary_frames(fast: Server, form: BinaryFormat) -> None:
    at = np.arange(24_000) / 24_000
    tone = (6000 * np.sin(2 * np.pi * 220 * at)).astype("<i2").tobytes()

    async def main() -> None:
        async with open_session(fast.ws_url, binary=form) as client:
            listener = Listener(client)
            reports = asyncio.create_task(listener.run())
            updated = (await until(client, listener, "session.updated"))[-1]
            assert updated["session"]["antiphon"]["binary_format"] == form
            turns = {"audio": {"input": {"turn_detection": None}}}
            await client.send("session.update", session=turns)
            await until(client, listener, "session.updated")
            assert client.binary == form

            for start in range(0, len(tone), 1500):
                await client.append(tone[start : start + 1500])
            await client.commit()
            item_id = (await until(client, listener, "conversation.item.done"))[-1]["item"]["id"]
            await client.send("response.create")
            events = await until(client, listener, "response.done")
            response = events[-1]["response"]
            assert response["status"] == "completed"
            deltas = [e for e in events if e["type"] == "response.output_audio.delta"]
            assert all("audio" in delta and "delta" not in delta for delta in deltas)
            assert {delta["response_id"] for delta in deltas} == {response["id"]}
            heard = b"".join(audio_of(delta) for delta in deltas)
            # The voice ends with a whole frame, and Opus with a whole packet.
            assert WORDS_MS <= len(heard) / 48 <= WORDS_MS + 40
            assert np.abs(np.frombuffer(heard, "<i2")).max() < 30

            # The server kept what was said, as the client sent it.
            await client.send("conversation.item.retrieve", item_id=item_id)
            kept = (await until(client, listener, "conversation.item.retrieved"))[-1]
            said = audio_of({"delta": kept["item"]["content"][0]["audio"]})
            assert len(said) == pytest.approx(len(tone), abs=2 * 480 * 2)
            samples, sent = (np.frombuffer(pcm, "<i2")[2000:20_000] for pcm in (said, tone))
            assert np.corrcoef(samples, sent)[0, 1] > 0.98

            # It is still being played; whoever speaks now would cut what was not heard.
            report = listener.player.report(response["id"], asyncio.get_running_loop().time())
            assert report is not None
            assert report.played_ms + report.buffered_ms == pytest.approx(len(heard) / 48)
            assert not reports.done()
            reports.cancel()

    asyncio.run(main())
    wait_quiet(fast)
