"""One speech stream over a socket in memory, on simulated time."""

from __future__ import annotations

import asyncio
import logging
import threading
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.babble import babble
from tests.support.fakes import BROKEN, RATE, SAID_MS, FakePipeline, Step, tone
from tests.support.loop import run_simulated
from tests.support.speech_rig import served
from tests.support.waiting import until

from antiphon.codecs import encode as encoders
from antiphon.codecs.loudness import Leveller, integrated
from antiphon.engines.chunks import End, EndReason, PcmChunk
from antiphon.engines.pipeline import SpeakRequest, Speech
from antiphon.realtime.connection import (
    AUDIO_HIGH_BYTES,
    CLOSE_SECONDS,
    MESSAGE_CHARS,
    ConnectionLimits,
)
from antiphon.realtime.speech_connection import HELD_CHARS
from antiphon.realtime.speech_stream import SpeechBounds

Json = dict[str, Any]
WORD_BYTES = 2 * RATE * SAID_MS // 1000
OLD, NEW = 1111, 2222
"""Sample values by which the audio of a cancelled utterance and of the next are told apart."""


def endless() -> tuple[Step, ...]:
    """Steps of speech that begins and never ends."""
    return PcmChunk(tone(100, OLD), RATE), asyncio.Event()


# One utterance.


def test_the_first_words_sound_before_the_last_are_written() -> None:
    async def main() -> None:
        async with served() as rig:
            rig.say("Hello ")
            first = await rig.socket.wait_for("binary")
            assert len(b64decode(first["audio"])) == WORD_BYTES
            rig.say("there ", "friend.")
            await rig.socket.wait_for("binary", 3)
            rig.done()
            await rig.told_done()
            assert rig.socket.events == [
                {
                    "type": "session.ready",
                    "session": {
                        "voice": "ada",
                        "response_format": "pcm",
                        "speed": 1.0,
                        "word_timestamps": False,
                        "stream_audio": True,
                        "loudness": None,
                        "sample_rate": 24000,
                    },
                },
                {
                    "type": "audio.start",
                    "utterance_index": 0,
                    "sentence_index": 0,
                    "total_sentences": 1,
                    "format": "pcm",
                    "sample_rate": 24000,
                    "word_timestamps": False,
                },
                *[first] * 3,
                {
                    "type": "audio.done",
                    "utterance_index": 0,
                    "sentence_index": 0,
                    "total_bytes": 3 * WORD_BYTES,
                    "duration_ms": 3.0 * SAID_MS,
                    "error": False,
                },
                {
                    "type": "session.done",
                    "utterance_index": 0,
                    "total_sentences": 1,
                    "status": "completed",
                },
            ]
            (asked,) = rig.pipeline.of(SpeakRequest)
            assert (asked.voice, asked.speed, asked.paced) == ("ada", 1.0, False)
            assert rig.pipeline.text_said == ["Hello there friend."]

    run_simulated(main())


def test_words_and_their_times() -> None:
    async def main() -> None:
        async with served() as rig:
            rig.socket.put("session.config", word_timestamps=True)
            rig.say("Hello there")
            rig.done()
            await rig.told_done()
            assert not rig.socket.of("binary")
            one, two = rig.socket.of("audio.chunk")
            assert b64decode(one.pop("audio_b64")) == b64decode(two["audio_b64"]) == tone(SAID_MS)
            assert one == {
                "type": "audio.chunk",
                "utterance_index": 0,
                "sentence_index": 0,
                "chunk_id": 0,
                "chunk_start_ms": 0.0,
                "chunk_end_ms": 200.0,
                "sample_rate": 24000,
                "timestamps": [{"word": "Hello", "start_ms": 0.0, "end_ms": 200.0}],
            }
            assert (two["chunk_id"], two["chunk_start_ms"], two["chunk_end_ms"]) == (1, 200, 400)
            assert [each["word"] for each in two["timestamps"]] == ["there"]

    run_simulated(main())


@pytest.mark.parametrize("form", ["pcm", "wav"])
def test_speech_is_as_loud_as_asked(form: str) -> None:
    said = babble(4)
    pieces = [PcmChunk(said[at : at + 9_998], RATE) for at in range(0, len(said), 9_998)]

    async def main() -> None:
        pipeline = FakePipeline(speeches=((*pieces, End(EndReason.COMPLETED)),))
        async with served(pipeline) as rig:
            rig.socket.put("session.config", response_format=form, loudness=-30)
            rig.say("Hello.")
            rig.done()
            done = await rig.told_done()
            assert done["status"] == "completed"
            sound = rig.socket.audio[-len(said) :]
            assert integrated(sound) == pytest.approx(-30, abs=1)
            (told,) = rig.socket.of("audio.done")
            assert (told["total_bytes"], told["duration_ms"]) == (len(rig.socket.audio), 4000)
            # From the next utterance on it is as it was.
            rig.socket.put("session.config", response_format="pcm", loudness=None)
            rig.say("Hello.")
            rig.done()
            await rig.told_done(2)
            assert rig.socket.audio.endswith(said)

    run_simulated(main())


def test_no_speech_is_levelled_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()

    class Noted(Leveller):
        def feed(self, pcm: bytes) -> bytes:
            threads.add(threading.get_ident())
            return super().feed(pcm)

    monkeypatch.setattr("antiphon.realtime.speech_work.Leveller", Noted)

    async def main() -> None:
        async with served() as rig:
            rig.socket.put("session.config", loudness=-30)
            rig.say("Hello there.")
            rig.done()
            await rig.told_done()
            assert len(rig.socket.audio) == 2 * WORD_BYTES
            assert threads
            assert threading.get_ident() not in threads

    run_simulated(main())


@pytest.mark.parametrize("form", encoders.FORMATS)
@pytest.mark.parametrize("words", [False, True])
def test_every_format_is_that_of_its_encoder(form: str, words: bool) -> None:
    whole = encoders.new_encoder(form)
    expected = b"".join(whole.feed(tone(SAID_MS)) for _ in range(4)) + whole.finish()
    lead_ms = whole.lead_samples / RATE * 1000

    async def main() -> None:
        async with served() as rig:
            rig.socket.put("session.config", response_format=form, word_timestamps=words)
            rig.say("one two three four")
            rig.done()
            await rig.told_done()
            assert rig.socket.audio == expected
            done = rig.socket.of("audio.done")[0]
            assert done["total_bytes"] == len(expected)
            assert done["duration_ms"] == pytest.approx(lead_ms + 4 * SAID_MS, abs=0.1)
            assert rig.socket.of("audio.start")[0]["format"] == form
            chunks = rig.socket.of("audio.chunk")
            told = [word for chunk in chunks for word in chunk["timestamps"]]
            assert [each["word"] for each in told] == (
                ["one", "two", "three", "four"] if words else []
            )
            for number, each in enumerate(told):
                at = lead_ms + number * SAID_MS
                assert (each["start_ms"], each["end_ms"]) == pytest.approx(
                    (at, at + SAID_MS), abs=0.1
                )

    run_simulated(main())


def test_audio_in_one_piece() -> None:
    async def main() -> None:
        async with served() as rig:
            rig.socket.put("session.config", stream_audio=False)
            rig.say("one two ", "three")
            rig.done()
            await rig.told_done()
            (whole,) = rig.socket.of("binary")
            assert len(b64decode(whole["audio"])) == 3 * WORD_BYTES

    run_simulated(main())


# Several.


def test_utterances_follow_one_another_in_their_own_settings() -> None:
    async def main() -> None:
        async with served() as rig:
            for number in range(3):
                rig.socket.put("session.config", voice=["bob", "alloy", None][number], speed=1.5)
                rig.say("one two")
                rig.done()
            await rig.told_done(3)
            assert [e["utterance_index"] for e in rig.socket.of("session.done")] == [0, 1, 2]
            voices = [each.voice for each in rig.pipeline.of(SpeakRequest)]
            # A name of stock clients is the default voice; null keeps what was said.
            assert voices == ["bob", None, None]
            assert {each.speed for each in rig.pipeline.of(SpeakRequest)} == {1.5}

    run_simulated(main())


def test_more_utterances_wait_in_order() -> None:
    async def main() -> None:
        go_on = asyncio.Event()
        slow: tuple[Step, ...] = (PcmChunk(tone(100), RATE), go_on)
        async with served(FakePipeline(speeches=[slow])) as rig:
            # Each leaves out what the one before it says.
            configs: list[Json] = [
                {"speed": 2},
                {"voice": "bob"},
                {"speed": 3},
                {"voice": "ada"},
                {"speed": 1},
            ]
            for number, config in enumerate(configs):
                rig.socket.put("session.config", **config)
                rig.say(f"Number {number}.")
                rig.done()
            await asyncio.sleep(1)
            assert len(rig.pipeline.of(SpeakRequest)) == 1
            go_on.set()
            await rig.told_done(5)
            assert rig.pipeline.text_said == [f"Number {number}." for number in range(5)]
            asked = [(each.voice, each.speed) for each in rig.pipeline.of(SpeakRequest)]
            assert asked == [("ada", 2), ("bob", 2), ("bob", 3), ("ada", 3), ("ada", 1)]

    run_simulated(main())


def test_what_waits_is_bounded() -> None:
    async def main() -> None:
        async with served(FakePipeline(speeches=[endless()])) as rig:
            for words in ("One.", "Two."):
                rig.say(words)
                rig.done()
            for _ in range(2000):
                rig.say("three ")
            await asyncio.sleep(1)
            held = 2000 - rig.socket.unread
            assert 0 < held * MESSAGE_CHARS <= HELD_CHARS

    run_simulated(main())


def test_a_client_that_vanishes_while_much_waits_leaves_nothing() -> None:
    async def main() -> None:
        async with served(FakePipeline(speeches=[endless()])) as rig:
            for _ in range(3):
                rig.say("One.")
                rig.done()
            await rig.socket.wait_for("binary")

    run_simulated(main())


# Cancelling.


def test_nothing_of_an_utterance_follows_its_cancellation() -> None:
    async def main() -> None:
        chunks = [PcmChunk(tone(100, OLD), RATE) for _ in range(10)]
        script: list[tuple[Step, ...]] = [
            (*chunks, asyncio.Event()),
            (PcmChunk(tone(50, NEW), RATE),),
        ]
        async with served(FakePipeline(speeches=script)) as rig:
            rig.socket.stalls_at = "binary"
            rig.say("One.")
            rig.done()
            await rig.socket.wait_for("binary")
            await asyncio.sleep(1)
            # All of it is queued by now, and the client reads nothing.
            rig.socket.put("input.cancel")
            rig.say("Two.")
            rig.done()
            await asyncio.sleep(1)
            rig.socket.resume()
            await rig.told_done(2)
            kinds = rig.socket.kinds
            cut = kinds.index("audio.cancelled")
            # One frame was being written already.
            assert kinds[:cut].count("binary") == 2
            assert kinds[cut:] == [
                "audio.cancelled",
                "session.done",
                "audio.start",
                "binary",
                "audio.done",
                "session.done",
            ]
            heard = b64decode(rig.socket.of("binary")[-1]["audio"])
            assert set(np.frombuffer(heard, "<i2").tolist()) == {NEW}
            assert [e["status"] for e in rig.socket.of("session.done")] == [
                "cancelled",
                "completed",
            ]

    run_simulated(main())


class SlowEncoder:
    """Takes its time in a thread, and must not be closed meanwhile."""

    def __init__(self) -> None:
        self.lead_samples = 0
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.faults: list[str] = []
        self.closed = False
        self._inside = False

    def feed(self, pcm: bytes) -> bytes:
        self._inside = True
        self.entered.set()
        self.go_on.wait(30)
        self._inside = False
        return pcm

    def close(self) -> None:
        self.closed = True
        if self._inside:
            self.faults.append("closed while it was at work")


@pytest.mark.parametrize("utterances", range(7))
def test_a_cancel_overtakes_what_waits(utterances: int) -> None:
    async def main() -> None:
        async with served(FakePipeline(speeches=[endless()])) as rig:
            for _ in range(utterances):
                rig.say("One.")
                rig.done()
            rig.say(" ")
            rig.socket.put("input.cancel")
            rig.say("Last.")
            await rig.told_done(utterances + 1)
            numbers = list(range(utterances + 1))
            assert [e["utterance_index"] for e in rig.socket.of("audio.cancelled")] == numbers
            assert [e["utterance_index"] for e in rig.socket.of("session.done")] == numbers
            assert {e["status"] for e in rig.socket.of("session.done")} == {"cancelled"}
            await until(lambda: rig.pipeline.text_said[-1:] == ["Last."])
            # Of those that waited none was begun.
            assert len(rig.pipeline.of(SpeakRequest)) <= 2

    run_simulated(main())


def test_a_cancel_does_not_wait_for_an_encoder_in_its_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = SlowEncoder()

    def new_encoder(form: str) -> SlowEncoder:
        return slow

    monkeypatch.setattr("antiphon.realtime.speech_work.new_encoder", new_encoder)

    async def main() -> None:
        async with served() as rig:
            rig.socket.put("session.config", response_format="flac")
            rig.say("One.")
            await until(slow.entered.is_set)
            rig.socket.put("input.cancel")
            await rig.told_done()
            assert not slow.closed
            slow.go_on.set()
            await rig.pipeline.all_streams_gone()
            await until(lambda: slow.closed)
            assert not slow.faults
            assert not rig.socket.audio

    run_simulated(main())


OPS = st.one_of(
    st.sampled_from(["input.text"] * 3 + ["input.done", "input.done", "input.cancel"]),
    st.sampled_from(["session.config", "nonsense"]),
    st.floats(0, 0.01),
)


@settings(max_examples=100)
@given(
    st.lists(OPS, max_size=40),
    st.sampled_from(["pcm", "wav", "flac"]),
    st.booleans(),
    st.booleans(),
)
def test_whatever_is_asked_each_utterance_ends_once_and_is_silent_then(
    ops: list[str | float], form: str, words: bool, stalls: bool
) -> None:
    async def main() -> None:
        async with served() as rig:
            if stalls:
                rig.socket.stalls_at = "audio.start"
            config: Json = {"response_format": form, "word_timestamps": words}
            for op in ops:
                if isinstance(op, str):
                    rig.socket.put(op, **(config if op == "session.config" else {"text": "hi "}))
                else:
                    await asyncio.sleep(op)
            rig.socket.stalls_at = None
            rig.socket.resume()
            rig.done()
            rig.socket.put("session.close")
            await rig.ended()
            assert rig.socket.closed == (1000, "")
            check_order(rig.socket.events)

    run_simulated(main())


def check_order(events: list[Json]) -> None:
    """See that utterances follow each other, and that audio lies inside one."""
    ended = 0
    sounding = False
    for event in events:
        match event["type"]:
            case "audio.start":
                assert not sounding
                assert event["utterance_index"] == ended
                sounding = True
            case "binary" | "audio.chunk":
                assert sounding
            case "audio.done" | "audio.cancelled":
                assert sounding or event["type"] == "audio.cancelled"
                sounding = False
            case "session.done":
                assert not sounding
                assert event["utterance_index"] == ended
                ended += 1
            case _:
                pass


# What goes wrong.


def test_a_pipeline_that_refuses() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        pipeline.refused["speak"] = BROKEN
        async with served(pipeline) as rig:
            rig.say("One ", "two.")
            error = await rig.error()
            assert error["utterance_index"] == 0
            assert error["error"] == {
                "type": "server_error",
                "code": "broken",
                "message": BROKEN.message,
                "param": None,
                "event_id": None,
            }
            rig.done()
            done = await rig.told_done()
            assert (done["status"], done["total_sentences"]) == ("failed", 0)
            del pipeline.refused["speak"]
            rig.say("Three.")
            rig.done()
            assert (await rig.told_done(2))["status"] == "completed"

    run_simulated(main())


def test_speech_that_breaks_in_the_middle() -> None:
    async def main() -> None:
        script: tuple[Step, ...] = (PcmChunk(tone(100), RATE), End(EndReason.FAILED, BROKEN))
        async with served(FakePipeline(speeches=[script])) as rig:
            rig.say("One.")
            rig.done()
            await rig.told_done()
            assert rig.socket.kinds[1:] == [
                "audio.start",
                "binary",
                "error",
                "audio.done",
                "session.done",
            ]
            assert rig.socket.of("audio.done")[0]["error"]

    run_simulated(main())


def test_a_bug_of_ours_ends_the_utterance_only(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakePipeline):
        def speak(self, request: SpeakRequest) -> Speech:
            raise ValueError("a bug")

    async def main() -> None:
        async with served(Broken()) as rig:
            rig.say("A secret.")
            rig.done()
            assert (await rig.error())["error"]["code"] == "internal_error"
            assert (await rig.told_done())["status"] == "failed"

    with caplog.at_level(logging.ERROR):
        run_simulated(main())
    assert "A secret" not in caplog.text


# The end.


def test_a_client_that_vanishes_leaves_nothing() -> None:
    async def main() -> None:
        async with served(FakePipeline(speeches=[endless()])) as rig:
            rig.say("One.")
            rig.done()
            await rig.socket.wait_for("binary")
            assert rig.pipeline.open_streams == 1
        assert rig.pipeline.open_streams == 0

    run_simulated(main())


def test_a_close_is_answered_when_everything_is_out() -> None:
    async def main() -> None:
        async with served() as rig:
            rig.say("one two three")
            rig.done()
            rig.socket.put("session.close")
            await rig.ended()
            assert rig.socket.kinds[-1] == "session.done"
            assert len(rig.socket.audio) == 3 * WORD_BYTES
            assert rig.socket.closed == (1000, "")

    run_simulated(main())


def test_a_client_that_says_nothing_is_sent_away() -> None:
    async def main() -> None:
        async with served(bounds=SpeechBounds(idle_s=300)) as rig:
            rig.say("Half a")
            await rig.ended()
            assert asyncio.get_running_loop().time() == pytest.approx(300)
            assert rig.socket.closed == (1000, "idle")

    run_simulated(main())


def test_a_client_that_does_not_read_holds_up_the_speech_then_goes() -> None:
    async def main() -> None:
        chunks = 200
        script = tuple(PcmChunk(tone(500), RATE) for _ in range(chunks))
        async with served(FakePipeline(speeches=[script])) as rig:
            rig.socket.stalls_at = "audio.start"
            rig.say("One.")
            rig.done()
            await rig.ended()
            assert rig.socket.closed == (1008, "the client does not read")
            assert asyncio.get_running_loop().time() <= 20 + CLOSE_SECONDS + 1

    run_simulated(main())


def test_errors_that_nobody_reads_are_bounded() -> None:
    async def main() -> None:
        limits = ConnectionLimits(outgoing_bytes=2 * AUDIO_HIGH_BYTES)
        async with served(limits=limits) as rig:
            rig.socket.stall()
            for _ in range(20_000):
                rig.socket.put_raw("{")
            await rig.ended()
            assert rig.socket.closed == (1008, "the client does not read")

    run_simulated(main())


def test_a_stage_that_hangs_fails_the_utterance() -> None:
    async def main() -> None:
        hangs = FakePipeline(speeches=[(asyncio.Event(),)])
        async with served(hangs, bounds=SpeechBounds(stage_timeout_s=10)) as rig:
            rig.say("One.")
            rig.done()
            assert (await rig.error())["error"]["code"] == "response_timeout"
            assert (await rig.told_done())["status"] == "failed"
            await rig.pipeline.all_streams_gone()

    run_simulated(main())


def test_a_server_that_stops_ends_it() -> None:
    async def main() -> None:
        async with served(FakePipeline(speeches=[endless()])) as rig:
            rig.say("One.")
            rig.done()
            rig.say("Two.")
            rig.done()
            await rig.socket.wait_for("binary")
            rig.task.cancel()
            await rig.ended()
            assert rig.socket.closed == (1001, "the server is stopping")
            assert len(rig.pipeline.of(SpeakRequest)) == 1

    run_simulated(main())


def test_what_is_written_while_the_server_stops_begins_nothing_new() -> None:
    async def main() -> None:
        chunks = tuple(PcmChunk(tone(100), RATE) for _ in range(5))
        async with served(FakePipeline(speeches=[chunks])) as rig:
            rig.socket.stalls_at = "binary"
            for words in ("One.", "Two."):
                rig.say(words)
                rig.done()
            await rig.socket.wait_for("binary")
            await asyncio.sleep(1)
            rig.task.cancel()
            await asyncio.sleep(1)
            rig.socket.resume()
            await rig.ended()
            assert len(rig.socket.of("binary")) == 5
            assert len(rig.pipeline.of(SpeakRequest)) == 1

    run_simulated(main())
