"""The cascade: order, overlap, cancelling, failing, and what is left afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from antiphon.engines.chunks import (
    End,
    EndReason,
    PcmChunk,
    SpeechFrames,
    SpokenWords,
    TextDelta,
    Timings,
    Transcript,
    Usage,
)
from antiphon.engines.deployment import Deployment, parse_deployment
from antiphon.engines.pipeline import (
    ListenRequest,
    Message,
    Pipeline,
    Readiness,
    RecognizeRequest,
    Reply,
    ReplyChunk,
    ReplyRequest,
)
from antiphon.engines.pipelines.cascade import CascadePipeline
from antiphon.engines.speech.talker import TalkRequest
from antiphon.engines.stage import StageClosed, StageFailure
from antiphon.engines.streams import OUTPUT_BOUND
from antiphon.engines.text.request import GenerateRequest

from .played import BROKEN, RATE, Play, Played, PlayedTalker

T = TypeVar("T")
MESSAGES = (Message("user", "Hello"),)


def run(play: Play, scenario: Callable[[CascadePipeline], Awaitable[T]]) -> T:
    """Run with a started pipeline; afterwards no task and no stream may be left."""

    async def started() -> T:
        pipeline = CascadePipeline.from_stages(play.stages(), model="played")
        await pipeline.start()
        async with asyncio.timeout(10):
            result = await scenario(pipeline)
            await nothing_is_left(pipeline)
        await pipeline.close()
        return result

    return asyncio.run(started())


async def nothing_is_left(pipeline: CascadePipeline) -> None:
    me = asyncio.current_task()
    while others := asyncio.all_tasks() - {me}:
        await asyncio.wait(others)
    assert [numbers["running"] for numbers in pipeline.statistics().values()] == [0] * 6


def ask(speak: bool = True) -> ReplyRequest:
    return ReplyRequest(request_id="r", messages=MESSAGES, speak=speak)


async def read(stream: Reply) -> list[ReplyChunk | End]:
    return [item async for item in stream]


def spoken(pipeline: CascadePipeline) -> Awaitable[list[ReplyChunk | End]]:
    return read(pipeline.reply(ask()))


def kinds(chunks: list[ReplyChunk | End]) -> list[type]:
    return [type(chunk) for chunk in chunks]


def test_everything_arrives_once_and_in_order() -> None:
    play = Play()
    chunks = run(play, spoken)
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    words = [
        word.text for chunk in chunks if isinstance(chunk, SpokenWords) for word in chunk.words
    ]
    audio = sum(len(chunk.pcm) // 2 for chunk in chunks if isinstance(chunk, PcmChunk))
    assert text == "Hello there. How are you today?"
    assert "".join(play.clauses) == text
    assert words == [clause.strip() for clause in play.clauses]
    assert audio == len(text)
    assert chunks[-1] == End(EndReason.COMPLETED, usage=Usage(output_tokens=6))
    assert kinds(chunks).count(End) == 1


def test_timings_come_once_just_ahead_of_the_first_audio() -> None:
    chunks = run(Play(), spoken)
    order = kinds(chunks)
    assert order.count(Timings) == 1
    assert order.index(PcmChunk) == order.index(Timings) + 1
    timings = chunks[order.index(Timings)]
    assert isinstance(timings, Timings)
    passed = [
        timings.started_at,
        timings.first_token_at or 0,
        timings.first_clause_at or 0,
        timings.talker_at or 0,
        timings.code2wav_at or 0,
    ]
    assert passed == sorted(passed)
    assert 0 not in passed


def test_audio_leaves_before_the_text_is_finished() -> None:
    gate = asyncio.Event()
    play = Play(hold_text={5: gate})

    async def scenario(pipeline: CascadePipeline) -> list[type]:
        order: list[type] = []
        async for chunk in pipeline.reply(ask()):
            order.append(type(chunk))
            if isinstance(chunk, PcmChunk):
                gate.set()
        return order

    order = run(play, scenario)
    assert order.index(PcmChunk) < len(order) - 1 - order[::-1].index(TextDelta)


def test_text_alone_opens_no_speech() -> None:
    async def scenario(pipeline: CascadePipeline) -> list[ReplyChunk | End]:
        chunks = await read(pipeline.reply(ask(speak=False)))
        assert pipeline.statistics()["talker"]["opened"] == 0
        assert pipeline.statistics()["code2wav"]["opened"] == 0
        return chunks

    assert kinds(run(Play(), scenario)) == [TextDelta] * 6 + [End]


@pytest.mark.parametrize("words", [(), ("\n", " ...")])
def test_nothing_to_say_gives_no_audio(words: tuple[str, ...]) -> None:
    chunks = run(Play(words=words, end=End(EndReason.COMPLETED)), spoken)
    assert kinds(chunks) == [TextDelta] * len(words) + [End]
    assert chunks[-1] == End(EndReason.COMPLETED)


def test_what_fits_is_spoken_when_the_token_limit_is_reached() -> None:
    play = Play(words=("The sea", " is"), end=End(EndReason.LENGTH, usage=Usage(output_tokens=2)))
    chunks = run(play, spoken)
    assert "".join(play.clauses) == "The sea is"
    assert PcmChunk in kinds(chunks)
    assert chunks[-1] == play.end


def test_the_request_reaches_the_stages() -> None:
    play = Play()

    async def scenario(pipeline: CascadePipeline) -> None:
        request = ReplyRequest(
            request_id="r9", messages=MESSAGES, voice="second", speed=1.5, max_tokens=7
        )
        await read(pipeline.reply(request))

    run(play, scenario)
    assert play.asked == [
        GenerateRequest(request_id="r9", messages=MESSAGES, max_tokens=7),
        TalkRequest(request_id="r9", voice="second", speed=1.5),
    ]


@pytest.mark.parametrize("after", [TextDelta, SpokenWords, Timings, PcmChunk])
def test_cancelled_at_any_point(after: type) -> None:
    play = Play(hold_text={3: asyncio.Event()})

    async def scenario(pipeline: CascadePipeline) -> list[ReplyChunk | End]:
        stream = pipeline.reply(ask())
        chunks: list[ReplyChunk | End] = []
        async for chunk in stream:
            chunks.append(chunk)
            if isinstance(chunk, after):
                stream.cancel()
                stream.cancel()
        return chunks

    assert run(play, scenario)[-1] == End(EndReason.CANCELLED)


def test_cancelled_before_anything_happens() -> None:
    async def scenario(pipeline: CascadePipeline) -> list[ReplyChunk | End]:
        stream = pipeline.reply(ask())
        stream.cancel()
        return await read(stream)

    assert run(Play(), scenario) == [End(EndReason.CANCELLED)]


def test_cancelled_and_never_read() -> None:
    async def scenario(pipeline: CascadePipeline) -> None:
        pipeline.reply(ask()).cancel()
        later = pipeline.reply(ask())
        await asyncio.sleep(0)
        later.cancel()

    run(Play(), scenario)


@pytest.mark.parametrize("stage", ["ar", "talker", "code2wav"])
def test_a_failing_stage_ends_the_reply_and_the_other_stages(stage: str) -> None:
    play = Play(fails=stage, hold_text={4: asyncio.Event()} if stage != "ar" else {})
    chunks = run(play, spoken)
    assert chunks[-1] == End(EndReason.FAILED, BROKEN)
    assert PcmChunk not in kinds(chunks)


@pytest.mark.parametrize("stage", ["ar", "talker", "code2wav"])
def test_an_unforeseen_error_is_not_told(stage: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        end = run(Play(breaks=stage), spoken)[-1]
    assert isinstance(end, End)
    assert end.reason is EndReason.FAILED
    assert end.error is not None
    assert end.error.code == "internal_error"


def test_a_failure_is_told_even_to_a_slow_reader() -> None:
    """It comes after what was said before it, however long that takes to be read."""
    words = tuple(f"word{n} " for n in range(200))
    play = Play(words=words)

    async def scenario(pipeline: CascadePipeline) -> list[ReplyChunk | End]:
        stream = pipeline.reply(ask())
        before = -1
        while play.written != before:
            before = play.written
            for _ in range(20):
                await asyncio.sleep(0)
        play.fails = "talker"
        return await read(stream)

    assert run(play, scenario)[-1] == End(EndReason.FAILED, BROKEN)


def test_a_slow_reader_holds_the_stages_back() -> None:
    play = Play(words=tuple(f"word{n}, " for n in range(1000)))

    async def scenario(pipeline: CascadePipeline) -> tuple[int, list[ReplyChunk | End]]:
        stream = pipeline.reply(ask())
        before = -1
        while play.written != before:
            before = play.written
            for _ in range(50):
                await asyncio.sleep(0)
        return play.written, await read(stream)

    ahead, chunks = run(play, scenario)
    assert ahead < OUTPUT_BOUND + 10
    assert kinds(chunks).count(TextDelta) == 1000


def test_many_replies_at_once_do_not_mix() -> None:
    async def scenario(pipeline: CascadePipeline) -> list[list[ReplyChunk | End]]:
        return await asyncio.gather(*(read(pipeline.reply(ask())) for _ in range(8)))

    for chunks in run(Play(), scenario):
        words = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
        assert words == list(Play().words)


def test_a_stage_that_does_not_open_fails_the_reply() -> None:
    stages = Play().stages()

    async def scenario() -> End:
        pipeline = CascadePipeline.from_stages(stages, model="played")
        await pipeline.start()
        assert isinstance(stages.code2wav, Played)
        await stages.code2wav.close()
        end = (await read(pipeline.reply(ask())))[-1]
        await nothing_is_left(pipeline)
        await pipeline.close()
        assert isinstance(end, End)
        return end

    end = asyncio.run(scenario())
    assert end.error == StageClosed("code2wav").error


def test_closing_ends_replies_that_run() -> None:
    play = Play(hold_text={2: asyncio.Event()})

    async def scenario(pipeline: CascadePipeline) -> End:
        stream = pipeline.reply(ask())
        end = None
        async for chunk in stream:
            if isinstance(chunk, TextDelta):
                await pipeline.close()
            end = chunk
        assert isinstance(end, End)
        return end

    end = run(play, scenario)
    assert end.reason is EndReason.FAILED
    assert end.error is not None
    assert end.error.code == "stage_closed"


def test_listening_and_recognizing_are_the_stages_own() -> None:
    async def scenario(pipeline: CascadePipeline) -> tuple[object, object]:
        heard = pipeline.listen(ListenRequest(request_id="l"))
        said = pipeline.recognize(RecognizeRequest(request_id="t"))
        for stream in (heard, said):
            await stream.send(PcmChunk(bytes(640), 16_000))
            await stream.end()
        return [c async for c in heard][0], [c async for c in said][0]

    assert run(Play(), scenario) == (SpeechFrames((1.0,)), Transcript("hello", 10))


def test_readiness_follows_the_life_of_the_pipeline() -> None:
    progress: list[str] = []

    async def scenario() -> list[Readiness]:
        stages = Play().stages()
        pipeline = CascadePipeline.from_stages(stages, model="m", on_progress=progress.append)
        seen = [pipeline.readiness]
        await pipeline.start()
        seen.append(pipeline.readiness)
        assert pipeline.voices == PlayedTalker.voices
        assert pipeline.model == "m"
        await pipeline.close()
        await pipeline.close()
        return [*seen, pipeline.readiness]

    before, ready, closed = asyncio.run(scenario())
    assert [each.ready for each in (before, ready, closed)] == [False, True, False]
    assert set(closed.stages.values()) == {"closed"}
    assert list(ready.stages) == ["vad", "recognizer", "ar", "talker", "code2wav"]
    assert sum("starting" in text for text in progress) == 5
    assert sum("ready" in text for text in progress) == 5


def test_a_stage_that_does_not_start_closes_the_others() -> None:
    async def scenario() -> Readiness:
        stages = Play().stages()
        assert isinstance(stages.talker, Played)
        stages.talker.load_fails = True
        pipeline = CascadePipeline.from_stages(stages, model="m")
        with pytest.raises(StageFailure, match="broken"):
            await pipeline.start()
        assert not any(each.running for _, each in stages.named() if isinstance(each, Played))
        return pipeline.readiness

    readiness = asyncio.run(scenario())
    assert readiness.stages["talker"] == "failed"
    assert not readiness.ready


def test_a_deployment_becomes_a_pipeline(tmp_path: Path) -> None:
    data = {"model": "m", "stages": {"ar": {"use": "scripted"}, "recognizer": {"use": "scripted"}}}
    pipelines: list[Pipeline] = [
        CascadePipeline(Deployment(), tmp_path),
        CascadePipeline(parse_deployment(data), tmp_path),
    ]
    assert [each.model for each in pipelines] == ["antiphon-embedded", "m"]
    assert not any(each.readiness.ready for each in pipelines)


def test_spoken_audio_has_one_rate() -> None:
    chunks = run(Play(), spoken)
    assert {chunk.rate for chunk in chunks if isinstance(chunk, PcmChunk)} == {RATE}
