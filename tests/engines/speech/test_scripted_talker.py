"""A talker that makes tones instead of speech: how long, how fast, and in what pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
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
from antiphon.engines.deployment import Code2wavConfig, Pacing, ScriptedTalkerConfig
from antiphon.engines.flow import Flow
from antiphon.engines.speech.code2wav import DecodeRequest
from antiphon.engines.speech.scripted_talker import (
    PlayedDecoder,
    ScriptedCode2wavStage,
    ScriptedTalkerStage,
)
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
        told = code2wav.statistics()
        assert (told["requests"], told["streams"], told["chunks"]) == (1, 0, 0)

    run(main())


async def reply(
    stage: ScriptedCode2wavStage, words: int, flow: Flow, listen: bool = True
) -> list[tuple[float, float]]:
    """When each chunk came and its length, of a reply of words of 300 ms; both ms."""
    now = asyncio.get_running_loop().time
    stream = stage.open(DecodeRequest(request_id="r", flow=flow))
    frames = np.zeros((1, words * 15), np.float32)
    await stream.send(Latents(frames))
    await stream.end()
    heard: list[tuple[float, float]] = []
    async for item in stream:
        if isinstance(item, PcmChunk):
            heard.append((now() * 1000, len(item.pcm) / BYTES_PER_MS))
            if not listen:
                flow.played(0, 0)
    return heard


def test_a_listener_who_stands_still_is_given_the_lead_and_a_chunk() -> None:
    async def main() -> None:
        stage = ScriptedCode2wavStage(ScriptedTalkerConfig())
        await stage.start()
        flow = Flow(Pacing(lead_ms=1000))
        task = asyncio.create_task(reply(stage, 20, flow, listen=False))
        await asyncio.sleep(60)
        assert 1000 <= flow.listener.made_ms <= 1100
        flow.played(600, 600)
        await asyncio.sleep(60)
        assert 1600 <= flow.listener.made_ms <= 1700
        task.cancel()
        await stage.close()

    run(main())


def test_a_talker_waits_for_the_listener_too() -> None:
    async def main() -> None:
        stage = ScriptedTalkerStage(ScriptedTalkerConfig(ms_per_word=500))
        await stage.start()
        flow = Flow(Pacing(lead_ms=1500))
        stream = stage.open(TalkRequest(request_id="r", flow=flow))
        for _ in range(4):
            await stream.send(Clause("One two."))
        await stream.end()
        await asyncio.sleep(60)
        assert flow.undecoded_ms == 2000
        flow.made(2000)
        flow.played(2000, 2000)
        held = [item.held_ms async for item in stream if isinstance(item, Latents)]
        assert held == pytest.approx([0, 0, 60_000, 0], abs=1000)
        await stage.close()

    run(main())


def test_a_pause_of_the_listener_is_not_made_up_for() -> None:
    async def main() -> list[tuple[float, float]]:
        stage = ScriptedCode2wavStage(ScriptedTalkerConfig(pace=2, chunk_ms=100))
        await stage.start()
        heard = await reply(stage, 20, Flow(Pacing(lead_ms=1000)))
        await stage.close()
        return heard

    heard = run(main())
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(heard)]
    assert min(gaps) == pytest.approx(50)
    assert max(gaps) > 60


def test_the_rule_of_code2wav_chooses_where_no_length_is_given() -> None:
    async def main(rule: Any) -> list[float]:
        code2wav = Code2wavConfig(rule=rule, ladder=(4, 8, 60))
        config = ScriptedTalkerConfig(chunk_ms=None, decode_fixed_ms=5, decode_frame_ms=2)
        stage = ScriptedCode2wavStage(config, code2wav)
        await stage.start()
        heard = await reply(stage, 10, Flow())
        told = stage.statistics()
        assert told["chunks"] == len(heard)
        assert told["busy_seconds"] == pytest.approx(0.005 * len(heard) + 0.3)
        assert told["decode_fixed_ms"] == pytest.approx(5, abs=0.1)
        await stage.close()
        return [ms for _, ms in heard]

    assert run(main("fixed")) == [80, 160, 1200, 1200, 360]
    paced = run(main("ramp"))
    assert sum(paced) == 3000
    assert paced[0] < paced[1]


def test_a_stall_comes_once_after_its_audio() -> None:
    async def main() -> list[tuple[float, int, bool]]:
        now = asyncio.get_running_loop().time
        config = ScriptedTalkerConfig(ms_per_word=200, stall_after_ms=500, stall_ms=700)
        stage = ScriptedTalkerStage(config)
        await stage.start()
        stream = stage.open(TalkRequest(request_id="r"))
        for _ in range(3):
            await stream.send(Clause("One two."))
        await stream.end()
        said = [(now(), item) async for item in stream]
        await stage.close()
        return [
            (at, item.frames.shape[1], item.last) for at, item in said if isinstance(item, Latents)
        ]

    assert run(main()) == [(0, 20, True), (0, 5, False), (0.7, 15, True), (0.7, 20, True)]


def test_replies_share_one_decoder_and_the_most_urgent_is_served_first() -> None:
    async def main() -> list[list[tuple[float, float]]]:
        config = ScriptedTalkerConfig(chunk_ms=100, decode_fixed_ms=10, decode_frame_ms=2)
        stage = ScriptedCode2wavStage(config)
        await stage.start()
        waits = [300, 900, 100, 600]
        flows = [Flow(Pacing(first_audio_ms=ms, lead_ms=200)) for ms in waits]
        heard = await asyncio.gather(*(reply(stage, 1, flow) for flow in flows))
        await stage.close()
        return heard

    heard = run(main())
    # 20 ms a chunk. The first comes first, then as they are due; and who has begun to be
    # heard is due before those who are not.
    assert (heard[0][0][0], heard[2][0][0]) == pytest.approx((20, 40))
    assert sorted(range(4), key=lambda n: heard[n][0][0]) == [0, 2, 3, 1]
    for chunks in (heard[0], heard[2]):
        assert [later - earlier for (earlier, _), (later, _) in pairwise(chunks)] <= [100, 100]


def test_a_turn_given_up_is_the_next_ones() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        decoder = PlayedDecoder()
        done: list[tuple[str, float]] = []

        async def decode(name: str, due: float) -> None:
            waited_ms = await decoder.decode(100, due)
            done.append((name, waited_ms))

        tasks = [asyncio.create_task(decode(name, due)) for name, due in (("a", 0), ("b", 1))]
        tasks += [asyncio.create_task(decode(name, due)) for name, due in (("c", 2), ("d", 3))]
        await asyncio.sleep(0.05)
        tasks[2].cancel()
        await asyncio.sleep(0.1)
        tasks[1].cancel()
        await asyncio.wait(tasks)
        assert done == [("a", 0), ("d", pytest.approx(150))]
        assert decoder.busy_seconds == pytest.approx(0.2)
        assert loop.time() == pytest.approx(0.25)

    run(main())
