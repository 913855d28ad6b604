"""The streams of one session: what is told, what is not, and that none outlives it."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.support.fakes import BROKEN, LOUD, RATE, FakePipeline, Step, spoken, tone
from tests.support.loop import run_simulated

from antiphon.engines import pipeline as pl
from antiphon.engines.chunks import (
    End,
    EndReason,
    PcmChunk,
    SpeechFrames,
    SpokenWords,
    StageError,
    TextDelta,
    Timings,
    Transcript,
    TranscriptDelta,
    Usage,
    Word,
)
from antiphon.engines.streams import INPUT_BOUND
from antiphon.realtime.work import FEED_HIGH, SEND_BYTES, Work
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx

START_REPLY = wx.StartReply(
    response_id="resp_1",
    epoch=3,
    messages=(wx.ContextMessage("system", "Be brief."), wx.ContextMessage("user", "hi")),
    speak=True,
    voice="bob",
    speed=1.25,
    max_output_tokens=50,
)
START_HEARING = wx.StartRecognition(1, tone(100), "en", "names")


class Told:
    """Keeps what streams told, for whoever waits for it."""

    def __init__(self) -> None:
        self.events: list[ev.StageEvent] = []
        self._changed = asyncio.Event()

    def __call__(self, event: ev.StageEvent) -> None:
        self.events.append(event)
        self._changed.set()

    async def until(self, count: int) -> list[ev.StageEvent]:
        """Return the events once there are ``count``; there may never be more."""
        async with asyncio.timeout(30):
            while len(self.events) < count:
                self._changed.clear()
                await self._changed.wait()
        assert len(self.events) == count
        return self.events


async def no_wait() -> None:
    return


@asynccontextmanager
async def working(pipeline: FakePipeline) -> AsyncGenerator[tuple[Work, Told]]:
    """Carry out effects on ``pipeline``; when left, nothing may remain."""
    told = Told()
    before = asyncio.all_tasks()
    work = Work("sess", pipeline, told, no_wait)
    try:
        yield work, told
    finally:
        await work.close()
        assert work.running == 0
        await pipeline.all_streams_gone()
        # One more turn of the loop for tasks that were cancelled just now.
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before


async def silence_of(told: Told) -> None:
    """Let a simulated minute pass and check that nothing was told."""
    count = len(told.events)
    await asyncio.sleep(60)
    assert len(told.events) == count


# Voice activity.


def test_speech_is_scored() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        async with working(pipeline) as (work, told):
            work.carry_out(wx.StartListening(1))
            work.carry_out(wx.FeedListening(1, LOUD + bytes(len(LOUD))))
            assert await told.until(1) == [ev.SpeechScored(1, (1.0, 0.0), 20)]
            assert pipeline.of(pl.ListenRequest) == [pl.ListenRequest(request_id="sess-listen-1")]
            assert work.running == 1

    run_simulated(main())


def test_audio_of_another_listening_goes_nowhere() -> None:
    async def main() -> None:
        async with working(FakePipeline()) as (work, told):
            work.carry_out(wx.FeedListening(1, LOUD))
            work.carry_out(wx.StartListening(2))
            work.carry_out(wx.FeedListening(1, LOUD))
            work.carry_out(wx.StopListening(1))
            work.carry_out(wx.FeedListening(2, LOUD))
            assert await told.until(1) == [ev.SpeechScored(2, (1.0,), 20)]

    run_simulated(main())


def test_a_stopped_listening_tells_nothing_more() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        async with working(pipeline) as (work, told):
            pipeline.listening_gate.clear()
            work.carry_out(wx.StartListening(1))
            work.carry_out(wx.FeedListening(1, LOUD))
            await asyncio.sleep(1)
            work.carry_out(wx.StopListening(1))
            pipeline.listening_gate.set()
            await silence_of(told)
            assert (work.running, pipeline.open_streams) == (0, 0)

    run_simulated(main())


def test_voice_activity_that_can_not_be_opened() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        pipeline.refused["listen"] = BROKEN
        async with working(pipeline) as (work, told):
            work.carry_out(wx.StartListening(1))
            assert await told.until(1) == [ev.ListeningFailed(1, BROKEN.message)]

    run_simulated(main())


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (End(EndReason.FAILED, BROKEN), BROKEN.message),
        (End(EndReason.COMPLETED), "voice activity ended"),
    ],
)
def test_voice_activity_that_ends_by_itself(end: End, message: str) -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        pipeline.listening_breaks_after.append(0)
        pipeline.listening_end = end
        async with working(pipeline) as (work, told):
            work.carry_out(wx.StartListening(1))
            work.carry_out(wx.FeedListening(1, LOUD))
            assert await told.until(1) == [ev.ListeningFailed(1, message)]

    run_simulated(main())


def fill(work: Work) -> None:
    """Feed as much as voice activity and the queue before it hold."""
    for _ in range(FEED_HIGH + INPUT_BOUND + 4):
        work.carry_out(wx.FeedListening(1, LOUD))


def test_the_reader_waits_while_voice_activity_is_behind() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        async with working(pipeline) as (work, _told):
            await work.wait_room()
            work.carry_out(wx.StartListening(1))
            pipeline.listening_gate.clear()
            fill(work)
            waiting = asyncio.create_task(work.wait_room())
            await asyncio.sleep(1)
            assert not waiting.done()
            pipeline.listening_gate.set()
            await waiting

    run_simulated(main())


@pytest.mark.parametrize("retry", [False, True])
def test_the_reader_does_not_wait_for_voice_activity_that_failed(retry: bool) -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        pipeline.listening_breaks_after.append(0)
        async with working(pipeline) as (work, told):
            work.carry_out(wx.StartListening(1))
            pipeline.listening_gate.clear()
            fill(work)
            waiting = asyncio.create_task(work.wait_room())
            await asyncio.sleep(1)
            assert not waiting.done()
            if retry:
                work.carry_out(wx.StartListening(2))
            pipeline.listening_gate.set()
            await told.until(1)
            async with asyncio.timeout(1):
                await waiting

    run_simulated(main())


def test_the_reader_does_not_wait_for_voice_activity_that_can_not_be_opened() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        pipeline.refused["listen"] = BROKEN
        async with working(pipeline) as (work, told):
            work.carry_out(wx.StartListening(1))
            fill(work)
            waiting = asyncio.create_task(work.wait_room())
            await told.until(1)
            pipeline.refused.clear()
            work.carry_out(wx.StartListening(2))
            async with asyncio.timeout(1):
                await waiting

    run_simulated(main())


class Deaf:
    """A voice activity stream that takes nothing in, and ends when it is told to."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def send(self, chunk: PcmChunk) -> None:
        await asyncio.Event().wait()

    async def end(self) -> None:
        return

    async def __aiter__(self) -> AsyncGenerator[SpeechFrames | End]:
        await self.over.wait()
        yield End(EndReason.FAILED, BROKEN)

    def cancel(self) -> None:
        return


def test_nothing_waits_for_a_stream_that_ended_without_reading() -> None:
    stream = Deaf()

    class Pipeline(FakePipeline):
        def listen(self, request: pl.ListenRequest) -> pl.Hearing:
            return stream

    async def main() -> None:
        async with working(Pipeline()) as (work, told):
            work.carry_out(wx.StartListening(1))
            fill(work)
            waiting = asyncio.create_task(work.wait_room())
            await asyncio.sleep(1)
            assert not waiting.done()
            stream.over.set()
            assert await told.until(1) == [ev.ListeningFailed(1, BROKEN.message)]
            async with asyncio.timeout(1):
                await waiting

    run_simulated(main())


def test_stopping_lets_the_reader_go_on() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        async with working(pipeline) as (work, _told):
            work.carry_out(wx.StartListening(1))
            pipeline.listening_gate.clear()
            fill(work)
            waiting = asyncio.create_task(work.wait_room())
            await asyncio.sleep(1)
            work.carry_out(wx.StopListening(1))
            async with asyncio.timeout(1):
                await waiting

    run_simulated(main())


# Recognition.


def test_recognition_is_asked_with_all_there_is_to_know() -> None:
    async def main() -> None:
        pipeline = FakePipeline(
            heard=[(TranscriptDelta("he"), TranscriptDelta("llo"), Transcript("hello", 100))]
        )
        pcm = bytes(range(256)) * (SEND_BYTES // 100)
        async with working(pipeline) as (work, told):
            work.carry_out(wx.StartRecognition(1, pcm, "en", "names"))
            assert await told.until(1) == [ev.RecognitionEnded(1, "hello")]
            assert pipeline.audio_heard == [pcm]
            assert pipeline.of(pl.RecognizeRequest) == [
                pl.RecognizeRequest(request_id="sess-hear-1", language="en", prompt="names")
            ]

    run_simulated(main())


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            (End(EndReason.FAILED, BROKEN),),
            ev.RecognitionEnded(1, None, "broken", "The part is broken."),
        ),
        (
            (),
            ev.RecognitionEnded(
                1, None, "recognition_failed", "What was said could not be recognized."
            ),
        ),
        ((Transcript("", 100),), ev.RecognitionEnded(1, "")),
    ],
)
def test_how_recognition_ends(steps: tuple[Step, ...], expected: ev.StageEvent) -> None:
    async def main() -> None:
        async with working(FakePipeline(heard=[steps])) as (work, told):
            work.carry_out(START_HEARING)
            assert await told.until(1) == [expected]

    run_simulated(main())


def test_recognition_that_can_not_be_opened() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        pipeline.refused["recognize"] = BROKEN
        async with working(pipeline) as (work, told):
            work.carry_out(wx.StartRecognition(1, b"", None, None))
            assert await told.until(1) == [ev.RecognitionEnded(1, None, "broken", BROKEN.message)]

    run_simulated(main())


def test_a_cancelled_recognition_tells_nothing() -> None:
    async def main() -> None:
        pipeline = FakePipeline(heard=[(5.0, Transcript("late", 100))])
        async with working(pipeline) as (work, told):
            work.carry_out(START_HEARING)
            await asyncio.sleep(1)
            work.carry_out(wx.CancelRecognition(1))
            await silence_of(told)
            assert pipeline.open_streams == 0
            work.carry_out(wx.CancelRecognition(1))

    run_simulated(main())


# Replies.


def test_a_reply_is_asked_with_all_there_is_to_know() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        async with working(pipeline) as (work, told):
            work.carry_out(START_REPLY)
            await told.until(8)
            assert pipeline.of(pl.ReplyRequest) == [
                pl.ReplyRequest(
                    request_id="resp_1",
                    messages=(pl.Message("system", "Be brief."), pl.Message("user", "hi")),
                    speak=True,
                    voice="bob",
                    speed=1.25,
                    max_tokens=50,
                )
            ]

    run_simulated(main())


def test_a_voice_that_only_clients_know_is_the_default_one() -> None:
    async def main() -> None:
        pipeline = FakePipeline(voices=("ada",))
        async with working(pipeline) as (work, told):
            work.carry_out(START_REPLY)
            await told.until(8)
            assert pipeline.of(pl.ReplyRequest)[0].voice is None

    run_simulated(main())


def test_every_chunk_of_a_reply_is_told_with_its_epoch() -> None:
    steps: tuple[Step, ...] = (
        TextDelta("hel", 1),
        TextDelta("lo", 1),
        Timings(1.0, 2.0, 3.0, 4.0, 5.0),
        SpokenWords((Word("hello", 0.0, 410.5),)),
        PcmChunk(tone(40), RATE),
        End(EndReason.COMPLETED, usage=Usage(input_tokens=9, cached_tokens=4, output_tokens=2)),
    )

    async def main() -> None:
        async with working(FakePipeline(replies=[steps])) as (work, told):
            work.carry_out(START_REPLY)
            assert await told.until(6) == [
                ev.ReplyText("resp_1", 3, "hel"),
                ev.ReplyText("resp_1", 3, "lo"),
                ev.ReplyTimed("resp_1", 3, 2.0, 3.0, 4.0, 5.0),
                ev.ReplyWords("resp_1", 3, (ev.WordTime("hello", 0.0, 410.5),)),
                ev.ReplyAudio("resp_1", 3, tone(40)),
                ev.ReplyEnded(
                    "resp_1",
                    3,
                    ev.ReplyOutcome.COMPLETED,
                    input_tokens=9,
                    cached_tokens=4,
                    output_tokens=2,
                ),
            ]

    run_simulated(main())


@pytest.mark.parametrize(
    ("end", "outcome", "code"),
    [
        (End(EndReason.LENGTH), ev.ReplyOutcome.LENGTH, None),
        (End(EndReason.FAILED, BROKEN), ev.ReplyOutcome.FAILED, "broken"),
        (End(EndReason.CANCELLED), ev.ReplyOutcome.FAILED, None),
    ],
)
def test_how_a_reply_ends(end: End, outcome: ev.ReplyOutcome, code: str | None) -> None:
    async def main() -> None:
        async with working(FakePipeline(replies=[(end,)])) as (work, told):
            work.carry_out(START_REPLY)
            (ended,) = await told.until(1)
            assert ended == ev.ReplyEnded(
                "resp_1", 3, outcome, error_code=code, error_message=code and BROKEN.message
            )

    run_simulated(main())


def test_a_reply_that_failed_says_whether_to_ask_again() -> None:
    async def main() -> None:
        end = End(EndReason.FAILED, StageError("busy", "It is busy.", retry_after_ms=700))
        async with working(FakePipeline(replies=[(end,)])) as (work, told):
            work.carry_out(START_REPLY)
            (ended,) = await told.until(1)
            assert isinstance(ended, ev.ReplyEnded)
            assert ended.retry_after_ms == 700

    run_simulated(main())


def test_a_reply_that_can_not_be_opened() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        pipeline.refused["reply"] = BROKEN
        async with working(pipeline) as (work, told):
            work.carry_out(START_REPLY)
            (ended,) = await told.until(1)
            assert isinstance(ended, ev.ReplyEnded)
            assert (ended.outcome, ended.error_code) == (ev.ReplyOutcome.FAILED, "broken")

    run_simulated(main())


def test_an_aborted_reply_tells_nothing_more() -> None:
    async def main() -> None:
        pipeline = FakePipeline(replies=[(TextDelta("a", 1), 5.0, TextDelta("b", 1))])
        async with working(pipeline) as (work, told):
            work.carry_out(START_REPLY)
            await told.until(1)
            work.carry_out(wx.AbortReply("resp_1", 3))
            await silence_of(told)
            assert pipeline.open_streams == 0

    run_simulated(main())


def test_a_reply_is_told_of_its_playback_while_it_runs() -> None:
    async def main() -> None:
        pipeline = FakePipeline(replies=[(TextDelta("a", 1), 5.0, TextDelta("b", 1))])
        async with working(pipeline) as (work, told):
            work.carry_out(wx.ReplyPlayed("resp_1", 3, 0.0, 0.0))
            work.carry_out(START_REPLY)
            await told.until(1)
            work.carry_out(wx.ReplyPlayed("resp_1", 3, 100.0, math.inf))
            work.carry_out(wx.ReplyPlayed("resp_2", 3, 200.0, 300.0))
            await told.until(3)
            await pipeline.all_streams_gone()
            await asyncio.sleep(0)
            work.carry_out(wx.ReplyPlayed("resp_1", 3, 200.0, 300.0))
            assert pipeline.playback == [("resp_1", 100.0, math.inf)]

    run_simulated(main())


def test_a_reply_waits_for_room() -> None:
    async def main() -> None:
        room = asyncio.Event()
        told = Told()
        work = Work("sess", FakePipeline(), told, lambda: _wait(room))
        work.carry_out(START_REPLY)
        await told.until(1)
        await silence_of(told)
        room.set()
        await told.until(8)
        await work.close()

    run_simulated(main())


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


# All of them.


def test_a_stream_that_breaks_is_logged_and_hurts_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(FakePipeline):
        def recognize(self, request: pl.RecognizeRequest) -> pl.Recognition:
            raise ValueError("a bug")

    async def main() -> None:
        async with working(Broken()) as (work, told):
            work.carry_out(START_HEARING)
            work.carry_out(START_REPLY)
            await told.until(8)
            await asyncio.sleep(0)
            assert work.running == 0

    with caplog.at_level(logging.ERROR):
        run_simulated(main())
    assert [record.getMessage() for record in caplog.records] == ["stream hear-1 failed"]


def test_closing_ends_all_streams() -> None:
    async def main() -> None:
        pipeline = FakePipeline(
            heard=[(100.0,)], replies=[(100.0, *spoken("never"))], probability=lambda _: 0.0
        )
        async with working(pipeline) as (work, told):
            work.carry_out(wx.StartListening(1))
            work.carry_out(START_HEARING)
            work.carry_out(START_REPLY)
            await asyncio.sleep(1)
            assert (work.running, pipeline.open_streams) == (3, 3)
            await work.close()
            await silence_of(told)
            assert (work.running, pipeline.open_streams) == (0, 0)

    run_simulated(main())


def test_the_end_of_a_connection_is_not_a_stream() -> None:
    async def main() -> None:
        async with working(FakePipeline()) as (work, _told):
            with pytest.raises(AssertionError):
                work.carry_out(wx.CloseConnection(1000, ""))

    run_simulated(main())
