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

from antiphon.codecs.pcm import to_float
from antiphon.codecs.resample import FloatStreamResampler
from antiphon.engines.catalog import default_cache_root, require
from antiphon.engines.chunks import End, EndReason, Latents, PcmChunk, SpokenWords, Word
from antiphon.engines.deployment import Code2wavConfig
from antiphon.engines.pipeline import OUTPUT_RATE
from antiphon.engines.scheduling.windows import Windows
from antiphon.engines.speech.code2wav import Code2wavStage, Decoder, DecodeRequest
from antiphon.engines.speech.talker import Speaker
from antiphon.engines.stage import StageClosed, StageFailure

PATIENCE = 30
MODEL = "piper-joe"
HOP, RATE = 256, 22050


@cache
def decoder() -> Decoder:
    return Decoder(require(MODEL, default_cache_root(os.environ))[1], 1)


@cache
def latents(text: str) -> NDArray[np.float32]:
    made = Speaker(require(MODEL, default_cache_root(os.environ))[1], 1).speak(text, 1.0)
    assert made is not None
    return made.frames


def with_stage(
    check: Callable[[Code2wavStage], Awaitable[None]], ladder: tuple[int, ...] = (4, 8, 16, 32)
) -> None:
    async def main() -> None:
        root = default_cache_root(os.environ)
        stage = Code2wavStage(Code2wavConfig(ladder=ladder), MODEL, root)
        await stage.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await check(stage)
        finally:
            await stage.close()

    asyncio.run(main())


async def decode(
    stage: Code2wavStage, *chunks: Latents
) -> tuple[list[SpokenWords | PcmChunk], End]:
    stream = stage.open(DecodeRequest(request_id="r"))

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


@pytest.mark.models
@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4).map(tuple),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_the_real_decoder_gives_in_windows_what_it_gives_whole(
    ladder: tuple[int, ...], cuts: list[int]
) -> None:
    frames = latents("Of course, yes.")
    held, got = frames[:, :0], [np.empty(0, np.float32)]
    windows = Windows(ladder, decoder().voice.context_frames)
    pieces = np.split(frames, sorted(cuts), axis=1)
    for number, piece in enumerate(pieces, 1):
        held = np.concatenate([held, piece], axis=1)
        windows.add(piece.shape[1], last=number == len(pieces))
        while window := windows.next():
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
        np.testing.assert_allclose(audio(items), np.clip(want, -1, 1), atol=3e-4)
        assert stage.statistics()["audio_seconds"] == pytest.approx(len(want) / OUTPUT_RATE)

    with_stage(check)


@pytest.mark.models
def test_the_ladder_goes_on_over_clauses() -> None:
    frames = latents("The sky is")[:, :24]

    async def check(stage: Code2wavStage) -> None:
        items, _ = await decode(stage, Latents(frames), Latents(frames))
        sizes = [len(item.pcm) / 2 for item in items if isinstance(item, PcmChunk)]
        # In frames: 8, 16 | 24; the resampler's delay and its flush at the end aside.
        frame = HOP * OUTPUT_RATE / RATE
        assert [round(size / frame) for size in sizes] == [7, 16, 24, 1]

    with_stage(check, ladder=(8, 16, 32))


@pytest.mark.models
def test_words_are_told_ahead_of_their_audio_in_times_of_the_stream() -> None:
    frames = latents("The sky is")[:, :40]
    first = Latents(frames, words=(Word("one", 10.0, 200.0),))
    second = Latents(frames, words=(Word("two", 10.0, 200.0),))

    async def check(stage: Code2wavStage) -> None:
        items, _ = await decode(stage, first, second)
        heard_ms = 0.0
        told: list[Word] = []
        for item in items:
            if isinstance(item, PcmChunk):
                heard_ms += 1000 * len(item.pcm) / 2 / OUTPUT_RATE
            else:
                told += item.words
                assert all(word.start_ms >= heard_ms for word in item.words)
        clause_ms = 40 * 1000 * HOP / RATE
        assert [word.start_ms for word in told] == pytest.approx([10, 10 + clause_ms])
        assert [word.end_ms for word in told] == pytest.approx([200, 200 + clause_ms])

    with_stage(check)


@pytest.mark.models
def test_no_latents_make_no_audio() -> None:
    async def check(stage: Code2wavStage) -> None:
        assert await decode(stage) == ([], End(EndReason.COMPLETED))

    with_stage(check)


@pytest.mark.models
def test_streams_do_not_mix() -> None:
    async def check(stage: Code2wavStage) -> None:
        chunks = [Latents(latents("The sky is")), Latents(latents("Of course, yes."))]
        alone = [audio((await decode(stage, chunk))[0]) for chunk in chunks]
        together = await asyncio.gather(*(decode(stage, chunk) for chunk in chunks))
        for (items, _), want in zip(together, alone, strict=True):
            np.testing.assert_array_equal(audio(items), want)

    with_stage(check)


def test_without_its_model_the_stage_does_not_start(tmp_path: Path) -> None:
    async def main() -> None:
        stage = Code2wavStage(Code2wavConfig(), MODEL, tmp_path)
        with pytest.raises(StageFailure, match="antiphon models fetch piper-joe"):
            await stage.start()
        with pytest.raises(StageClosed):
            stage.open(DecodeRequest(request_id="r"))
        await stage.close()

    asyncio.run(main())
