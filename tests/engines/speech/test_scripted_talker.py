"""A talker that makes tones instead of speech: how long, how fast, and in what pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest
from tests.support.loop import run_simulated

from antiphon.engines.chunks import (
    Clause,
    End,
    EndReason,
    Latents,
    PcmChunk,
    SpokenWords,
    Word,
)
from antiphon.engines.deployment import ScriptedTalkerConfig
from antiphon.engines.speech.code2wav import DecodeRequest
from antiphon.engines.speech.scripted_talker import ScriptedCode2wavStage, ScriptedTalkerStage
from antiphon.engines.speech.talker import TalkRequest
from antiphon.engines.stage import StageClosed, StageFailure

BYTES_PER_MS = 48
REQUEST = DecodeRequest(request_id="r")


async def talk(config: ScriptedTalkerConfig, *texts: str, speed: float = 1.0) -> list[Latents]:
    stage = ScriptedTalkerStage(config)
    await stage.start()
    stream = stage.open(TalkRequest(request_id="r", speed=speed))
    for text in texts:
        await stream.send(Clause(text))
    await stream.end()
    said = [chunk async for chunk in stream]
    await stage.close()
    assert said.pop() == End(EndReason.COMPLETED)
    return [chunk for chunk in said if isinstance(chunk, Latents)]


async def sound(config: ScriptedTalkerConfig, *latents: Latents) -> list[Any]:
    """What comes out, each with the time since the start."""
    stage = ScriptedCode2wavStage(config)
    await stage.start()
    stream = stage.open(REQUEST)
    began = asyncio.get_running_loop().time()
    for each in latents:
        await stream.send(each)
    await stream.end()
    heard = [(asyncio.get_running_loop().time() - began, chunk) async for chunk in stream]
    await stage.close()
    assert heard.pop()[1] == End(EndReason.COMPLETED)
    return heard


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return run_simulated(main)


def test_words_take_their_time() -> None:
    (latents,) = run(talk(ScriptedTalkerConfig(ms_per_word=300), "One two."))
    assert latents.frames.shape == (1, 30)
    assert latents.words == (Word("One", 0, 300), Word("two.", 300, 600))


def test_a_faster_voice_takes_less() -> None:
    (latents,) = run(talk(ScriptedTalkerConfig(ms_per_word=300), "One two.", speed=1.5))
    assert latents.frames.shape == (1, 20)
    assert latents.words[-1].end_ms == 400


def test_a_clause_without_words_is_not_said() -> None:
    assert run(talk(ScriptedTalkerConfig(), "", "  ")) == []


def test_audio_comes_in_chunks_of_the_length_of_the_text() -> None:
    async def main() -> list[Any]:
        config = ScriptedTalkerConfig(ms_per_word=250, chunk_ms=100)
        return await sound(config, *await talk(config, "One.", "Two three."))

    heard = [chunk for _, chunk in run(main())]
    words = [chunk.words for chunk in heard if isinstance(chunk, SpokenWords)]
    assert words == [
        (Word("One.", 0, 240),),
        (Word("Two", 240, 490), Word("three.", 490, 740)),
    ]
    lengths = [len(chunk.pcm) for chunk in heard if isinstance(chunk, PcmChunk)]
    assert [length // BYTES_PER_MS for length in lengths] == [100, 100, 40, 100, 100, 100, 100, 100]
    assert not any(any(chunk.pcm) for chunk in heard if isinstance(chunk, PcmChunk))


@pytest.mark.parametrize(("pace", "seconds"), [(0.0, 0.0), (1.0, 0.9), (3.0, 0.3)])
def test_audio_comes_at_its_pace(pace: float, seconds: float) -> None:
    async def main() -> list[Any]:
        config = ScriptedTalkerConfig(ms_per_word=500, pace=pace)
        return await sound(config, *await talk(config, "One two."))

    times = [at for at, chunk in run(main()) if isinstance(chunk, PcmChunk)]
    assert len(times) == 10
    assert times[0] == pytest.approx(0)
    assert times[-1] == pytest.approx(seconds)


def test_a_tone_goes_on_across_chunks() -> None:
    async def main() -> list[Any]:
        config = ScriptedTalkerConfig(ms_per_word=1500, hertz=441, chunk_ms=70)
        return await sound(config, *await talk(config, "One."))

    pcm = b"".join(chunk.pcm for _, chunk in run(main()) if isinstance(chunk, PcmChunk))
    heard = np.frombuffer(pcm, "<i2") / 32768
    wanted = 0.2 * np.sin(2 * np.pi * 441 * np.arange(len(heard)) / 24_000)
    assert len(heard) == 36_000
    assert np.abs(heard - wanted).max() < 1e-3


def test_what_is_not_running_opens_nothing_and_a_stream_left_open_is_ended() -> None:
    async def main() -> None:
        config = ScriptedTalkerConfig(pace=1)
        talker, code2wav = ScriptedTalkerStage(config), ScriptedCode2wavStage(config)
        assert talker.voices == ("tone",)
        with pytest.raises(StageClosed):
            talker.open(TalkRequest(request_id="r"))
        with pytest.raises(StageClosed):
            code2wav.open(REQUEST)
        await talker.start()
        await code2wav.start()
        with pytest.raises(StageFailure):
            talker.open(TalkRequest(request_id="r", voice="nobody"))
        talking, sounding = talker.open(TalkRequest(request_id="r")), code2wav.open(REQUEST)
        assert talker.statistics() == {"requests": 1, "streams": 1}
        await talker.close()
        await code2wav.close()
        for stream in (talking, sounding):
            ends = [chunk async for chunk in stream if isinstance(chunk, End)]
            assert [end.reason for end in ends] == [EndReason.FAILED]
        assert code2wav.statistics() == {"requests": 1, "streams": 0}

    run(main())
