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
def test_a_prompt_tells_how_names_are_spelt(spoken: Callable[[str], Samples]) -> None:
    speech = padded(spoken("Please call Doctor Nguyen at Antiphon."))

    async def check(stage: WhisperStage) -> None:
        request = RecognizeRequest(request_id="r", prompt="Antiphon, Nguyen")
        heard = words((await hear(stage, speech, request)).text)
        assert {"nguyen", "antiphon"} <= set(heard)
        assert len(heard) <= 7, "something was said twice"

    run(check)


@pytest.mark.models
@pytest.mark.parametrize(
    "prompt",
    [
        "<|endoftext|><|startoftranscript|><|notimestamps|> Sarah Johnson",
        "Sarah " * 50_000,
        "\ud800\0\uffff😀\n\t ",
    ],
    ids=["control tokens", "long", "no text"],
)
def test_no_prompt_breaks_a_recognition(prompt: str, spoken: Callable[[str], Samples]) -> None:
    speech = padded(spoken("What time is it?"))

    async def check(stage: WhisperStage) -> None:
        heard = await hear(stage, speech, RecognizeRequest(request_id="r", prompt=prompt))
        assert "time" in words(heard.text)
        assert len(words(heard.text)) <= 6

    run(check)


@pytest.mark.models
@pytest.mark.parametrize("partial", [False, True])
def test_no_prompt_is_heard_into_silence_or_noise(partial: bool) -> None:
    hiss = np.random.default_rng(1).normal(0, 1, RATE).astype(np.float32)

    async def check(stage: WhisperStage) -> None:
        for prompt in ("Hello, how are you? I am fine, thank you.", "Umm, let me think."):
            request = RecognizeRequest(request_id="r", prompt=prompt, partial=partial)
            for level in (0.0, 0.003, 0.03, 0.1):
                assert (await hear(stage, hiss * np.float32(level), request)).text == ""

    run(check)


@pytest.mark.models
def test_a_language_is_known_by_its_regions_and_a_foreign_one_is_refused(
    spoken: Callable[[str], Samples],
) -> None:
    speech = padded(spoken("What time is it?"))

    async def check(stage: WhisperStage) -> None:
        for language in ("en", "en-US", "en_GB", "EN"):
            heard = await hear(stage, speech, RecognizeRequest(request_id="r", language=language))
            assert "time" in words(heard.text)
        for language in ("de", "de-AT", "english", "", "x" * 1000):
            stream = stage.open(RecognizeRequest(request_id="r", language=language))
            (end,) = [chunk async for chunk in stream]
            what = f"language: expected one out of en, got {language[:20]!r}"
            assert end == End(EndReason.FAILED, StageError("unsupported_language", what))

    run(check)


@pytest.mark.models
def test_logprobs_spell_the_transcript_where_they_are_asked_for(
    spoken: Callable[[str], Samples],
) -> None:
    speech = padded(spoken("What time is it?"))
    minute = np.tile(speech, 31 * RATE // len(speech) + 1)

    async def check(stage: WhisperStage) -> None:
        request = RecognizeRequest(request_id="r", logprobs=True)
        for samples in (speech, minute):
            heard = await hear(stage, samples, request)
            assert "".join(each.token for each in heard.logprobs) == heard.text != ""
            assert all(each.logprob <= 0 for each in heard.logprobs)
            assert np.mean([each.logprob for each in heard.logprobs]) > -1
        assert (await hear(stage, speech)).logprobs == ()
        assert (await hear(stage, np.zeros(RATE, np.float32), request)).logprobs == ()

    run(check)


@pytest.mark.models
def test_a_partial_is_read_after_finished_speech_and_is_a_part_of_it(
    spoken: Callable[[str], Samples],
) -> None:
    speech = padded(spoken("She bought six apples, three oranges and a bottle of milk."))
    done: list[str] = []

    async def check(stage: WhisperStage) -> None:
        async def hear_as(name: str, samples: Samples) -> str:
            request = RecognizeRequest(request_id=name, partial=name.startswith("part"))
            heard = await hear(stage, samples, request)
            done.append(name)
            return heard.text

        names = ("first", "part", "second")
        _, part, whole = await asyncio.gather(
            *(hear_as(name, speech[: 2 * RATE] if name == "part" else speech) for name in names)
        )
        assert done == ["first", "second", "part"]
        assert words(whole)[:3] == words(part)[:3] == ["she", "bought", "six"]
        assert len(words(part)) < len(words(whole))
        assert stage.statistics()["partials"] == 1

    run(check)


@pytest.mark.models
def test_a_partial_of_minutes_reads_one_window(spoken: Callable[[str], Samples]) -> None:
    said = (
        "I would like to change my flight from London to Paris, please.",
        "The recipe calls for flour, three eggs, a pinch of salt, and some cold milk.",
        "The doctor told him to drink more water and to walk every day.",
    )
    once = np.concatenate([padded(spoken(text)) for text in said])
    silent = np.zeros(28 * RATE - len(once), np.float32)
    late = padded(spoken("Nobody should hear this yet."))
    minute = np.concatenate([once, silent, late, silent])

    async def check(stage: WhisperStage) -> None:
        part = await hear(stage, minute, RecognizeRequest(request_id="r", partial=True))
        assert {"london", "recipe", "doctor"} <= set(words(part.text))
        assert not {"nobody", "yet"} & set(words(part.text))
        assert part.audio_ms == round(len(minute) / 24)

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
