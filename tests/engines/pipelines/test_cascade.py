"""The cascade: order, overlap, cancelling, failing, and what is left afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from antiphon.engines.chunks import (
    CallDelta,
    End,
    EndReason,
    Fitted,
    PcmChunk,
    SpeechFrames,
    SpokenWords,
    StageError,
    TextDelta,
    Timings,
    Transcript,
    Usage,
)
from antiphon.engines.deployment import Deployment, parse_deployment
from antiphon.engines.pipeline import (
    ListenRequest,
    Message,
    NewVoice,
    Pipeline,
    Readiness,
    RecognizeRequest,
    Reply,
    ReplyChunk,
    ReplyRequest,
    VoiceCard,
    VoiceFiles,
)
from antiphon.engines.pipelines.cascade import CascadePipeline
from antiphon.engines.speech.talker import TalkRequest
from antiphon.engines.stage import StageClosed, StageFailure
from antiphon.engines.streams import OUTPUT_BOUND
from antiphon.engines.text.request import GenerateRequest
from antiphon.engines.tools import Tool, ToolChoice, Truncation

from .played import BROKEN, RATE, Play, Played, PlayedAr, PlayedTalker

T = TypeVar("T")
MESSAGES = (Message("user", "Hello"),)
TOOLS = (Tool(name="f"),)
CALL = (CallDelta(0, "f", "", False), CallDelta(0, "f", '{"a": 1}', True))


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
    assert [numbers["running"] for numbers in pipeline.statistics().values()] == [0] * 7


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
            request_id="r9",
            messages=MESSAGES,
            voice="second",
            speed=1.5,
            max_tokens=7,
            temperature=0.3,
            tools=TOOLS,
            tool_choice=ToolChoice(mode="required"),
            truncation=Truncation(mode="disabled"),
        )
        await read(pipeline.reply(request))

    run(play, scenario)
    assert play.asked == [
        GenerateRequest(
            request_id="r9",
            messages=MESSAGES,
            max_tokens=7,
            temperature=0.3,
            tools=TOOLS,
            tool_choice=ToolChoice(mode="required"),
            truncation=Truncation(mode="disabled"),
        ),
        TalkRequest(request_id="r9", voice="second", speed=1.5),
    ]


def test_calls_and_what_was_left_out_pass_in_order_and_unspoken() -> None:
    words = (Fitted(2), "Let me", " see.", *CALL, CallDelta(1, "f", "{}", True), "Done.")
    play = Play(words=words)
    chunks = run(play, spoken)
    told = [each for each in chunks if isinstance(each, (Fitted, TextDelta, CallDelta))]
    assert told == [TextDelta(word, 1) if isinstance(word, str) else word for word in words]
    assert "".join(play.clauses) == "Let me see.Done."
    assert chunks[-1] == play.end


def test_what_was_said_ahead_of_a_call_sounds_while_the_call_is_written() -> None:
    gate = asyncio.Event()
    play = Play(words=("Let me see", *CALL), hold_text={2: gate})

    async def scenario(pipeline: CascadePipeline) -> None:
        async for chunk in pipeline.reply(ask()):
            if isinstance(chunk, PcmChunk):
                gate.set()
            if isinstance(chunk, CallDelta) and chunk.done:
                assert gate.is_set()

    run(play, scenario)


@pytest.mark.parametrize("speak", [True, False])
def test_a_call_alone_has_no_audio(speak: bool) -> None:
    play = Play(words=CALL)
    chunks = run(play, lambda pipeline: read(pipeline.reply(ask(speak))))
    assert chunks == [*CALL, play.end]


def test_a_call_counts_as_the_first_token() -> None:
    clock = asyncio.Event()
    play = Play(words=(Fitted(1), *CALL, "Done."), hold_text={3: clock})
    told: list[float] = []

    async def scenario(pipeline: CascadePipeline) -> Timings:
        now = asyncio.get_running_loop().time
        timings = None
        async for chunk in pipeline.reply(ask()):
            if isinstance(chunk, CallDelta) and chunk.done:
                told.append(now())
                clock.set()
            if isinstance(chunk, Timings):
                timings = chunk
        assert timings is not None
        return timings

    timings = run(play, scenario)
    assert timings.first_token_at is not None
    assert timings.first_clause_at is not None
    assert timings.first_token_at <= told[0] <= timings.first_clause_at


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


class KeepingTalker(PlayedTalker):
    """A talker whose voices come and go."""

    @property
    def voice_cards(self) -> tuple[VoiceCard, ...]:
        return (VoiceCard(name="first", language="ja", model="m"),)

    async def add_voice(self, new: NewVoice) -> tuple[VoiceCard, ...]:
        return (VoiceCard(name=new.name, language="de", created_at=1),)

    async def remove_voice(self, name: str) -> None:
        raise StageFailure(StageError("voice_unknown", f"no {name}"))


def test_voices_that_come_and_go_are_the_talker_s() -> None:
    files = VoiceFiles(name="zoe", graph=Path("zoe.onnx"), description=Path("zoe.onnx.json"))

    async def scenario(pipeline: CascadePipeline) -> None:
        assert pipeline.voice_cards == (VoiceCard(name="first", language="ja", model="m"),)
        added = await pipeline.add_voice(files)
        assert added == (VoiceCard(name="zoe", language="de", created_at=1),)
        with pytest.raises(StageFailure, match="voice_unknown: no zoe"):
            await pipeline.remove_voice("zoe")

    stages = Play().stages(talker=KeepingTalker)
    asyncio.run(scenario(CascadePipeline.from_stages(stages, model="m")))


def test_other_voices_are_what_they_are() -> None:
    files = VoiceFiles(name="zoe", graph=Path("zoe.onnx"), description=Path("zoe.onnx.json"))

    async def scenario(pipeline: CascadePipeline) -> None:
        cards = [VoiceCard(name=name, language="en") for name in PlayedTalker.voices]
        assert list(pipeline.voice_cards) == cards
        with pytest.raises(StageFailure, match="voices_fixed"):
            await pipeline.add_voice(files)
        with pytest.raises(StageFailure, match="voice_fixed"):
            await pipeline.remove_voice("first")
        with pytest.raises(StageFailure, match="voice_unknown"):
            await pipeline.remove_voice("zoe")

    asyncio.run(scenario(CascadePipeline.from_stages(Play().stages(), model="m")))


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


class Seeing(PlayedAr):
    sees = True


def test_a_model_sees_where_it_says_so() -> None:
    blind, seeing = Play().stages(), Play().stages(ar=Seeing)
    assert not CascadePipeline.from_stages(blind, model="m").sees
    assert CascadePipeline.from_stages(seeing, model="m").sees


class Sleeper(PlayedTalker):
    """A talker that can be woken, and takes as long as a test wants for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.go_on = asyncio.Event()
        self.woken = self.cancelled = 0
        self.breaks_with: Exception | None = None

    async def warm(self) -> None:
        self.woken += 1
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.breaks_with is not None:
            raise self.breaks_with


def sleeping(scenario: Callable[[CascadePipeline, Sleeper], Awaitable[None]]) -> None:
    """Run with a started pipeline of a talker that can be woken."""

    async def started() -> None:
        stages = Play().stages(talker=Sleeper)
        talker = stages.talker
        assert isinstance(talker, Sleeper)
        pipeline = CascadePipeline.from_stages(stages, model="m")
        await pipeline.start()
        async with asyncio.timeout(10):
            await scenario(pipeline, talker)
            await pipeline.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(started())


async def rest() -> None:
    """Return when no task but this can go on."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_stages_are_woken_once_at_a_time() -> None:
    async def scenario(pipeline: CascadePipeline, talker: Sleeper) -> None:
        pipeline.expect()
        pipeline.expect()
        await rest()
        pipeline.expect()
        await rest()
        assert talker.woken == 1
        talker.go_on.set()
        await rest()
        pipeline.expect()
        await rest()
        assert talker.woken == 2

    sleeping(scenario)


@pytest.mark.parametrize("error", [StageFailure(BROKEN), RuntimeError("a secret")])
def test_a_stage_that_cannot_be_woken_is_left_to_the_next_request(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(pipeline: CascadePipeline, talker: Sleeper) -> None:
        talker.breaks_with = error
        talker.go_on.set()
        pipeline.expect()
        await rest()
        pipeline.expect()
        await rest()
        assert talker.woken == 2
        assert (await read(pipeline.reply(ask())))[-1] == Play().end

    with caplog.at_level(logging.CRITICAL):
        sleeping(scenario)


def test_waking_ends_when_the_pipeline_closes() -> None:
    async def scenario(pipeline: CascadePipeline, talker: Sleeper) -> None:
        pipeline.expect()
        await rest()
        await pipeline.close()
        assert talker.cancelled == 1

    sleeping(scenario)
