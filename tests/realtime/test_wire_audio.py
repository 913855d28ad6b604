"""The audio of responses in binary frames: what a client gets, on simulated time."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fakes import LOUD, QUIET, RATE, FakePipeline, Step, spoken, tone
from tests.support.loop import AutojumpLoop, run_simulated
from tests.support.rig import PUSH_TO_TALK, Rig, served

from antiphon.codecs.opus import OpusDecoder
from antiphon.engines.chunks import End, EndReason, PcmChunk, TextDelta
from antiphon.realtime.binary import Kind
from antiphon.realtime.wire_audio import FRAME_BYTES
from antiphon.sessions.settings import AudioFormat, BinaryFormat, Settings

Json = dict[str, Any]
OLD, NEW = 1111, 2222
STARTED = "antiphon.output_audio.started"


def binary(form: BinaryFormat = BinaryFormat.PCM16, **more: Any) -> Settings:
    return replace(PUSH_TO_TALK, extensions=True, binary_audio=True, binary_format=form, **more)


def saying(*chunks: bytes) -> tuple[Step, ...]:
    return (
        TextDelta("so it is", 3),
        *(PcmChunk(chunk, RATE) for chunk in chunks),
        End(EndReason.COMPLETED),
    )


async def answer(rig: Rig, count: int = 1) -> Json:
    rig.socket.put("response.create")
    done = await rig.socket.wait_for("response.done", count)
    response: Json = done["response"]
    return response


def payloads(rig: Rig) -> bytes:
    return b"".join(frame["payload"] for frame in rig.socket.of("binary"))


def sound(seed: int, samples: int) -> bytes:
    values = np.random.default_rng(seed).integers(-9000, 9000, samples)
    return values.astype("<i2").tobytes()


def test_frames_are_announced_and_numbered() -> None:
    async def main() -> None:
        async with served(settings=binary()) as rig:
            for number in (1, 2):
                response = await answer(rig, number)
                started = rig.socket.of(STARTED)[number - 1]
                started.pop("event_id")
                assert started == {
                    "type": STARTED,
                    "response_id": response["id"],
                    "item_id": response["output"][0]["id"],
                    "output_index": 0,
                    "content_index": 0,
                    "number": number,
                    "epoch": started["epoch"],
                    "format": "pcm16",
                    "sample_rate": 24_000,
                }
                frames = [f for f in rig.socket.of("binary") if f["number"] == number]
                assert [frame["position_ms"] for frame in frames] == [0, 100, 200, 300, 400]
                assert [frame["last"] for frame in frames] == [False] * 4 + [True]
                assert {frame["epoch"] for frame in frames} == {started["epoch"]}
                assert {frame["kind"] for frame in frames} == {Kind.PCM16}
                assert frames[-1]["payload"] == b""
            kinds = rig.socket.kinds
            first = kinds.index("binary")
            assert kinds.index(STARTED) < first
            assert kinds.index("response.output_audio.done") == first + 5
            assert "response.output_audio.delta" not in kinds

    run_simulated(main())


@given(st.lists(st.integers(1, 40_000), min_size=1, max_size=6), st.sampled_from(AudioFormat))
@settings(max_examples=25, deadline=None)
def test_binary_pcm_is_what_json_would_have_been(sizes: list[int], form: AudioFormat) -> None:
    chunks = [sound(size, size) for size in sizes]

    async def said(start: Settings) -> tuple[bytes, Rig]:
        async with served(FakePipeline(replies=[saying(*chunks)]), settings=start) as rig:
            await answer(rig)
            deltas = rig.socket.of("response.output_audio.delta")
            return b"".join(b64decode(delta["delta"]) for delta in deltas), rig

    async def main() -> None:
        by_json, _ = await said(PUSH_TO_TALK)
        _, rig = await said(binary(output_format=form))
        assert payloads(rig) == by_json == b"".join(chunks)
        at = 0
        for frame in rig.socket.of("binary"):
            assert frame["position_ms"] == at // 48
            assert len(frame["payload"]) <= FRAME_BYTES
            at += len(frame["payload"])

    run_simulated(main())


def test_opus_is_what_was_said_and_its_positions_are_right() -> None:
    at = np.arange(RATE * 2) / RATE
    said = (8000 * np.sin(2 * np.pi * 300 * at)).astype("<i2").tobytes()
    chunks = [said[start : start + 9_876] for start in range(0, len(said), 9_876)]

    async def main() -> None:
        pipeline = FakePipeline(replies=[saying(*chunks)])
        async with served(pipeline, settings=binary(BinaryFormat.OPUS)) as rig:
            await answer(rig)
            frames = rig.socket.of("binary")
            assert {frame["kind"] for frame in frames} == {Kind.OPUS}
            assert [frame["last"] for frame in frames] == [False] * (len(frames) - 1) + [True]
            decoder = OpusDecoder()
            heard = b"".join(decoder.feed(frame["payload"]) for frame in frames)
            heard += decoder.flush()
            assert len(said) <= len(heard) <= len(said) + 2 * 480
            ears, mouth = (np.frombuffer(pcm, "<i2")[4800:40_000] for pcm in (heard, said))
            assert np.corrcoef(ears, mouth)[0, 1] > 0.98
            # A packet holds 20 ms, the first 6.5 ms of which are the codec's own.
            assert [frame["position_ms"] for frame in frames[:4]] == [0, 13, 33, 53]
            assert rig.socket.of(STARTED)[0]["format"] == "opus"
            # The ledger knows all of it to be on the wire, and no more.
            item_id = rig.socket.of(STARTED)[0]["item_id"]
            cut = {"item_id": item_id, "content_index": 0, "audio_end_ms": 3000}
            rig.socket.put("conversation.item.truncate", **cut)
            error = (await rig.socket.wait_for("error"))["error"]
            assert "2000ms" in error["message"]

    run_simulated(main())


def test_opus_is_encoded_in_threads() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AutojumpLoop)
        async with served(settings=binary(BinaryFormat.OPUS)) as rig:
            before = loop.thread_calls
            await answer(rig)
            assert loop.thread_calls - before == 5, "four chunks, and the end"

    run_simulated(main())


def test_pcm_needs_no_thread() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AutojumpLoop)
        async with served(settings=binary()) as rig:
            await answer(rig)
            assert loop.thread_calls == 0

    run_simulated(main())


@pytest.mark.parametrize("form", list(BinaryFormat))
@pytest.mark.parametrize("stalled", [True, False])
def test_after_speech_started_not_one_old_frame_is_written(
    form: BinaryFormat, stalled: bool
) -> None:
    old = (*spoken("one two three four five six seven eight nine ten", value=OLD)[:-1], 1000.0)

    async def main() -> None:
        pipeline = FakePipeline(replies=[old, spoken("yes", value=NEW)])
        start = Settings(voice="ada", extensions=True, binary_audio=True, binary_format=form)
        async with served(pipeline, settings=start) as rig:
            if stalled:
                rig.socket.stalls_at = "binary"
            rig.speak()
            await rig.socket.wait_for("binary")
            await asyncio.sleep(0.1)
            rig.socket.append(LOUD * 10)
            await asyncio.sleep(0.1)
            rig.socket.resume()
            cancelled = await rig.socket.wait_for("response.done")
            assert cancelled["response"]["status_details"]["reason"] == "turn_detected"
            rig.socket.append(QUIET * 30)
            await rig.socket.wait_for("response.done", 2)
            kinds = rig.socket.kinds
            second = kinds.index("input_audio_buffer.speech_started", 3)
            later = [e for e in rig.socket.events[second:] if e["type"] == "binary"]
            assert later
            assert {frame["number"] for frame in later} == {2}
            if stalled:
                assert kinds[:second].count("binary") == 2, "the first, and the one under way"

    run_simulated(main())


def test_what_is_being_encoded_when_it_is_cut_is_not_written() -> None:
    """The packets of a chunk are written one by one; a cut drops those that are left."""
    old = (PcmChunk(tone(2000, OLD), RATE), 1000.0)

    async def main() -> None:
        pipeline = FakePipeline(replies=[(TextDelta("one two", 2), *old)])
        async with served(pipeline, settings=binary(BinaryFormat.OPUS)) as rig:
            rig.socket.stalls_at = "binary"
            rig.socket.put("response.create")
            await rig.socket.wait_for("binary")
            rig.socket.put("response.cancel")
            await asyncio.sleep(0.1)
            rig.socket.resume()
            await rig.socket.wait_for("response.done")
            assert len(rig.socket.of("binary")) == 2

    run_simulated(main())


def test_a_stock_client_never_sees_any_of_it() -> None:
    async def main() -> None:
        start = Settings(voice="ada", turn_detection=None, binary_audio=True)
        async with served(settings=start) as rig:
            await answer(rig)
            assert "binary" not in rig.socket.kinds
            assert not [kind for kind in rig.socket.kinds if kind.startswith("antiphon.")]
            assert "antiphon" not in rig.socket.of("session.created")[0]["session"]

    run_simulated(main())


def test_a_format_holds_for_the_whole_response() -> None:
    gate = asyncio.Event()

    async def main() -> None:
        reply = saying(tone(100))
        pipeline = FakePipeline(replies=[(*reply[:2], gate, *reply[1:]), saying(tone(100))])
        async with served(pipeline, settings=binary()) as rig:
            rig.socket.put("response.create")
            await rig.socket.wait_for("binary")
            rig.socket.put("session.update", session={"antiphon": {"binary_audio": False}})
            await rig.socket.wait_for("session.updated")
            gate.set()
            await rig.socket.wait_for("response.done")
            assert payloads(rig) == tone(200)
            await answer(rig, 2)
            assert len(rig.socket.of("binary")) == 3
            (delta,) = rig.socket.of("response.output_audio.delta")
            assert b64decode(delta["delta"]) == tone(100)

    run_simulated(main())


def test_a_written_response_has_no_frames() -> None:
    async def main() -> None:
        async with served(settings=binary()) as rig:
            rig.socket.put("response.create", response={"output_modalities": ["text"]})
            await rig.socket.wait_for("response.done")
            assert STARTED not in rig.socket.kinds
            assert "binary" not in rig.socket.kinds

    run_simulated(main())
