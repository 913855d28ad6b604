import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from antiphon.codecs.pcm import from_float
from antiphon.engines.catalog import default_cache_root
from antiphon.engines.chunks import End, EndReason, PcmChunk, Samples, StageError, Transcript
from antiphon.engines.deployment import WhisperConfig
from antiphon.engines.pipeline import RecognizeRequest
from antiphon.engines.speech.recognizer import MAX_SECONDS, Utterance, WhisperStage
from antiphon.engines.stage import StageClosed, StageFailure

RATE = 24_000
REQUEST = RecognizeRequest(request_id="r")


def run(check: Callable[[WhisperStage], Awaitable[None]], concurrency: int = 1) -> None:
    async def main() -> None:
        config = WhisperConfig(concurrency=concurrency)
        stage = WhisperStage(config, default_cache_root(os.environ))
        await stage.start()
        try:
            await check(stage)
        finally:
            await stage.close()

    asyncio.run(main())


async def hear(
    stage: WhisperStage, samples: Samples, request: RecognizeRequest = REQUEST
) -> Transcript:
    stream = stage.open(request)
    pcm = from_float(samples)
    for start in range(0, len(pcm), 2 * RATE):
        await stream.send(PcmChunk(pcm[start : start + 2 * RATE], RATE))
    await stream.end()
    transcript, end = [chunk async for chunk in stream]
    assert end == End(EndReason.COMPLETED)
    assert isinstance(transcript, Transcript)
    return transcript


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def padded(samples: Samples) -> Samples:
    return np.pad(samples, (RATE // 3, RATE // 3))


def test_audio_is_counted_and_resampled_whole() -> None:
    utterance = Utterance()
    assert utterance.duration_ms == 0
    assert utterance.samples().shape == (0,)
    utterance.add(PcmChunk(bytes(4799), RATE))
    utterance.add(PcmChunk(bytes(43_201), RATE))
    assert utterance.duration_ms == 1000
    assert utterance.samples().shape == (16_000,)
    with pytest.raises(StageFailure, match="24000 Hz continued with 16000 Hz"):
        utterance.add(PcmChunk(b"", 16_000))


def test_audio_beyond_the_bound_is_refused() -> None:
    utterance = Utterance()
    minute = PcmChunk(bytes(60 * 2 * 8000), 8000)
    for _ in range(MAX_SECONDS // 60):
        utterance.add(minute)
    with pytest.raises(StageFailure, match="longer than 600 s"):
        utterance.add(PcmChunk(bytes(2), 8000))


def test_a_missing_model_stops_the_start_and_says_what_to_run(tmp_path: Path) -> None:
    stage = WhisperStage(WhisperConfig(), tmp_path)
    with pytest.raises(StageFailure, match="antiphon models fetch whisper-tiny-en") as failure:
        asyncio.run(stage.start())
    assert failure.value.error.code == "model_missing"
    with pytest.raises(StageClosed):
        stage.open(REQUEST)


@pytest.mark.models
def test_short_and_long_utterances_are_understood(spoken: Callable[[str], Samples]) -> None:
    short = "Turn off the light."
    long = "The recipe calls for flour, three eggs, a pinch of salt, and some cold milk."

    async def check(stage: WhisperStage) -> None:
        for text in (short, long):
            heard = await hear(stage, padded(spoken(text)))
            said = words(text)
            assert len(set(said) ^ set(words(heard.text))) <= 1 + len(said) // 5
            assert len(words(heard.text)) <= len(said) + 2, "something was said twice"
            assert abs(heard.audio_ms - len(padded(spoken(text))) / 24) <= 1
        statistics = stage.statistics()
        assert statistics["streams_completed"] == 2
        assert statistics["busy_seconds"] > 0
        assert statistics["audio_seconds"] > 4

    run(check)


@pytest.mark.models
def test_silence_and_noise_say_nothing() -> None:
    hiss = np.random.default_rng(1)

    async def check(stage: WhisperStage) -> None:
        assert await hear(stage, np.zeros(0, np.float32)) == Transcript("", 0)
        assert await hear(stage, np.zeros(RATE, np.float32)) == Transcript("", 1000)
        for level in (-50, -30, -20):
            noise = hiss.normal(0, 10 ** (level / 20), 2 * RATE).astype(np.float32)
            assert (await hear(stage, noise)).text == ""

    run(check)


@pytest.mark.models
def test_more_than_a_window_is_read_in_pieces(spoken: Callable[[str], Samples]) -> None:
    sentence = "I would like to change my flight from London to Paris, please."
    once = padded(spoken(sentence))
    times = 31 * RATE // len(once) + 1

    async def check(stage: WhisperStage) -> None:
        heard = words((await hear(stage, np.tile(once, times))).text)
        assert abs(heard.count("london") - times) <= 1
        assert abs(heard.count("please") - times) <= 1

    run(check)


@pytest.mark.models
def test_a_prompt_is_no_command_and_a_foreign_language_is_refused(
    spoken: Callable[[str], Samples],
) -> None:
    speech = padded(spoken("My name is Sarah Johnson."))

    async def check(stage: WhisperStage) -> None:
        request = RecognizeRequest(
            request_id="r", prompt="<|endoftext|> Sarah Johnson", language="en"
        )
        assert "sarah" in words((await hear(stage, speech, request)).text)
        stream = stage.open(RecognizeRequest(request_id="r", language="de"))
        (end,) = [chunk async for chunk in stream]
        what = "this recognizer does not understand the language 'de'"
        assert end == End(EndReason.FAILED, StageError("unsupported_language", what))

    run(check)


@pytest.mark.models
def test_a_cancelled_utterance_gives_way_to_the_next(spoken: Callable[[str], Samples]) -> None:
    speech = padded(spoken("What time is it?"))

    async def check(stage: WhisperStage) -> None:
        streams = [stage.open(REQUEST) for _ in range(20)]
        for stream in streams:
            await stream.send(PcmChunk(from_float(speech), RATE))
            await stream.end()
        await asyncio.sleep(0)
        for stream in streams:
            stream.cancel()
            assert [chunk async for chunk in stream] == [End(EndReason.CANCELLED)]
        assert "time" in words((await hear(stage, speech)).text)
        assert stage.statistics()["streams_cancelled"] == 20
        # At most the one that ran was decoded beside the last.
        assert stage.statistics()["jobs"] == 0

    run(check)


@pytest.mark.models
def test_several_threads_transcribe_at_once(spoken: Callable[[str], Samples]) -> None:
    speech = padded(spoken("What time is it?"))

    async def check(stage: WhisperStage) -> None:
        heard = await asyncio.gather(*[hear(stage, speech) for _ in range(4)])
        assert all("time" in words(each.text) for each in heard)

    run(check, concurrency=2)
