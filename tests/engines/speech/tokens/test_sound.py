"""Codes to sound with a decoder that is played, on simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.codec_lm import SIZE, STEP_MS, PlayedCodec
from tests.support.loop import run_simulated
from tests.support.waiting import until

from antiphon.codecs.pcm import to_float
from antiphon.engines.chunks import End, EndReason, Latents, PcmChunk, SpokenWords, Word
from antiphon.engines.deployment import Code2wavConfig, Pacing
from antiphon.engines.flow import Flow
from antiphon.engines.pipeline import OUTPUT_RATE
from antiphon.engines.speech.code2wav import DecodeRequest
from antiphon.engines.speech.decoders.decoder import Codes, DecoderOptions
from antiphon.engines.speech.tokens.codec import Codec
from antiphon.engines.speech.tokens.edges import QUIET, Edges
from antiphon.engines.speech.tokens.sound import CodecSoundStage
from antiphon.engines.speech.tokens.stream import CodeStream, given_by, push_all
from antiphon.engines.stage import StageClosed

Check = Callable[[CodecSoundStage], Awaitable[None]]
FIXED = Code2wavConfig(rule="fixed", ladder=(1, 4, 16))


def codes(steps: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, SIZE, (2, steps)).astype(np.int32)


def in_pieces(whole: Codes, *cuts: int) -> list[Latents]:
    pieces = np.split(whole, sorted(cuts), axis=1)
    return [*(Latents(each, last=False) for each in pieces), Latents(whole[:, :0], last=True)]


def with_stage(check: Check, played: PlayedCodec, config: Code2wavConfig | None = None) -> None:
    async def main() -> None:
        codec = Codec("played", Path, DecoderOptions(), load=lambda: played)
        clock = asyncio.get_running_loop().time
        stage = CodecSoundStage(config or Code2wavConfig(), codec, clock=clock)
        with pytest.raises(StageClosed):
            stage.open(DecodeRequest(request_id="r"))
        await stage.start()
        assert await codec.card() is played.card
        played.pushes.clear()
        try:
            await check(stage)
        finally:
            await stage.close()

    run_simulated(main())


async def sound(
    stage: CodecSoundStage, *chunks: Latents, flow: Flow | None = None, name: str = "r"
) -> tuple[list[SpokenWords | PcmChunk], End]:
    stream = stage.open(DecodeRequest(request_id=name, flow=flow))

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


def faded(played: PlayedCodec, whole: Codes) -> NDArray[np.float32]:
    """What an utterance is to sound like by itself."""
    samples = Edges(192, 0).feed(played.decode(whole), last=True)
    return np.pad(samples, (0, whole.shape[1] * played.card.hop - len(samples)))


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.integers(0, 2000),
    st.data(),
)
def test_any_pushes_give_each_utterance_decoded_whole(
    lengths: list[int], lookahead: int, data: st.DataObject
) -> None:
    played = PlayedCodec(lookahead=lookahead, short=8)
    stream = CodeStream(played)
    made: list[bytes] = []

    def take_some() -> None:
        while stream.have and data.draw(st.booleans()):
            push = stream.take(data.draw(st.integers(1, stream.have)))
            made.extend(each.pcm for each in push_all(played, [push]))

    wholes = [codes(length, number) for number, length in enumerate(lengths)]
    for whole in wholes:
        for latents in in_pieces(whole, *data.draw(st.lists(st.integers(0, whole.shape[1])))):
            stream.add(latents)
            take_some()
    stream.end()
    while stream.have:
        made.extend(each.pcm for each in push_all(played, [stream.take(stream.have)]))
    assert stream.held == 0
    wanted = np.concatenate([faded(played, whole) for whole in wholes])
    np.testing.assert_allclose(to_float(b"".join([*made, stream.flush()])), wanted, atol=4e-5)


def test_the_first_sound_needs_the_lookahead_and_no_step_more() -> None:
    # As SNAC: a step of 512 samples, of which the first is certain with the tenth.
    played = PlayedCodec(lookahead=4757)
    given = given_by(played)
    hop = played.card.hop
    first = next(steps for steps in range(1, 100) if given(steps))
    assert first == 4757 // hop + 1

    async def check(stage: CodecSoundStage) -> None:
        stream = stage.open(DecodeRequest(request_id="r"))
        reading = aiter(stream)
        await stream.send(Latents(codes(first - 1), last=False))
        waiting = asyncio.ensure_future(anext(reading))
        await asyncio.sleep(1)
        assert not waiting.done()
        await stream.send(Latents(codes(1), last=False))
        item = await waiting
        assert isinstance(item, PcmChunk)
        assert len(item.pcm) == 2 * (first * hop - 4757)
        stream.cancel()

    with_stage(check, played, Code2wavConfig(rule="fixed", ladder=(1,)))


@pytest.mark.parametrize("rate", [24_000, 16_000, 32_000])
def test_a_stream_of_utterances_is_their_sound_at_the_output_rate(rate: int) -> None:
    played = PlayedCodec(sample_rate=rate, lookahead=rate // 30)

    async def check(stage: CodecSoundStage) -> None:
        chunks = [*in_pieces(codes(30), 3, 17), *in_pieces(codes(9, 1), 4)]
        items, end = await sound(stage, *chunks)
        assert end == End(EndReason.COMPLETED)
        made = audio(items)
        assert len(made) == pytest.approx(39 * STEP_MS * OUTPUT_RATE / 1000, abs=1)
        assert np.abs(made).max() > 0.01
        told = stage.statistics()
        assert told["audio_seconds"] == pytest.approx(39 * STEP_MS / 1000, abs=1e-4)
        assert told["streams"] == told["jobs"] == 0

    with_stage(check, played)


def test_words_are_told_ahead_of_their_sound_with_times_of_the_stream() -> None:
    async def check(stage: CodecSoundStage) -> None:
        first = Latents(codes(10), (Word("one", 20, 90),), last=True)
        second = Latents(codes(10), (Word("two", 40, 60),), last=True)
        items, _ = await sound(stage, first, second)
        kinds = [type(item) for item in items]
        assert kinds.index(SpokenWords) < kinds.index(PcmChunk)
        words = [word for item in items if isinstance(item, SpokenWords) for word in item.words]
        assert words == [Word("one", 20, 90), Word("two", 240, 260)]

    with_stage(check, PlayedCodec(), FIXED)


def test_the_tail_of_an_utterance_does_not_wait_for_the_next() -> None:
    # Nothing is held back by the decoder, and nothing is left to be pushed.
    async def check(stage: CodecSoundStage) -> None:
        stream = stage.open(DecodeRequest(request_id="r"))
        got = 0

        async def read() -> None:
            nonlocal got
            async for item in stream:
                got += len(item.pcm) // 2 if isinstance(item, PcmChunk) else 0

        reading = asyncio.create_task(read())
        whole = codes(16)
        await stream.send(Latents(whole, last=False))
        await asyncio.sleep(1)
        held = 16 * 480 - got
        assert 0 < held <= 240
        await stream.send(Latents(whole[:, :0], last=True))
        await until(lambda: got == 16 * 480)
        stream.cancel()
        await reading

    with_stage(check, PlayedCodec(lookahead=0), Code2wavConfig(rule="fixed", ladder=(16,)))


def test_streams_interleaved_are_the_same_as_alone_and_share_pushes() -> None:
    played = PlayedCodec()
    wholes = [codes(40 + 3 * number, number) for number in range(8)]

    async def check(stage: CodecSoundStage) -> None:
        async def alone(whole: Codes) -> NDArray[np.float32]:
            return audio((await sound(stage, *in_pieces(whole, 7, 20)))[0])

        apart = [await alone(whole) for whole in wholes]
        played.pushes.clear()
        together = await asyncio.gather(*(alone(whole) for whole in wholes))
        for one, other in zip(apart, together, strict=True):
            np.testing.assert_array_equal(one, other)

    with_stage(check, played, Code2wavConfig(rule="fixed", ladder=(4, 8), concurrency=1))


def test_pushes_of_one_size_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    played = PlayedCodec(lookahead=0)

    def pays(decoder: object, size: int, batch: int) -> bool:
        return True

    monkeypatch.setattr("antiphon.engines.speech.tokens.sound.batch_pays", pays)

    async def check(stage: CodecSoundStage) -> None:
        played.go_on.clear()
        played.entered.clear()

        def begin(number: int) -> asyncio.Task[object]:
            return asyncio.create_task(sound(stage, Latents(codes(4, number)), name=f"{number}"))

        reads = [begin(0)]
        await asyncio.to_thread(played.entered.wait)
        reads += map(begin, range(1, 4))
        # The first is at work; the others wait for it.
        await until(lambda: stage.statistics()["jobs"] == 4)
        played.go_on.set()
        await asyncio.gather(*reads)
        assert played.pushes == [(1, 4), (3, 4)]
        assert stage.statistics()["batched"] == 3

    with_stage(check, played, Code2wavConfig(rule="fixed", ladder=(4,), concurrency=1))


def test_a_stream_that_is_cancelled_leaves_nothing() -> None:
    played = PlayedCodec()

    async def check(stage: CodecSoundStage) -> None:
        stream = stage.open(DecodeRequest(request_id="r"))
        played.go_on.clear()
        played.entered.clear()
        await stream.send(Latents(codes(16), last=False))
        await asyncio.to_thread(played.entered.wait)
        stream.cancel()
        played.go_on.set()
        assert [item async for item in stream] == [End(EndReason.CANCELLED)]
        told = stage.statistics()
        assert told["streams"] == 0
        assert told["streams_cancelled"] == 1

    with_stage(check, played, FIXED)


def test_sound_is_made_up_to_the_lead_and_then_on_demand() -> None:
    async def check(stage: CodecSoundStage) -> None:
        flow = Flow(Pacing(lead_ms=400))
        stream = stage.open(DecodeRequest(request_id="r", flow=flow))
        got = 0.0

        async def read() -> None:
            nonlocal got
            async for item in stream:
                got += len(item.pcm) / 2 / 24 if isinstance(item, PcmChunk) else 0

        async def feed() -> None:
            for number in range(20):
                await stream.send(Latents(codes(10, number), last=False))
            await stream.end()

        tasks = asyncio.create_task(read()), asyncio.create_task(feed())
        await asyncio.sleep(0.02)
        flow.played(0, 0)
        await asyncio.sleep(10)
        assert 400 <= got <= 400 + 600
        flow.played(100, 1e9)
        await asyncio.gather(*tasks)
        assert got == pytest.approx(4000)

    with_stage(check, PlayedCodec())


@pytest.mark.parametrize(
    ("ladder", "wanted"), [(None, (1, 2, 5, 7, 9, 14, 19, 28)), ((3, 6), (3, 6))]
)
def test_the_ladder_suits_the_decoder(
    ladder: tuple[int, ...] | None, wanted: tuple[int, ...]
) -> None:
    async def check(stage: CodecSoundStage) -> None:
        sizes = [name for name in stage.statistics() if name.startswith("chunks_of_")]
        assert sizes == [f"chunks_of_{size}" for size in wanted]

    with_stage(check, PlayedCodec(), Code2wavConfig(ladder=ladder))


@pytest.mark.parametrize("hold", [0, 4])
def test_edges_fade_where_there_is_sound_and_only_there(hold: int) -> None:
    loud, quiet = np.full(20, 0.5, np.float32), np.full(20, QUIET / 2, np.float32)

    def fed(samples: NDArray[np.float32]) -> NDArray[np.float32]:
        edges = Edges(4, hold)
        parts = [edges.feed(each, last=False) for each in np.split(samples, [1, 3, 3, 11])]
        return np.concatenate([*parts, edges.feed(samples[:0], last=True)])

    np.testing.assert_array_equal(fed(quiet), quiet)
    made = fed(loud)
    assert list(np.diff(made[:5]) > 0) == [True] * 4
    np.testing.assert_array_equal(made[4:16], loud[4:16])
    # Where nothing was held back, it is too late.
    assert (made[-1] < 0.1) == bool(hold)
