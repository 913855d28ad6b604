"""A whole pipeline whose talker is a codec language model, played, on simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engines.pipelines.paced import Ear
from tests.support.codec_lm import STEP_MS, PlayedCodec, PlayedEngine, soon, tokens_of
from tests.support.loop import run_simulated
from tests.support.waiting import until

from antiphon.codecs.pcm import to_float
from antiphon.engines.chunks import End, EndReason, PcmChunk, SpokenWords
from antiphon.engines.deployment import Code2wavConfig, ScriptedArConfig, VadConfig
from antiphon.engines.pipeline import (
    Message,
    RecognizeRequest,
    ReplyRequest,
    SpeakRequest,
    TranscribeRequest,
)
from antiphon.engines.pipelines.absent import AbsentAr, AbsentRecognizer
from antiphon.engines.pipelines.cascade import CascadePipeline
from antiphon.engines.pipelines.stages import CascadeStages
from antiphon.engines.speech.decoders.decoder import DecoderOptions
from antiphon.engines.speech.tokens.codec import Codec
from antiphon.engines.speech.tokens.sound import CodecSoundStage
from antiphon.engines.speech.vad import VadStage
from antiphon.engines.stage import StageFailure
from antiphon.engines.text.scripted_ar import ScriptedArStage

from .test_talker import stage_of

Check = Callable[[CascadePipeline], Awaitable[None]]
MESSAGES = (Message("user", "Hi"),)
TEXT = "Hello there. It is a fine day, and we are here. Nobody knows for how long."


def run(
    check: Check, *engines: PlayedEngine, played: PlayedCodec | None = None, writes: bool = False
) -> None:
    """Run with a started pipeline; afterwards no stream of any stage may be left."""
    codec = played or PlayedCodec()

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        shared = Codec("played", Path, DecoderOptions(), load=lambda: codec)
        stages = CascadeStages(
            vad=VadStage(VadConfig()),
            recognizer=AbsentRecognizer(),
            ar=ScriptedArStage(ScriptedArConfig(lines=(TEXT,))) if writes else AbsentAr(),
            talker=stage_of(engines, codec=codec),
            code2wav=CodecSoundStage(Code2wavConfig(), shared, clock=clock),
        )
        pipeline = CascadePipeline.from_stages(stages, model="played")
        await pipeline.start()
        assert pipeline.readiness.ready
        await check(pipeline)
        await until(lambda: is_quiet(pipeline))
        assert not any(engine.live for engine in engines)
        await pipeline.close()

    run_simulated(main())


def is_quiet(pipeline: CascadePipeline) -> bool:
    return not any(
        numbers.get(name, 0)
        for numbers in pipeline.statistics().values()
        for name in ("running", "streams", "jobs", "unfinished", "spoken", "waiting")
    )


async def said(pipeline: CascadePipeline, text: str, name: str = "r") -> tuple[bytes, str, End]:
    speech = pipeline.speak(SpeakRequest(request_id=name))
    await speech.send(text)
    await speech.end()
    pcm, words, end = b"", list[str](), None
    async for item in speech:
        if isinstance(item, PcmChunk):
            pcm += item.pcm
        elif isinstance(item, SpokenWords):
            words += [word.text for word in item.words]
        else:
            end = item
    assert end is not None
    return pcm, " ".join(words), end


def wholes(engine: PlayedEngine, codec: PlayedCodec) -> NDArray[np.float32]:
    """The sound of what the engine was asked for, decoded whole."""
    made: list[NDArray[np.float32]] = []
    for request in engine.requests:
        tokens = np.array(tokens_of("".join(map(chr, request.tokens)))).reshape(-1, 2).T
        made.append(codec.decode(tokens - np.array([[1000], [1064]])))
    return np.concatenate(made)


def test_speech_is_the_sound_of_all_tokens_and_its_words_are_those_of_the_text() -> None:
    engine, codec = PlayedEngine(seconds=0.002), PlayedCodec()

    async def check(pipeline: CascadePipeline) -> None:
        engine.requests.clear()
        pcm, words, end = await said(pipeline, TEXT)
        assert end == End(EndReason.COMPLETED)
        assert words == TEXT
        wanted, made = wholes(engine, codec), to_float(pcm)
        assert len(made) == len(wanted)
        # All but the fades of the utterances' ends.
        assert (np.abs(made - wanted) < 1e-4).mean() > 0.97

    run(check, engine, played=codec)


def test_eight_at_once_are_the_same_as_eight_alone() -> None:
    engine = PlayedEngine(seconds=0.003)
    # Of a few words, as else it depends on who waits what is said in one go.
    texts = [f"It is {'x' * number} long." for number in range(8, 16)]

    async def check(pipeline: CascadePipeline) -> None:
        alone = [await said(pipeline, text) for text in texts]
        together = await asyncio.gather(
            *(said(pipeline, text, f"r{number}") for number, text in enumerate(texts))
        )
        for one, other in zip(alone, together, strict=True):
            assert one[0] == other[0]
            assert one[2] == other[2]

    run(check, engine)


def test_a_reply_of_any_language_model_is_spoken() -> None:
    async def check(pipeline: CascadePipeline) -> None:
        reply = pipeline.reply(ReplyRequest(request_id="r", messages=MESSAGES))
        items = [item async for item in reply]
        audio_ms = sum(len(item.pcm) / 48 for item in items if isinstance(item, PcmChunk))
        assert audio_ms == pytest.approx(len(TEXT) * 100, rel=0.1)
        assert items[-1].reason is EndReason.COMPLETED  # type: ignore[union-attr]

    run(check, PlayedEngine(seconds=0.002), writes=True)


def test_a_listener_hears_no_gap_of_a_model_barely_faster_than_speech() -> None:
    # A look-ahead as long as that of SNAC, which each utterance needs anew.
    codec, engine = PlayedCodec(lookahead=4757), PlayedEngine(seconds=STEP_MS / 2000 / 1.05)

    async def check(pipeline: CascadePipeline) -> None:
        for _ in range(2):
            ear = Ear(pipeline.reply(ReplyRequest(request_id="r", messages=MESSAGES)))
            await ear.listen()
            assert ear.completed
            assert ear.gap_ms == 0
            assert ear.first_at is not None
            # It is 0.3 s, and more where the decoder was measured on a busy machine.
            assert ear.first_at - ear.asked_at < 1
        assert pipeline.statistics()["code2wav"]["underruns"] == 0

    run(check, engine, played=codec, writes=True)


def test_whoever_cancels_or_reads_no_further_leaves_nothing_running() -> None:
    engine = PlayedEngine(seconds=0.005)

    async def check(pipeline: CascadePipeline) -> None:
        for items in (0, 1, 5):
            speech = pipeline.speak(SpeakRequest(request_id="r"))
            await speech.send(TEXT)
            await speech.end()
            reading = aiter(speech)
            for _ in range(items):
                await anext(reading)
            speech.cancel()
            assert [item async for item in reading][-1] == End(EndReason.CANCELLED)
            await until(lambda: is_quiet(pipeline))
        assert engine.aborted

    run(check, engine)


def test_speech_that_was_cut_short_says_so() -> None:
    engine = PlayedEngine(answer=lambda text: tokens_of(text, stretch=30))

    async def check(pipeline: CascadePipeline) -> None:
        pcm, words, end = await said(pipeline, "Hello there.")
        assert end == End(EndReason.LENGTH)
        assert words
        assert len(pcm) / 48 % STEP_MS == 0
        assert pipeline.statistics()["talker"]["truncated"] == 1

    run(check, engine)


def test_an_engine_that_dies_ends_what_is_spoken_and_the_next_is_served() -> None:
    first, second = PlayedEngine(seconds=0.01), PlayedEngine()

    async def check(pipeline: CascadePipeline) -> None:
        speech = pipeline.speak(SpeakRequest(request_id="r"))
        await speech.send(TEXT)
        reading = aiter(speech)
        await anext(reading)
        first.die()
        end = [item async for item in reading][-1]
        assert isinstance(end, End)
        assert end.error is not None
        assert end.error.retry_after_ms is not None
        assert pipeline.readiness.stages["talker"] == "restarting"
        await soon(lambda: pipeline.readiness.ready)
        assert (await said(pipeline, TEXT))[2] == End(EndReason.COMPLETED)

    run(check, first, second)


def test_what_there_is_no_stage_for_is_refused_and_not_among_what_is_ready() -> None:
    async def check(pipeline: CascadePipeline) -> None:
        assert set(pipeline.readiness.stages) == {"vad", "talker", "code2wav"}
        with pytest.raises(StageFailure, match="recognizer_missing"):
            pipeline.recognize(RecognizeRequest(request_id="r"))
        with pytest.raises(StageFailure, match="recognizer_missing"):
            pipeline.transcribe(TranscribeRequest(request_id="r"))
        reply = pipeline.reply(ReplyRequest(request_id="r", messages=MESSAGES))
        (end,) = [item async for item in reply]
        assert isinstance(end, End)
        assert end.error is not None
        assert end.error.code == "language_model_missing"

    run(check, PlayedEngine())
