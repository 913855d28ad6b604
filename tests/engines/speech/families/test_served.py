"""The real thing: tiny models of every family on stock vLLM, and the sound of what they say.

One engine for each architecture; of a family's tokens the sound, made while they come, is that
which the codec itself makes of all of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch
from tests.support.decoders import difference

from antiphon.codecs.pcm import to_float
from antiphon.codecs.resample import FloatStreamResampler
from antiphon.engines.catalog import default_cache_root
from antiphon.engines.chunks import (
    Clause,
    End,
    EndReason,
    Latents,
    PcmChunk,
    Samples,
    SpokenWords,
    Word,
)
from antiphon.engines.deployment import Code2wavConfig
from antiphon.engines.pipeline import OUTPUT_RATE
from antiphon.engines.speech.code2wav import DecodeRequest
from antiphon.engines.speech.decoders.decoder import Codes, Decoder, DecoderOptions, DecoderState
from antiphon.engines.speech.decoders.soprano import SopranoRunner
from antiphon.engines.speech.decoders.windowed import WindowedDecoder
from antiphon.engines.speech.families.binding import bind
from antiphon.engines.speech.families.family import Prompt, Reader, family
from antiphon.engines.speech.talker import TalkRequest
from antiphon.engines.speech.tokens.codec import Codec
from antiphon.engines.speech.tokens.config import TokenModelConfig
from antiphon.engines.speech.tokens.engine import TokenEngine, TokenPiece, TokenRequest
from antiphon.engines.speech.tokens.layout import Layout
from antiphon.engines.speech.tokens.references import ReferenceStore
from antiphon.engines.speech.tokens.sound import CodecSoundStage
from antiphon.engines.speech.tokens.splitter import Splitter
from antiphon.engines.speech.tokens.talker import CodecTalkerParts, CodecTalkerStage
from antiphon.engines.speech.tokens.vllm_tokens import load_tokens
from antiphon.engines.speech.tokens.vocabulary import load_vocabulary

from . import tiny

T = TypeVar("T")
# Starting vLLM is 10 s on two idle cores, and the whole of it counts for the first test.
pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]

SPOKEN_BY = {
    "llama": ("orpheus", "neutts", "llasa"),
    "qwen3": ("outetts", "soprano"),
    "lfm2": ("kani",),
}
MODELS = {"llama": tiny.llama, "qwen3": tiny.qwen3, "lfm2": tiny.lfm2}


class Lab:
    """An engine of one tiny model, and the loop it lives in."""

    def __init__(self, runner: asyncio.Runner, model: str, folder: Path) -> None:
        self._runner = runner
        self.families = SPOKEN_BY[model]
        MODELS[model](folder)
        self.spoken = tiny.codecs(self.families, folder)
        vocabulary = load_vocabulary(folder)
        self.readers = {name: bind(family(name), vocabulary) for name in self.families}
        config = TokenModelConfig(model=str(folder), kv_cache_mib=64)
        architectures = family(self.families[0]).architectures
        self.engine = self.run(
            lambda: asyncio.to_thread(
                load_tokens,
                config,
                architectures,
                512,
                folder,
                default_cache_root(os.environ) / ".vllm",
            )
        )

    def run(self, scenario: Callable[[], Awaitable[T]]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(240):
                return await scenario()

        return self._runner.run(bounded())


@pytest.fixture(scope="module", params=MODELS)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp(request.param) / "model"
    folder.mkdir()
    with asyncio.Runner() as runner:
        made = Lab(runner, request.param, folder)
        yield made
        made.run(made.engine.close)


@dataclass
class Said:
    """What came of one request."""

    prompt: Prompt
    tokens: list[int] = field(default_factory=list[int])
    finish: str | None = None
    pieces: list[Samples] = field(default_factory=list[Samples])
    words: list[Word] = field(default_factory=list[Word])
    dropped: int = 0

    @property
    def sound(self) -> Samples:
        return np.concatenate(self.pieces)


def opened(decoder: Decoder, lead: Codes | None) -> DecoderState:
    if isinstance(decoder, SopranoRunner | WindowedDecoder):
        return decoder.open(lead=lead)
    return decoder.open()


def request_of(name: str, reader: Reader, prompt: Prompt) -> TokenRequest:
    known = family(name)
    return TokenRequest(
        request_id=name,
        tokens=prompt.tokens,
        max_tokens=400,
        stop=reader.stop,
        sampling=known.sampling,
        seed=5,
        grammar=reader.layout,
        markup=known.markup,
    )


async def say(lab: Lab, name: str) -> Said:
    """Have a family speak: every piece is decoded as it comes."""
    reader, spoken = lab.readers[name], lab.spoken[name]
    decoder = spoken.decoder
    said = Said(reader.prompt(spoken.asked))
    state, splitter = opened(decoder, said.prompt.lead), Splitter(reader.layout)
    markup = reader.markup()
    pieces = lab.engine.generate(request_of(name, reader, said.prompt))
    async with aclosing(pieces):
        async for piece in pieces:
            said.tokens += piece.tokens
            said.finish = piece.finish
            for stretch in splitter.feed(piece.tokens):
                if markup is not None:
                    said.words += markup.feed(stretch.markup, stretch.step)
                if stretch.codes.shape[1]:
                    said.pieces += decoder.push([state], [stretch.codes], [False])
    splitter.end()
    said.dropped = splitter.dropped
    rest = np.empty((reader.layout.codebooks, 0), np.int32)
    said.pieces += decoder.push([state], [rest], [True])
    return said


def codes_of(layout: Layout, tokens: list[int]) -> Codes:
    """All codes among tokens, known to be whole frames."""
    of = [t for t in tokens if any(block.code(t) is not None for block in layout.blocks)]
    frames = np.array(of, np.int32).reshape(-1, len(layout.slots))
    codes = np.zeros((layout.codebooks, len(frames), layout.steps), np.int32)
    for slot, block, column in zip(layout.slots, layout.blocks, frames.T, strict=True):
        values = (column - block.base)[:, None]
        codes[slot.codebook, :, slot.first : slot.first + slot.steps] = values
    return codes.reshape(layout.codebooks, -1)


def whole(decoder: Decoder, codes: Codes, lead: Codes | None) -> Samples:
    """The codec's own decode of all of it; of one in windows, all of it at once."""
    if isinstance(decoder, SopranoRunner):
        return decoder.decode(codes, lead=lead)
    if decoder.card.mode == "exact":
        return decoder.decode(codes)
    return decoder.push([opened(decoder, lead)], [codes], [True])[0]


def test_tokens_become_the_sound_that_the_codec_makes_of_them(lab: Lab) -> None:
    async def all_at_once() -> list[Said]:
        return await asyncio.gather(*(say(lab, name) for name in lab.families))

    for name, said in zip(lab.families, lab.run(all_at_once), strict=True):
        layout, spoken = lab.readers[name].layout, lab.spoken[name]
        codes = codes_of(layout, said.tokens)
        assert said.finish == "stop", name
        assert said.dropped == 0, name
        assert codes.shape[1] >= 3, name
        expected = whole(spoken.decoder, codes, said.prompt.lead)
        assert difference(said.sound, expected) < spoken.within, name
        assert float(np.std(expected)) > 0.005, name
        assert lab.engine.unfinished == 0
        if name == "outetts":
            check_words(said.words, codes)


class Lent:
    """The lab's engine for a stage that will close it; what it said is noted."""

    def __init__(self, engine: TokenEngine) -> None:
        self._engine = engine
        self.said: dict[str, list[int]] = {}
        self.sentinel, self._other_end = os.pipe()

    @property
    def unfinished(self) -> int:
        return self._engine.unfinished

    async def generate(self, request: TokenRequest) -> AsyncGenerator[TokenPiece, None]:
        tokens = self.said.setdefault(request.request_id, [])
        async with aclosing(self._engine.generate(request)) as pieces:
            async for piece in pieces:
                tokens += piece.tokens
                yield piece

    async def close(self) -> None:
        os.close(self.sentinel)
        os.close(self._other_end)


def stages_of(lab: Lab, name: str, lent: Lent) -> tuple[CodecTalkerStage, CodecSoundStage]:
    known, spoken = family(name), lab.spoken[name]
    codec = Codec(known.codec, Path, DecoderOptions(), load=lambda: spoken.decoder)
    parts = CodecTalkerParts(
        family=known,
        sampling=known.sampling,
        context_tokens=lambda: 512,
        max_requests=4,
        language="en",
        seed=5,
        grammar=True,
        references=ReferenceStore(known, None, codec.load_encoder),
        bind=lambda: lab.readers[name],
        launch=lambda: lent,
        card=codec.card,
    )
    return CodecTalkerStage(parts), CodecSoundStage(Code2wavConfig(), codec)


async def read_aloud(
    talker: CodecTalkerStage, sound: CodecSoundStage, text: str
) -> tuple[bytes, list[Word], EndReason]:
    """What a listener hears, at the rate of the output, and the words told with it."""
    talk = talker.open(TalkRequest(request_id="r"))
    decode = sound.open(DecodeRequest(request_id="r"))

    async def feed() -> None:
        await talk.send(Clause(text))
        await talk.end()
        async for item in talk:
            if isinstance(item, Latents):
                await decode.send(item)
        await decode.end()

    feeding = asyncio.create_task(feed())
    items = [item async for item in decode]
    await feeding
    pcm = b"".join(item.pcm for item in items if isinstance(item, PcmChunk))
    words = [word for item in items if isinstance(item, SpokenWords) for word in item.words]
    end = items[-1]
    assert isinstance(end, End)
    return pcm, words, end.reason


def test_the_stages_say_what_the_codec_makes_of_the_tokens(lab: Lab) -> None:
    name = lab.families[0]
    decoder, layout = lab.spoken[name].decoder, lab.readers[name].layout
    lent = Lent(lab.engine)

    async def scenario() -> tuple[bytes, list[Word], EndReason]:
        talker, sound = stages_of(lab, name, lent)
        await asyncio.gather(talker.start(), sound.start())
        lent.said.clear()
        try:
            return await read_aloud(talker, sound, "Hello there.")
        finally:
            await talker.close()
            await sound.close()

    pcm, words, reason = lab.run(scenario)
    assert reason is EndReason.COMPLETED
    (tokens,) = lent.said.values()
    codes = codes_of(layout, tokens)
    resampler = FloatStreamResampler(decoder.card.sample_rate, OUTPUT_RATE)
    whole_sound = decoder.decode(codes).astype(np.float32)
    expected = np.concatenate([resampler.feed(whole_sound), resampler.flush()])
    heard = to_float(pcm)
    seconds = codes.shape[1] * decoder.card.step_ms / 1000
    assert heard.size / OUTPUT_RATE == pytest.approx(seconds, abs=0.001)
    # Both ends are faded, where they are loud.
    inner = slice(EDGE, expected.size - EDGE)
    assert float(np.abs(heard[inner] - expected[inner]).max()) < 1e-3
    assert words


EDGE = OUTPUT_RATE // 50


def check_words(words: list[Word], codes: Codes) -> None:
    """One after the other, each where codes are."""
    starts = [word.start_ms for word in words]
    assert starts
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert starts[-1] < codes.shape[1] * 1000 / 75
    assert all(set(word.text) <= set("abcdefgh") for word in words)
