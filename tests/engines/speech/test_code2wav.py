"""Latents to audio with a decoder that is played, on simulated time; and with the real one."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.engines.speech.played_decoder import FRAME_MS, REACH, PlayedDecoder, wave
from tests.support.loop import run_simulated
from tests.support.waiting import until

from antiphon.codecs.pcm import to_float
from antiphon.codecs.resample import FloatStreamResampler
from antiphon.engines.catalog import default_cache_root, require
from antiphon.engines.chunks import End, EndReason, Latents, PcmChunk, SpokenWords, Word
from antiphon.engines.deployment import Code2wavConfig, Pacing
from antiphon.engines.flow import Flow
from antiphon.engines.pipeline import OUTPUT_RATE
from antiphon.engines.scheduling.windows import Windows
from antiphon.engines.speech.code2wav import Code2wavStage, DecodeRequest
from antiphon.engines.speech.decoding import FADE_MS, Decoder
from antiphon.engines.speech.voices.piper import PiperDecoder, PiperTalker
from antiphon.engines.stage import StageClosed, StageFailure

PATIENCE = 30
MODEL = "piper-joe"
HOP, RATE = 256, 22050
BYTES_PER_MS = 2 * OUTPUT_RATE // 1000

Check = Callable[[Code2wavStage], Awaitable[None]]


@cache
def decoder() -> Decoder:
    return Decoder(PiperDecoder(require(MODEL, default_cache_root(os.environ))[1], 1))


@cache
def latents(text: str) -> NDArray[np.float32]:
    talker = PiperTalker(require(MODEL, default_cache_root(os.environ))[1], 1)
    draft = talker.draft(text, 1.0, "joe")
    assert draft is not None
    return draft.next(draft.left).frames


def with_stage(check: Check, config: Code2wavConfig | None = None) -> None:
    """Run ``check`` with the real decoder."""

    async def main() -> None:
        stage = Code2wavStage(config or Code2wavConfig(), MODEL, default_cache_root(os.environ))
        await stage.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await check(stage)
        finally:
            await stage.close()

    asyncio.run(main())


def with_played(
    check: Check,
    played: PlayedDecoder,
    monkeypatch: pytest.MonkeyPatch,
    config: Code2wavConfig | None = None,
) -> None:
    """Run ``check`` with a decoder that is played, on simulated time."""
    shelf = played.use(monkeypatch)

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        stage = Code2wavStage(config or Code2wavConfig(), MODEL, Path(), shelf=shelf, clock=clock)
        await stage.start()
        try:
            await check(stage)
        finally:
            await stage.close()

    run_simulated(main())


async def decode(
    stage: Code2wavStage, *chunks: Latents, flow: Flow | None = None
) -> tuple[list[SpokenWords | PcmChunk], End]:
    stream = stage.open(DecodeRequest(request_id="r", flow=flow))

    async def feed() -> None:
        for chunk in chunks:
            await stream.send(chunk)
        await stream.end()

    feeding = asyncio.create_task(feed())
    items = [item async for item in stream]
    await feeding
    end = items.pop()
    assert isinstance(end, End)
    return [item for item in items if not isinstance(item, End)], end


def audio(items: list[SpokenWords | PcmChunk]) -> NDArray[np.float32]:
    return to_float(b"".join(item.pcm for item in items if isinstance(item, PcmChunk)))


def lengths(items: list[SpokenWords | PcmChunk]) -> list[float]:
    """Of chunks, in ms."""
    return [len(item.pcm) / BYTES_PER_MS for item in items if isinstance(item, PcmChunk)]


def noise(frames: int, scale: float = 0.1) -> NDArray[np.float32]:
    """Frames of one channel."""
    made = np.random.default_rng(frames).uniform(-scale, scale, (1, frames))
    return made.astype(np.float32)


def faded(samples: NDArray[np.float32], rate: int) -> tuple[NDArray[np.float32], int]:
    """What of the samples is certain, and how many samples fade."""
    count = round(FADE_MS * rate / 1000)
    return samples[:-count], count


@pytest.mark.models
@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.lists(st.integers(0, 70), max_size=4))
def test_the_real_decoder_gives_in_windows_what_it_gives_whole(
    data: st.DataObject, cuts: list[int]
) -> None:
    frames = latents("Of course, yes.")[:, :70]
    held, got = frames[:, :0], [np.empty(0, np.float32)]
    windows = Windows(decoder().voice.context_frames)
    pieces = np.split(frames, sorted(cuts), axis=1)
    for number, piece in enumerate(pieces, 1):
        held = np.concatenate([held, piece], axis=1)
        windows.add(piece.shape[1], last=number == len(pieces))
        while windows.have:
            window = windows.take(data.draw(st.integers(min(6, windows.have), windows.have)))
            got.append(decoder().decode(held[:, : window.stop], window.left, window.right))
            held = held[:, window.keep :]
    np.testing.assert_allclose(np.concatenate(got), decoder().decode(frames, 0, 0), atol=1e-4)


@pytest.mark.models
def test_a_stream_is_its_clauses_decoded_whole_and_resampled() -> None:
    clauses = [latents("Of course, yes."), latents("The sky is")]
    # The first comes in parts; and the last part of the stream never says that it is the last.
    parts = [
        Latents(clauses[0][:, :7], last=False),
        Latents(clauses[0][:, 7:], last=True),
        Latents(clauses[1], last=False),
    ]
    resampler = FloatStreamResampler(RATE, OUTPUT_RATE)
    wholes = [resampler.feed(decoder().decode(frames, 0, 0)) for frames in clauses]
    want = np.concatenate([*wholes, resampler.flush()])

    async def check(stage: Code2wavStage) -> None:
        items, end = await decode(stage, *parts)
        assert end == End(EndReason.COMPLETED)
        assert {item.rate for item in items if isinstance(item, PcmChunk)} == {OUTPUT_RATE}
        made = audio(items)
        assert len(made) == pytest.approx(len(want), abs=1)
        certain, fading = faded(np.clip(want, -1, 1), OUTPUT_RATE)
        # A resampler looks ahead: what fades is felt a little before.
        sure = len(certain) - fading
        np.testing.assert_allclose(made[:sure], certain[:sure], atol=3e-4)
        assert stage.statistics()["audio_seconds"] == pytest.approx(len(want) / OUTPUT_RATE)

    with_stage(check)


@pytest.mark.models
def test_the_real_decoder_is_measured_when_it_is_loaded() -> None:
    async def check(stage: Code2wavStage) -> None:
        told = stage.statistics()
        assert told["decode_fixed_ms"] > 0
        assert told["decode_frame_ms"] > 0
        assert told["batch"] in (1, 4)

    with_stage(check)


def test_the_fixed_rule_goes_up_its_ladder_over_all_clauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check(stage: Code2wavStage) -> None:
        items, _ = await decode(stage, Latents(noise(24)), Latents(noise(24)))
        # In frames: 8, 16 | 24, less the fade held back at the ends of clauses.
        hold = FADE_MS / FRAME_MS
        wanted = [8, 16 - hold, 24 - hold + hold, hold]
        assert lengths(items) == pytest.approx([10 * each for each in wanted])
        told = stage.statistics()
        assert [told[f"chunks_of_{size}"] for size in (8, 16, 32)] == [1, 1, 1]
        assert told["chunks"] == 3
        assert told["audio_seconds"] == pytest.approx(0.48)

    config = Code2wavConfig(rule="fixed", ladder=(8, 16, 32))
    with_played(check, PlayedDecoder(), monkeypatch, config)


def test_chunks_grow_as_the_listener_gets_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(stage: Code2wavStage) -> None:
        items, _ = await decode(stage, Latents(noise(300)), flow=Flow())
        sizes = [len(frames[0, 0]) for frames in played.runs]
        # Of 4 frames and its context to the right, up to 48 and both.
        assert sizes[0] <= 8 + REACH
        assert max(sizes) == 48 + 2 * REACH
        assert sizes[:3] == sorted(sizes[:3])
        assert sum(lengths(items)) == pytest.approx(3000)

    played = PlayedDecoder(fixed_ms=5, frame_ms=1)
    with_played(check, played, monkeypatch)


def test_without_a_flow_chunks_are_as_large_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(stage: Code2wavStage) -> None:
        await decode(stage, Latents(noise(30), last=False), Latents(noise(30)))
        assert [len(frames[0, 0]) for frames in played.runs] == [48 + REACH, 12 + REACH]

    played = PlayedDecoder()
    with_played(check, played, monkeypatch)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 70), st.booleans()), min_size=1, max_size=8))
def test_a_paced_stream_is_exact_and_its_end_fades(
    monkeypatch: pytest.MonkeyPatch, parts: list[tuple[int, bool]]
) -> None:
    frames = noise(sum(count for count, _ in parts))
    ends = np.cumsum([count for count, _ in parts])
    clauses = np.split(frames, [end for end, (_, last) in zip(ends, parts, strict=True) if last], 1)
    want = np.concatenate([wave(clause[0]) for clause in clauses if clause.size])

    async def check(stage: Code2wavStage) -> None:
        split = zip(np.split(frames, ends[:-1], axis=1), parts, strict=True)
        chunks = [Latents(piece, last=last) for piece, (_, last) in split]
        items, end = await decode(stage, *chunks, flow=Flow())
        assert end == End(EndReason.COMPLETED)
        made = audio(items)
        assert len(made) == len(want)
        certain, fading = faded(want, OUTPUT_RATE)
        if parts[-1][0] * FRAME_MS >= 2 * FADE_MS:
            np.testing.assert_allclose(made[: len(certain)], certain, atol=1e-4)
            assert np.all(np.abs(made[-fading:]) <= np.abs(want[-fading:]) + 1e-4)
        assert abs(made[-1]) <= 1e-3

    with_played(check, PlayedDecoder(), monkeypatch)


def test_words_are_told_ahead_of_their_audio_in_times_of_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Latents(noise(40), words=(Word("one", 10.0, 200.0),))
    second = Latents(noise(40), words=(Word("two", 10.0, 200.0),))

    async def check(stage: Code2wavStage) -> None:
        items, _ = await decode(stage, first, second)
        heard_ms = 0.0
        told: list[Word] = []
        for item in items:
            if isinstance(item, PcmChunk):
                heard_ms += len(item.pcm) / BYTES_PER_MS
            else:
                told += item.words
                assert all(word.start_ms >= heard_ms for word in item.words)
        assert [word.start_ms for word in told] == pytest.approx([10, 410])
        assert [word.end_ms for word in told] == pytest.approx([200, 600])

    with_played(check, PlayedDecoder(), monkeypatch)


def test_no_latents_make_no_audio(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(stage: Code2wavStage) -> None:
        assert await decode(stage) == ([], End(EndReason.COMPLETED))
        assert await decode(stage, flow=Flow()) == ([], End(EndReason.COMPLETED))

    with_played(check, PlayedDecoder(), monkeypatch)


def test_streams_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(stage: Code2wavStage) -> None:
        chunks = [Latents(noise(50)), Latents(noise(70))]
        alone = [audio((await decode(stage, chunk))[0]) for chunk in chunks]
        together = await asyncio.gather(*(decode(stage, chunk) for chunk in chunks))
        for (items, _), want in zip(together, alone, strict=True):
            np.testing.assert_array_equal(audio(items), want)

    with_played(check, PlayedDecoder(), monkeypatch)


def test_no_more_is_made_than_the_lead_and_a_chunk_until_some_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lead_ms, chunk_ms = 1000, 48 * FRAME_MS

    async def check(stage: Code2wavStage) -> None:
        flow = Flow(Pacing(lead_ms=lead_ms))
        stream = stage.open(DecodeRequest(request_id="r", flow=flow))
        await stream.send(Latents(noise(500)))
        await stream.end()
        made_ms = 0.0
        told = 0.0
        async for item in stream:
            if isinstance(item, PcmChunk):
                made_ms += len(item.pcm) / BYTES_PER_MS
                # The listener stands still, wherever it is.
                flow.played(told, told)
                assert made_ms <= told + lead_ms + chunk_ms
                if made_ms >= told + lead_ms:
                    await asyncio.sleep(60)
                    assert flow.listener.made_ms == pytest.approx(made_ms)
                    told += 700
                    flow.played(told, told)
        assert made_ms == pytest.approx(5000)
        assert told > 2000

    with_played(check, PlayedDecoder(), monkeypatch)


def test_whoever_runs_dry_first_is_served_first(monkeypatch: pytest.MonkeyPatch) -> None:
    played = PlayedDecoder()
    shelf = played.use(monkeypatch)

    async def main() -> None:
        now = asyncio.get_running_loop().time
        config = Code2wavConfig(concurrency=1)
        stage = Code2wavStage(config, MODEL, Path(), shelf=shelf, clock=now)
        await stage.start()
        played.open.clear()
        # Told apart by their value; the first job holds the thread until all others wait.
        waits = {1.0: 300, 2.0: 900, 3.0: 100, 4.0: 600}
        tasks: list[asyncio.Task[object]] = []
        for value, first_ms in waits.items():
            flow = Flow(Pacing(first_audio_ms=first_ms))
            frames = np.full((1, 8), value / 100, np.float32)
            tasks.append(asyncio.create_task(decode(stage, Latents(frames), flow=flow)))
            async with asyncio.timeout(PATIENCE):
                await until(lambda: stage.statistics()["jobs"] >= len(tasks))
                if len(tasks) == 1:
                    await asyncio.to_thread(played.entered.wait, PATIENCE)
        played.open.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*tasks)
        order = list(dict.fromkeys(round(float(run[0, 0, 0]) * 100) for run in played.runs))
        assert order == [1, 3, 4, 2]
        await stage.close()

    asyncio.run(main())


@pytest.mark.parametrize(("pays", "batches"), [(True, [1, 3]), (False, [1, 1, 1, 1])])
def test_chunks_of_equal_size_are_decoded_at_once_where_that_pays(
    monkeypatch: pytest.MonkeyPatch, pays: bool, batches: list[int]
) -> None:
    played = PlayedDecoder(pays=pays)
    shelf = played.use(monkeypatch)

    async def main() -> None:
        now = asyncio.get_running_loop().time
        config = Code2wavConfig(concurrency=1)
        stage = Code2wavStage(config, MODEL, Path(), shelf=shelf, clock=now)
        await stage.start()
        assert stage.statistics()["batch"] == (4 if pays else 1)
        played.open.clear()
        chunks = [Latents(noise(count, 0.05)) for count in (8, 9, 9, 9)]
        tasks = [asyncio.create_task(decode(stage, chunks[0]))]
        async with asyncio.timeout(PATIENCE):
            await asyncio.to_thread(played.entered.wait, PATIENCE)
            tasks += [asyncio.create_task(decode(stage, chunk)) for chunk in chunks[1:]]
            await until(lambda: stage.statistics()["jobs"] >= 4)
            played.open.set()
            done = await asyncio.gather(*tasks)
        assert [len(run) for run in played.runs] == batches
        for (items, _), chunk in zip(done, chunks, strict=True):
            certain, _ = faded(wave(chunk.frames[0]), OUTPUT_RATE)
            np.testing.assert_allclose(audio(items)[: len(certain)], certain, atol=1e-4)
        await stage.close()

    asyncio.run(main())


@pytest.mark.parametrize("concurrency", [1, 2])
def test_so_many_streams_are_decoded_at_once(
    monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    played = PlayedDecoder()
    shelf = played.use(monkeypatch)

    async def main() -> None:
        now = asyncio.get_running_loop().time
        config = Code2wavConfig(concurrency=concurrency)
        stage = Code2wavStage(config, MODEL, Path(), shelf=shelf, clock=now)
        await stage.start()
        played.open.clear()
        tasks = [asyncio.create_task(decode(stage, Latents(noise(9)))) for _ in range(3)]
        async with asyncio.timeout(PATIENCE):
            await until(lambda: stage.statistics()["jobs"] >= 3)
            await until(lambda: played.at_work >= concurrency)
            assert played.at_work == concurrency
            played.open.set()
            await asyncio.gather(*tasks)
        await stage.close()

    asyncio.run(main())


@pytest.mark.parametrize(("paced", "at_once"), [(True, 1), (False, 2)])
def test_speech_for_nobody_takes_every_thread_that_has_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch, paced: bool, at_once: int
) -> None:
    played = PlayedDecoder()
    shelf = played.use(monkeypatch)

    async def main() -> None:
        now = asyncio.get_running_loop().time
        config = Code2wavConfig(rule="fixed", ladder=(8,))
        stage = Code2wavStage(config, MODEL, Path(), shelf=shelf, clock=now)
        await stage.start()
        flow = Flow(paced=paced)
        stream = stage.open(DecodeRequest(request_id="r", flow=flow))
        frames = noise(40)
        await stream.send(Latents(frames, last=True))
        await stream.end()
        made = aiter(stream)
        async with asyncio.timeout(PATIENCE):
            pcm = b""
            while not pcm:
                item = await anext(made)
                pcm = item.pcm if isinstance(item, PcmChunk) else b""
            played.open.clear()
            await until(lambda: played.at_work == at_once)
            played.open.set()
            async for item in made:
                pcm += item.pcm if isinstance(item, PcmChunk) else b""
        certain, _ = faded(wave(frames[0]), OUTPUT_RATE)
        heard = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
        np.testing.assert_allclose(heard[: len(certain)], certain, atol=1e-4)
        await stage.close()

    asyncio.run(main())


def test_pace_and_costs_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(stage: Code2wavStage) -> None:
        flow = Flow()
        stream = stage.open(DecodeRequest(request_id="r", flow=flow))

        async def feed() -> None:
            for index in range(40):
                await stream.send(Latents(noise(1), last=False))
                await asyncio.sleep(0.005)
                if index == 20:
                    # Held back for a second: nothing to learn from.
                    await asyncio.sleep(1)
                    await stream.send(Latents(noise(1), last=False, held_ms=1000))
                    await asyncio.sleep(0.005)
            await stream.end()

        feeding = asyncio.create_task(feed())
        async for _ in stream:
            pass
        await feeding
        told = stage.statistics()
        assert told["pace_ms"] == pytest.approx(5)
        assert told["samples"] >= 2
        assert told["underruns"] >= 1
        assert told["underrun_ms"] > 0

    with_played(check, PlayedDecoder(), monkeypatch)


def test_without_its_model_the_stage_does_not_start(tmp_path: Path) -> None:
    async def main() -> None:
        stage = Code2wavStage(Code2wavConfig(), MODEL, tmp_path)
        with pytest.raises(StageFailure, match="antiphon models fetch piper-joe"):
            await stage.start()
        with pytest.raises(StageClosed):
            stage.open(DecodeRequest(request_id="r"))
        await stage.close()

    asyncio.run(main())
