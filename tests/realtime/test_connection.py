"""One connection from its first event to its last, on simulated time."""

from __future__ import annotations

import asyncio
import logging
import math
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter
from tests.support.fakes import BROKEN, LOUD, QUIET, RATE, FakePipeline, Step, spoken, tone
from tests.support.loop import AutojumpLoop, run_simulated
from tests.support.rig import CAN, LISTENING, PUSH_TO_TALK, SEED, Rig, served

from antiphon.codecs.g711 import ulaw_encode
from antiphon.engines.chunks import PcmChunk, TextDelta, Transcript
from antiphon.engines.pipeline import ListenRequest, Reply, ReplyRequest
from antiphon.realtime.connection import (
    AUDIO_HIGH_BYTES,
    BIG_MESSAGE,
    CLOSE_SECONDS,
    ConnectionLimits,
    Disconnected,
    Measured,
)
from antiphon.realtime.recording import Recorder, replay
from antiphon.sessions import effects as fx
from antiphon.sessions.settings import (
    Capabilities,
    SessionKind,
    Settings,
    Transcription,
    TurnDetection,
)

Json = dict[str, Any]
OLD, NEW = 1111, 2222
"""Sample values by which the audio of an interrupted reply and of the next are told apart."""


def samples(event: Json) -> set[int]:
    return set(np.frombuffer(b64decode(event["delta"]), "<i2").tolist())


def audio(rig: Rig) -> bytes:
    return b"".join(b64decode(e["delta"]) for e in rig.socket.of("response.output_audio.delta"))


async def error_of(rig: Rig, count: int = 1) -> Json:
    found: Json = (await rig.socket.wait_for("error", count))["error"]
    return found


# A conversation.


def test_a_spoken_turn_from_end_to_end() -> None:
    async def main() -> None:
        async with served() as rig:
            rig.speak()
            done = await rig.socket.wait_for("response.done")
            assert done["response"]["status"] == "completed"
            assert [kind for kind in rig.socket.kinds if kind != "response.output_audio.delta"] == [
                "session.created",
                "input_audio_buffer.speech_started",
                "input_audio_buffer.speech_stopped",
                "input_audio_buffer.committed",
                "conversation.item.added",
                "conversation.item.done",
                "response.created",
                "rate_limits.updated",
                "response.output_item.added",
                "conversation.item.added",
                "response.content_part.added",
                "response.output_audio_transcript.delta",
                "response.output_audio.done",
                "response.output_audio_transcript.done",
                "response.content_part.done",
                "conversation.item.done",
                "response.output_item.done",
                "response.done",
            ]
            assert audio(rig) == tone(400)
            (heard,) = rig.pipeline.audio_heard
            assert LOUD * 30 in heard
            (asked,) = rig.pipeline.of(ReplyRequest)
            assert [message.text for message in asked.messages] == ["hi"]
        assert rig.socket.closed is None

    run_simulated(main())


def test_settings_are_answered_and_used() -> None:
    async def main() -> None:
        async with served() as rig:
            rig.socket.put("session.update", session={"output_modalities": ["text"]})
            updated = await rig.socket.wait_for("session.updated")
            assert updated["session"]["output_modalities"] == ["text"]
            rig.socket.put("response.create")
            await rig.socket.wait_for("response.done")
            assert rig.socket.of("response.output_text.done")[0]["text"] == "hello there"
            assert not rig.pipeline.of(ReplyRequest)[0].speak

    run_simulated(main())


def test_time_passes_for_the_session() -> None:
    """A client that stops sending in the middle of a turn has stopped talking."""

    async def main() -> None:
        async with served() as rig:
            rig.socket.append(LOUD * 30)
            await rig.socket.wait_for("input_audio_buffer.speech_started")
            began = asyncio.get_running_loop().time()
            await rig.socket.wait_for("input_audio_buffer.speech_stopped")
            assert asyncio.get_running_loop().time() - began == pytest.approx(1.5)

    run_simulated(main())


def test_what_is_played_is_counted_as_it_is_written() -> None:
    """A truncation beyond what was sent is refused, one within is taken."""

    async def main() -> None:
        async with served() as rig:
            rig.speak()
            done = await rig.socket.wait_for("response.done")
            item_id = done["response"]["output"][0]["id"]
            cut = {"item_id": item_id, "content_index": 0}
            rig.socket.put("conversation.item.truncate", **cut, audio_end_ms=2000)
            assert (await error_of(rig))["message"] == (
                "Audio content of 400ms is already shorter than 2000ms"
            )
            rig.socket.put("conversation.item.truncate", **cut, audio_end_ms=200)
            await rig.socket.wait_for("conversation.item.truncated")

    run_simulated(main())


def test_what_is_measured_is_told_to_the_server_and_not_to_a_client_that_did_not_ask() -> None:
    measured: list[Measured] = []

    async def main() -> None:
        async with served(on_measured=measured.append) as rig:
            rig.speak()
            await rig.socket.wait_for("response.done")
            await asyncio.sleep(1)
            kinds = [fx.TurnMeasured, fx.ResponseDone, fx.ResponseMeasured]
            assert sorted(map(type, measured), key=kinds.index) == kinds
            assert not [e for e in rig.socket.events if e["type"].startswith("antiphon.")]

    run_simulated(main())


def test_stages_are_told_that_a_client_does_not_read() -> None:
    seconds = tuple(step for _ in range(8) for step in (PcmChunk(tone(500), RATE), 0.5))

    async def main() -> None:
        pipeline = FakePipeline(replies=[seconds])
        async with served(pipeline, settings=PUSH_TO_TALK) as rig:
            rig.socket.stalls_at = "response.output_audio.delta"
            rig.socket.put("response.create")
            await asyncio.sleep(3)
            # One frame was written before it stopped to read.
            assert [told[1:] for told in pipeline.playback] == [(500.0, 500.0)]
            rig.socket.resume()
            await asyncio.sleep(0.7)
            assert pipeline.playback[-1][2] == math.inf

    run_simulated(main())


# Interruption.


@pytest.mark.parametrize("stalled", [True, False])
def test_after_speech_started_not_one_old_frame_is_written(stalled: bool) -> None:
    old = (*spoken("one two three four five six seven eight nine ten", value=OLD)[:-1], 1000.0)

    async def main() -> None:
        pipeline = FakePipeline(replies=[old, spoken("yes", value=NEW)])
        async with served(pipeline) as rig:
            if stalled:
                # Two seconds of audio are made; the client takes the first 100 ms for now.
                rig.socket.stalls_at = "response.output_audio.delta"
            rig.speak()
            await rig.socket.wait_for("response.output_audio.delta")
            await asyncio.sleep(0.1)
            rig.socket.append(LOUD * 10)
            await asyncio.sleep(0.1)
            rig.socket.resume()
            cancelled = await rig.socket.wait_for("response.done")
            assert cancelled["response"]["status_details"]["reason"] == "turn_detected"
            rig.socket.append(QUIET * 30)
            await rig.socket.wait_for("response.done", 2)
            events = rig.socket.events
            second = [e["type"] for e in events].index("input_audio_buffer.speech_started", 3)
            deltas = [e for e in events[second:] if e["type"] == "response.output_audio.delta"]
            assert deltas
            assert all(samples(event) == {NEW} for event in deltas)
            if stalled:
                before = [e for e in events[:second] if e["type"] == "response.output_audio.delta"]
                assert len(before) == 2, "the first, and the one that was being written"

    run_simulated(main())


@pytest.mark.parametrize("form", ["audio/pcmu", "audio/pcma"])
def test_nothing_held_back_by_a_codec_is_written_late(form: str) -> None:
    old = (*spoken("one two three four", value=OLD)[:-1], 1000.0)

    async def main() -> None:
        async with served(FakePipeline(replies=[old])) as rig:
            formats = {"output": {"format": {"type": form}}}
            rig.socket.put("session.update", session={"audio": formats})
            rig.speak()
            await rig.socket.wait_for("response.output_audio.delta")
            rig.socket.append(LOUD * 10)
            await rig.socket.wait_for("response.done")
            kinds = rig.socket.kinds
            second = kinds.index("input_audio_buffer.speech_started", 4)
            assert "response.output_audio.delta" not in kinds[second:]

    run_simulated(main())


def test_a_cancel_by_the_client_purges_too() -> None:
    old = (*spoken("one two three four", value=OLD)[:-1], 1000.0)

    async def main() -> None:
        async with served(FakePipeline(replies=[old]), settings=PUSH_TO_TALK) as rig:
            rig.socket.stalls_at = "response.output_audio.delta"
            rig.socket.put("response.create")
            await rig.socket.wait_for("response.output_audio.delta")
            await asyncio.sleep(0.1)
            rig.socket.put("response.cancel")
            await asyncio.sleep(0.1)
            rig.socket.resume()
            await rig.socket.wait_for("response.done")
            assert audio(rig) == tone(200, OLD)
            assert rig.socket.kinds[-6:-5] == ["response.output_audio.done"]

    run_simulated(main())


# Messages that can't be followed.


def test_a_binary_frame_is_refused() -> None:
    async def main() -> None:
        async with served() as rig:
            rig.socket.put_raw(b"\0\1\2\3")
            error = await error_of(rig)
            assert error["code"] == "invalid_value"
            assert "Binary frames" in error["message"]

    run_simulated(main())


def test_what_can_not_be_understood_is_refused_and_the_session_goes_on() -> None:
    async def main() -> None:
        async with served() as rig:
            rig.socket.put_raw("{")
            rig.socket.put("session.update", session={"type": "transcription"}, event_id="e1")
            rig.socket.put("conversation.item.delete", item_id="none", event_id="e2")
            assert (await error_of(rig, 1))["code"] == "invalid_json"
            assert (await error_of(rig, 2))["event_id"] == "e1"
            assert (await error_of(rig, 3))["event_id"] == "e2"
            rig.socket.put("input_audio_buffer.clear")
            await rig.socket.wait_for("input_audio_buffer.cleared")

    run_simulated(main())


def test_half_a_sample_is_refused() -> None:
    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            rig.socket.put("input_audio_buffer.append", audio=b"\0\0\0", event_id="e")
            error = await error_of(rig)
            assert (error["param"], error["event_id"]) == ("audio", "e")
            rig.socket.put("input_audio_buffer.commit")
            assert (await error_of(rig, 2))["code"] == "input_audio_buffer_commit_empty"

    run_simulated(main())


def test_an_append_above_the_bound_is_refused() -> None:
    mib = 1024 * 1024

    async def main() -> None:
        limits = ConnectionLimits(append_bytes=mib)
        async with served(settings=PUSH_TO_TALK, limits=limits) as rig:
            rig.socket.append(bytes(mib + 2))
            error = await error_of(rig)
            assert error["message"] == "audio may have at most 1 MiB in one append."
            rig.socket.append(bytes(mib))
            rig.socket.put("input_audio_buffer.commit")
            await rig.socket.wait_for("input_audio_buffer.committed")
            await rig.pipeline.all_streams_gone()
            assert [len(heard) for heard in rig.pipeline.audio_heard] == [mib]

    run_simulated(main())


def test_an_odd_byte_of_a_retrieved_item_breaks_nothing() -> None:
    part = {"type": "input_audio", "audio": "AA=="}
    item = {"id": "mine", "type": "message", "role": "user", "content": [part]}

    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            formats = {"input": {"format": {"type": "audio/pcmu"}}}
            rig.socket.put("session.update", session={"audio": formats})
            rig.socket.put("conversation.item.create", item=item)
            rig.socket.put("conversation.item.retrieve", item_id="mine")
            await rig.socket.wait_for("conversation.item.retrieved")

    run_simulated(main())


# Audio in.


def test_g711_is_understood_to_its_last_sample() -> None:
    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            formats = {"input": {"format": {"type": "audio/pcmu"}}}
            rig.socket.put("session.update", session={"audio": formats})
            for _ in range(10):
                rig.socket.append(ulaw_encode(b"\x10\x27" * 160))
            rig.socket.put("input_audio_buffer.commit")
            await rig.socket.wait_for("input_audio_buffer.committed")
            await rig.pipeline.all_streams_gone()
            (heard,) = rig.pipeline.audio_heard
            assert abs(len(heard) - 200 * 48) <= 2

    run_simulated(main())


def test_a_change_of_format_forgets_what_the_old_one_held_back() -> None:
    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            for form in ("audio/pcmu", "audio/pcm"):
                formats = {"input": {"format": {"type": form}}}
                rig.socket.put("session.update", session={"audio": formats})
                rig.socket.append(bytes(160))
            rig.socket.append(tone(200))
            rig.socket.put("input_audio_buffer.commit")
            await rig.socket.wait_for("input_audio_buffer.committed")
            await rig.pipeline.all_streams_gone()
            assert rig.pipeline.audio_heard[0].endswith(bytes(160) + tone(200))

    run_simulated(main())


def test_a_big_message_is_decoded_off_the_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AutojumpLoop)
        async with served(settings=PUSH_TO_TALK) as rig:
            rig.socket.append(tone(100))
            rig.socket.put("input_audio_buffer.commit")
            await rig.socket.wait_for("input_audio_buffer.committed")
            assert loop.thread_calls == 0
            rig.socket.append(bytes(BIG_MESSAGE))
            rig.socket.put_raw("[" * (BIG_MESSAGE + 1))
            rig.socket.put("input_audio_buffer.commit")
            await rig.socket.wait_for("input_audio_buffer.committed", 2)
            assert loop.thread_calls == 2
            assert (await error_of(rig))["param"] == "type"

    run_simulated(main())


def test_noise_is_taken_out_before_anything_hears_it() -> None:
    """What the filter holds back belongs to the utterance that is committed."""
    hiss = (np.random.default_rng(0).standard_normal(RATE * 2) * 800).astype("<i2").tobytes()

    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            noise = {"noise_reduction": {"type": "far_field"}}
            rig.socket.put("session.update", session={"audio": {"input": noise}})
            updated = await rig.socket.wait_for("session.updated")
            told = updated["session"]["audio"]["input"]["noise_reduction"]
            assert told == {"type": "far_field"}
            for start in range(0, len(hiss), 4800):
                rig.socket.append(hiss[start : start + 4800])
            rig.socket.put("input_audio_buffer.commit")
            await rig.socket.wait_for("input_audio_buffer.committed")
            await rig.pipeline.all_streams_gone()
            (heard,) = rig.pipeline.audio_heard
            assert len(heard) == len(hiss)
            before, after = (
                np.std(np.frombuffer(pcm, "<i2")[RATE:].astype(float)) for pcm in (hiss, heard)
            )
            assert after < before / 2

    run_simulated(main())


def test_switching_noise_reduction_loses_nothing_and_clearing_forgets() -> None:
    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            for kind in ({"type": "near_field"}, None):
                noise = {"noise_reduction": kind}
                rig.socket.put("session.update", session={"audio": {"input": noise}})
                rig.socket.append(tone(205))
            rig.socket.put("input_audio_buffer.commit")
            await rig.socket.wait_for("input_audio_buffer.committed")
            await rig.pipeline.all_streams_gone()
            assert len(rig.pipeline.audio_heard[0]) == 2 * len(tone(205))
            noise = {"noise_reduction": {"type": "near_field"}}
            rig.socket.put("session.update", session={"audio": {"input": noise}})
            rig.socket.append(tone(201))
            rig.socket.put("input_audio_buffer.clear")
            rig.socket.put("input_audio_buffer.commit")
            assert (await error_of(rig))["code"] == "input_audio_buffer_commit_empty"

    run_simulated(main())


# Retrieval.


def test_a_long_item_is_encoded_off_the_loop_and_in_its_turn() -> None:
    pcm = tone(60_000)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AutojumpLoop)
        limits = ConnectionLimits(outgoing_bytes=1_000_000)
        async with served(settings=PUSH_TO_TALK, limits=limits) as rig:
            rig.socket.put("session.update", session={"audio": {"input": {"turn_detection": None}}})
            content = [{"type": "input_audio", "audio": pcm, "transcript": "long"}]
            item = {"type": "message", "role": "user", "id": "a", "content": content}
            rig.socket.put("conversation.item.create", item=item)
            await rig.socket.wait_for("conversation.item.done")
            calls = loop.thread_calls
            for _ in range(3):
                rig.socket.put("conversation.item.retrieve", item_id="a")
            rig.socket.put("input_audio_buffer.clear")
            await rig.socket.wait_for("input_audio_buffer.cleared")
            assert rig.socket.kinds[-4:] == [
                *["conversation.item.retrieved"] * 3,
                "input_audio_buffer.cleared",
            ]
            assert loop.thread_calls == calls + 3
            (part,) = rig.socket.of("conversation.item.retrieved")[2]["item"]["content"]
            assert b64decode(part["audio"]) == pcm

    run_simulated(main())


def test_one_long_item_at_a_time_is_on_its_way() -> None:
    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            content = [{"type": "input_audio", "audio": tone(60_000), "transcript": "long"}]
            item = {"type": "message", "role": "user", "id": "a", "content": content}
            rig.socket.put("conversation.item.create", item=item)
            await rig.socket.wait_for("conversation.item.done")
            rig.socket.stall()
            for _ in range(20):
                rig.socket.put("conversation.item.retrieve", item_id="a")
            await asyncio.sleep(1)
            assert rig.socket.unread >= 18
            rig.socket.resume()
            await rig.socket.wait_for("conversation.item.retrieved", 20)

    run_simulated(main())


def test_clearing_what_the_client_plays_does_nothing() -> None:
    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            rig.socket.put("output_audio_buffer.clear")
            rig.socket.put("input_audio_buffer.clear")
            await rig.socket.wait_for("input_audio_buffer.cleared")
            assert rig.socket.kinds == ["session.created", "input_audio_buffer.cleared"]

    run_simulated(main())


def test_a_session_that_transcribes_never_answers() -> None:
    settings = Settings(
        kind=SessionKind.TRANSCRIPTION,
        voice="ada",
        transcription=Transcription(model="whisper-1"),
    )

    async def main() -> None:
        async with served(settings=settings) as rig:
            assert rig.socket.events[0]["session"]["type"] == "transcription"
            rig.speak()
            done = await rig.socket.wait_for(
                "conversation.item.input_audio_transcription.completed"
            )
            assert done["transcript"] == "hi"
            rig.socket.put("response.create", event_id="e")
            assert (await error_of(rig))["event_id"] == "e"
            await asyncio.sleep(10)
            assert not [kind for kind in rig.socket.kinds if kind.startswith("response.")]
            assert not rig.pipeline.of(ReplyRequest)

    run_simulated(main())


def test_audio_faster_than_voice_activity_is_not_read() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        pipeline.listening_gate.clear()
        async with served(pipeline) as rig:
            for _ in range(1000):
                rig.socket.append(QUIET)
            await asyncio.sleep(1)
            waiting = rig.socket.unread
            assert waiting > 800
            pipeline.listening_gate.set()
            rig.socket.put("input_audio_buffer.clear")
            await rig.socket.wait_for("input_audio_buffer.cleared")

    run_simulated(main())


def test_reading_goes_on_when_voice_activity_fails() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        pipeline.listening_gate.clear()
        pipeline.listening_breaks_after.extend([0] * 10)
        async with served(pipeline) as rig:
            for _ in range(1000):
                rig.socket.append(QUIET)
            await asyncio.sleep(1)
            pipeline.listening_gate.set()
            rig.socket.put("input_audio_buffer.clear")
            await rig.socket.wait_for("input_audio_buffer.cleared")
            error = await error_of(rig)
            assert (error["code"], error["message"]) == ("turn_detection_failed", BROKEN.message)
            assert len(pipeline.of(ListenRequest)) == 4

    run_simulated(main())


# How it ends.


def test_a_client_that_vanishes_in_the_middle_of_a_word_leaves_nothing() -> None:
    old: tuple[Step, ...] = (
        TextDelta("never ending", 2),
        *(step for _ in range(100) for step in (PcmChunk(tone(100), RATE), 0.1)),
    )

    async def main() -> None:
        async with served(FakePipeline(replies=[old])) as rig:
            rig.speak()
            await rig.socket.wait_for("response.output_audio.delta", 3)
            assert rig.pipeline.open_streams == 2
            rig.socket.vanish()
            await rig.ended()
            assert rig.socket.closed is None

    run_simulated(main())


class Lingering:
    """A reply that takes its time to end once it was cancelled."""

    async def send(self, chunk: None) -> None:
        return

    async def end(self) -> None:
        return

    async def __aiter__(self) -> AsyncGenerator[TextDelta]:
        try:
            yield TextDelta("a", 1)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)

    def cancel(self) -> None:
        return

    def played(self, played_ms: float, until_ms: float) -> None:
        return


def test_a_connection_is_over_when_its_streams_are() -> None:
    class Pipeline(FakePipeline):
        def reply(self, request: ReplyRequest) -> Reply:
            return Lingering()

    async def main() -> None:
        async with served(Pipeline(), settings=PUSH_TO_TALK) as rig:
            rig.socket.put("response.create")
            await rig.socket.wait_for("response.output_audio_transcript.delta")
            rig.socket.vanish()
            await rig.ended()

    run_simulated(main())


def test_a_client_that_vanishes_while_it_is_written_to() -> None:
    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            rig.socket.send_error = Disconnected()
            rig.socket.put("input_audio_buffer.clear")
            await rig.ended()

    run_simulated(main())


def test_a_slow_reader_stops_the_reply_it_does_not_take() -> None:
    made: list[int] = []
    minute: tuple[Step, ...] = (
        TextDelta("a long story", 3),
        *(
            step
            for number in range(600)
            for step in (PcmChunk(tone(100), RATE), lambda number=number: made.append(number))
        ),
    )

    async def main() -> None:
        async with served(FakePipeline(replies=[minute]), settings=PUSH_TO_TALK) as rig:
            rig.socket.stalls_at = "response.output_audio.delta"
            rig.socket.put("response.create")
            await asyncio.sleep(10)
            at_most = AUDIO_HIGH_BYTES // len(b64encode(tone(100))) + 50
            assert 100 < len(made) < at_most
            rig.socket.resume()
            await rig.socket.wait_for("response.done")
            assert audio(rig) == tone(60_000)

    run_simulated(main())


def test_a_write_that_makes_no_progress_ends_the_connection() -> None:
    async def main() -> None:
        limits = ConnectionLimits(stalled_seconds=20)
        async with served(settings=PUSH_TO_TALK, limits=limits) as rig:
            rig.socket.stall()
            rig.socket.put("input_audio_buffer.clear")
            await rig.ended()
            assert rig.socket.closed == (1008, "the client does not read")
            assert asyncio.get_running_loop().time() == pytest.approx(20)

    run_simulated(main())


def test_events_for_a_client_that_does_not_read_are_bounded() -> None:
    async def main() -> None:
        limits = ConnectionLimits(outgoing_bytes=20_000)
        async with served(settings=PUSH_TO_TALK, limits=limits) as rig:
            rig.socket.stall()
            for _ in range(1000):
                rig.socket.put("input_audio_buffer.clear")
            await rig.ended()
            assert rig.socket.closed == (1008, "the client does not read")
            assert rig.socket.unread > 500
            assert asyncio.get_running_loop().time() <= CLOSE_SECONDS + 1

    run_simulated(main())


def test_a_bound_below_the_first_event_closes_at_once() -> None:
    async def main() -> None:
        async with served(limits=ConnectionLimits(outgoing_bytes=10)) as rig:
            await rig.ended()
            assert rig.socket.closed == (1008, "the client does not read")
            assert asyncio.get_running_loop().time() == 0

    run_simulated(main())


def test_a_session_that_is_over_says_so_and_closes() -> None:
    async def main() -> None:
        can = Capabilities(voices=("ada",), max_session_s=60.0)
        async with served(can=can) as rig:
            await rig.ended()
            error = rig.socket.events[-1]["error"]
            assert error["code"] == "session_expired"
            assert error["message"] == "Your session hit the maximum duration of 1 minutes."
            assert rig.socket.closed == (1001, error["message"])
            assert asyncio.get_running_loop().time() == pytest.approx(60)

    run_simulated(main())


def test_goodbye_does_not_wait_for_ever() -> None:
    async def main() -> None:
        can = Capabilities(voices=("ada",), max_session_s=60.0)
        async with served(can=can) as rig:
            rig.socket.stall()
            rig.socket.close_hangs = True
            await rig.ended()
            assert rig.socket.closed is None
            now = asyncio.get_running_loop().time()
            assert now == pytest.approx(60 + 2 * CLOSE_SECONDS)

    run_simulated(main())


def test_a_write_that_fails_is_our_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with served(settings=PUSH_TO_TALK) as rig:
            rig.socket.send_error = ValueError("a bug")
            rig.socket.put("input_audio_buffer.clear")
            await rig.ended()
            assert rig.socket.closed == (1011, "internal error")
            assert f"session {rig.session.id} failed" in caplog.text

    with caplog.at_level(logging.ERROR):
        run_simulated(main())


def test_a_server_that_stops_cancels_its_connections() -> None:
    async def main() -> None:
        async with served(FakePipeline(replies=[(1000.0,)])) as rig:
            rig.speak()
            await rig.socket.wait_for("response.created")
            rig.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await rig.task
            await rig.ended()
            assert rig.socket.closed == (1001, "the server is stopping")

    run_simulated(main())


# Recording.


def test_a_recording_gives_the_same_effects_again(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"

    async def main() -> Rig:
        recorder = Recorder(path.open("wb"), SEED, LISTENING, CAN)
        pipeline = FakePipeline(replies=[spoken("one two three four five")])
        async with served(pipeline, recorder=recorder) as rig:
            turns = {"silence_duration_ms": 300}
            rig.socket.put(
                "session.update",
                session={"instructions": "unset", "audio": {"input": {"turn_detection": turns}}},
            )
            rig.speak()
            await rig.socket.wait_for("response.done")
            rig.socket.append(LOUD * 20)
            await rig.socket.wait_for("input_audio_buffer.speech_stopped", 2)
            rig.socket.put("no.such.event")
            await error_of(rig)
        return rig

    rig = run_simulated(main())
    steps = list(replay(path))
    assert [effect for step in steps for effect in step.effects] == rig.session.taken
    assert any(step.event is None for step in steps)


# Whatever clients send.

_part = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "input_audio", "output_text", "output_audio"])},
    optional={
        "text": st.text(max_size=5),
        "audio": st.binary(max_size=5).map(lambda data: b64encode(data).decode()),
        "transcript": st.text(max_size=5),
    },
)
_item = st.fixed_dictionaries(
    {
        "type": st.just("message"),
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.lists(_part, max_size=2),
    },
    optional={"id": st.sampled_from(["a", "b"])},
)
_format = st.sampled_from(["audio/pcm", "audio/pcmu", "audio/pcma"]).map(
    lambda name: {"type": name}
)
_turns: st.SearchStrategy[Any] = st.none() | st.fixed_dictionaries(
    {}, optional={"silence_duration_ms": st.integers(20, 600), "interrupt_response": st.booleans()}
)
_session: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "output_modalities": st.sampled_from([["audio"], ["text"]]),
        "audio": st.fixed_dictionaries(
            {},
            optional={
                "input": st.fixed_dictionaries(
                    {},
                    optional={
                        "format": _format,
                        "turn_detection": _turns,
                        "transcription": st.none() | st.just({"model": "whisper-1"}),
                    },
                ),
                "output": st.fixed_dictionaries({}, optional={"format": _format}),
            },
        ),
        "antiphon": st.booleans(),
    },
)
_id = st.sampled_from(["a", "b", "root"])


def _message(kind: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    message = st.fixed_dictionaries({"type": st.just(kind), **members})
    return message.map(lambda made: msgspec.json.encode(made).decode())


_audio = st.sampled_from([LOUD * 15, QUIET * 40, b"\1\2\3", b""]).map(
    lambda pcm: b64encode(pcm).decode()
)
_said = (
    _message("session.update", session=_session)
    | _message("input_audio_buffer.append", audio=_audio)
    | _message("input_audio_buffer.commit")
    | _message("input_audio_buffer.clear")
    | _message("conversation.item.create", item=_item, previous_item_id=st.none() | _id)
    | _message("conversation.item.retrieve", item_id=_id)
    | _message("conversation.item.delete", item_id=_id)
    | _message(
        "conversation.item.truncate",
        item_id=_id,
        content_index=st.integers(0, 1),
        audio_end_ms=st.integers(-1, 500),
    )
    | _message("response.create")
    | _message("response.cancel")
    | st.text(max_size=10)
    | st.floats(0.01, 3.0)
)
_server_event: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


@given(st.lists(_said, max_size=25))
@settings(deadline=None, max_examples=60)
def test_whatever_a_client_sends_the_session_goes_on(said: list[str | float]) -> None:
    async def main() -> None:
        pipeline = FakePipeline(
            replies=[spoken("one two"), (0.5, *spoken("three four five"))],
            heard=[(Transcript("hi", 300),), (1.0, Transcript("", 300))],
        )
        turns = TurnDetection(silence_duration_ms=200)
        can = Capabilities(voices=("ada",), speculate_ms=100)
        async with served(
            pipeline, can=can, settings=Settings(voice="ada", turn_detection=turns)
        ) as rig:
            for message in said:
                if isinstance(message, str):
                    rig.socket.put_raw(message)
                else:
                    await asyncio.sleep(message)
            await asyncio.sleep(90)
            assert not rig.task.done()
            rig.socket.put("response.cancel", event_id="last")
            await asyncio.sleep(1)
            assert rig.socket.events[-1]["error"]["event_id"] == "last"
            assert rig.pipeline.open_streams <= 1
            for sent in rig.socket.sent:
                if not sent.event["type"].startswith("antiphon."):
                    _server_event.validate_json(sent.data, strict=True)
            ids = [event["event_id"] for event in rig.socket.events]
            assert len(set(ids)) == len(ids)

    run_simulated(main())
