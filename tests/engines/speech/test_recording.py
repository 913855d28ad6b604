"""Recordings: read stretch by stretch, in their order, behind whoever speaks now."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.speech import word_errors
from tests.support.waiting import until

from antiphon.codecs.pcm import from_float
from antiphon.engines.catalog import default_cache_root
from antiphon.engines.chunks import End, EndReason, PcmChunk, Samples, Segment, Transcript
from antiphon.engines.deployment import WhisperConfig
from antiphon.engines.pipeline import RecognizeRequest, TranscribeRequest
from antiphon.engines.speech.hearing.guess import Guess
from antiphon.engines.speech.hearing.passages import Passage
from antiphon.engines.speech.hearing.reading import Guesses
from antiphon.engines.speech.readers import Readers
from antiphon.engines.speech.recognizer import WhisperStage
from antiphon.engines.speech.recording import INPUT_CHUNKS, RECORDINGS, SPARE, Recording
from antiphon.engines.speech.worker import Worker
from antiphon.engines.stage import StageClosed, StageFailure
from antiphon.engines.streams import TaskStream

RATE = 24_000
REQUEST = TranscribeRequest(request_id="r")

SENTENCES = (
    "I would like to change my flight from London to Paris, please.",
    "The recipe calls for flour, three eggs, a pinch of salt, and some cold milk.",
    "The doctor told him to drink more water and to walk every day.",
    "What time is it?",
    "She bought six apples, three oranges and a bottle of milk.",
    "In the evening the light takes a longer way, and it turns red.",
    "Turn off the light.",
)

GAPS = (0.7, 0.5, 1.2)
"""Seconds of silence after each sentence, over and over."""


@dataclass(frozen=True)
class Take:
    """A recording, and when its sentences sound."""

    samples: Samples
    spans: list[tuple[float, float]]
    """ms"""


@pytest.fixture(scope="module")
def take(request: pytest.FixtureRequest) -> Take:
    spoken: Callable[[str], Samples] = request.getfixturevalue("spoken")
    parts: list[Samples] = []
    spans: list[tuple[float, float]] = []
    at = 0
    for number, text in enumerate(SENTENCES * 2):
        speech = spoken(text)
        loud = np.flatnonzero(np.abs(speech) > 0.02)
        spans.append(((at + loud[0]) / 24, (at + loud[-1]) / 24))
        gap = np.zeros(round(GAPS[number % len(GAPS)] * RATE), np.float32)
        parts += [speech, gap]
        at += len(speech) + len(gap)
    return Take(np.concatenate(parts), spans)


def run(check: Callable[[WhisperStage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = WhisperStage(WhisperConfig(), default_cache_root(os.environ))
        await stage.start()
        try:
            await check(stage)
        finally:
            await stage.close()

    asyncio.run(main())


async def transcribe(
    stage: WhisperStage, samples: Samples, request: TranscribeRequest = REQUEST, rate: int = RATE
) -> list[Segment]:
    stream = stage.transcribe(request)
    pcm = from_float(samples)

    async def feed() -> None:
        for start in range(0, len(pcm), 2 * rate):
            await stream.send(PcmChunk(pcm[start : start + 2 * rate], rate))
        await stream.end()

    feeding = asyncio.create_task(feed())
    items = [item async for item in stream]
    await feeding
    assert items.pop() == End(EndReason.COMPLETED)
    return [item for item in items if isinstance(item, Segment)]


@pytest.mark.models
def test_a_long_recording_is_told_in_order_with_its_times(take: Take) -> None:
    async def check(stage: WhisperStage) -> None:
        wanted = TranscribeRequest(request_id="r", words=True, logprobs=True)
        segments = await transcribe(stage, take.samples, wanted)
        text = "".join(each.text for each in segments)
        wrong, count = word_errors(" ".join(SENTENCES * 2), text)
        assert wrong <= count // 20, text
        starts, ends = (np.array(each) for each in zip(*take.spans, strict=True))
        before = 0.0
        for each in segments:
            # A segment may be several sentences.
            assert np.abs(starts - each.start_ms).min() < 300
            assert np.abs(ends - each.end_ms).min() < 300
            assert each.start_ms >= before
            before = each.end_ms
            assert each.language == "en"
            assert -1 < each.mean_logprob < 0
            assert each.tokens
            assert "".join(token.token for token in each.logprobs) == each.text.strip()
            assert "".join(f" {word.text}" for word in each.words) == each.text
            times = [ms for word in each.words for ms in (word.start_ms, word.end_ms)]
            assert times == sorted(times)
            assert each.start_ms <= times[0]
            assert times[-1] <= each.end_ms
        assert len(segments) >= len(SENTENCES) * 2 - 3
        statistics = stage.statistics()
        assert statistics["recordings"] == 1
        # Where it is silent nothing is read.
        assert 30 < statistics["audio_seconds"] < len(take.samples) / RATE

    run(check)


@pytest.mark.models
def test_words_are_told_only_where_they_are_asked_for(spoken: Callable[[str], Samples]) -> None:
    async def check(stage: WhisperStage) -> None:
        (only,) = await transcribe(stage, spoken(SENTENCES[0]))
        assert (only.words, only.logprobs) == ((), ())
        assert await transcribe(stage, np.zeros(5 * RATE, np.float32)) == []
        assert await transcribe(stage, np.zeros(0, np.float32)) == []
        warm = TranscribeRequest(request_id="r", temperature=0.3, prompt="London, Paris")
        (only,) = await transcribe(stage, spoken(SENTENCES[0]), warm)
        assert "London" in only.text

    run(check)


@pytest.mark.models
def test_what_is_said_comes_before_the_recording_has_ended(take: Take) -> None:
    async def check(stage: WhisperStage) -> None:
        stream = stage.transcribe(REQUEST)
        pcm = from_float(take.samples[: 12 * RATE])
        for start in range(0, len(pcm), 2 * RATE):
            await stream.send(PcmChunk(pcm[start : start + 2 * RATE], RATE))
        items = aiter(stream)
        async with asyncio.timeout(30):
            first = await anext(items)
        assert isinstance(first, Segment)
        assert "London" in first.text
        stream.cancel()
        rest = [item async for item in items]
        assert rest[-1] == End(EndReason.CANCELLED)
        assert stage.statistics()["jobs"] <= 1

    run(check)


@pytest.mark.models
def test_live_speech_passes_recordings_and_these_take_turns(
    take: Take, spoken: Callable[[str], Samples]
) -> None:
    """The event loop waits where a stretch has been read; a live utterance is next."""
    done: list[str] = []

    async def check(stage: WhisperStage) -> None:
        async def record(name: str) -> None:
            pcm = from_float(take.samples[: 30 * RATE])
            stream = stage.transcribe(TranscribeRequest(request_id=name))
            feeding = asyncio.create_task(feed(stream, pcm))
            async for item in stream:
                told = name if isinstance(item, Segment) else f"{name} end"
                done.append(told)
            await feeding

        async def feed(stream: Any, pcm: bytes) -> None:
            await stream.send(PcmChunk(pcm, RATE))
            await stream.end()

        async def speak() -> None:
            stream = stage.open(RecognizeRequest(request_id="live"))
            await feed(stream, from_float(spoken("What time is it?")))
            transcript, _ = [item async for item in stream]
            assert isinstance(transcript, Transcript)
            done.append("live")

        tasks = [asyncio.create_task(record(name)) for name in "ab"]
        await until(lambda: bool(done))
        await speak()
        heard_live = done.index("live")
        await asyncio.gather(*tasks)
        turns = [name for n, name in enumerate(done) if n == 0 or done[n - 1] != name]
        # One stretch each, and again; the live one waited for one at most.
        assert turns.count("a") > 1
        assert turns.count("b") > 1
        assert heard_live < done.index("b end")
        assert heard_live < done.index("a end")

    run(check)


@pytest.mark.models
def test_what_can_not_be_served_is_refused_at_once(spoken: Callable[[str], Samples]) -> None:
    async def check(stage: WhisperStage) -> None:
        for request, code in (
            (TranscribeRequest(request_id="r", language="tlh"), "unsupported_language"),
            (TranscribeRequest(request_id="r", translate=True), "cannot_translate"),
        ):
            with pytest.raises(StageFailure) as failure:
                stage.transcribe(request)
            assert failure.value.error.code == code
        assert "whisper-tiny-en" in failure.value.error.message
        streams = [stage.transcribe(REQUEST) for _ in range(RECORDINGS)]
        with pytest.raises(StageFailure, match="overloaded") as failure:
            stage.transcribe(REQUEST)
        assert failure.value.error.retry_after_ms
        for stream in streams:
            stream.cancel()
            assert [item async for item in stream] == [End(EndReason.CANCELLED)]
        english = TranscribeRequest(request_id="r", language="en-US")
        assert await transcribe(stage, spoken("Turn off the light."), english)

    run(check)


def test_a_stage_that_does_not_run_takes_no_recording() -> None:
    stage = WhisperStage(WhisperConfig(), default_cache_root(os.environ))
    with pytest.raises(StageClosed):
        stage.transcribe(REQUEST)


class Model:
    """Hears a German word in everything, surely or not."""

    def __init__(self, *sure: float) -> None:
        self.sure = list(sure)
        self.languages: list[str | None] = []

    def guess(self, samples: NDArray[np.float32], **asked: Any) -> Guess:
        self.languages.append(asked["language"])
        passage = Passage(text=" Ja.", start=0.0, end=1.0)
        return Guess(
            text="Ja.",
            mean_logprob=-0.1,
            no_speech=0.0,
            language=asked["language"] or "de",
            language_probability=1.0 if asked["language"] else self.sure.pop(0),
            passages=(passage,),
        )


NOISE = from_float(np.random.default_rng(0).normal(0, 0.1, 6 * 16_000).astype(np.float32))
PART = PcmChunk(NOISE + bytes(6 * 32_000), 16_000)
"""A stretch of sound, and silence that ends it."""


@asynccontextmanager
async def opened(
    model: Guesses,
    request: TranscribeRequest = REQUEST,
    counted: dict[str, float] | None = None,
    ahead: int = 2,
) -> AsyncGenerator[TaskStream[PcmChunk, Segment]]:
    """A recording, read by as many threads as go ahead."""
    worker = Worker("test")
    readers = Readers(worker, ahead)
    await worker.start(lambda: None)
    await readers.start(lambda: None)
    try:
        recording = Recording(model, readers, request, counted or counters(), ahead)
        yield worker.open("test", recording.read, input_bound=INPUT_CHUNKS)
    finally:
        await worker.close()
        await readers.close()


async def read(
    model: Guesses,
    chunks: list[PcmChunk],
    counted: dict[str, float] | None = None,
    request: TranscribeRequest = REQUEST,
) -> list[Segment | End]:
    async with opened(model, request, counted) as stream:
        for chunk in chunks:
            await stream.send(chunk)
        await stream.end()
        return [item async for item in stream]


def counters() -> dict[str, float]:
    return dict.fromkeys(("audio_seconds", "busy_seconds", "second_tries"), 0.0)


def test_a_language_is_found_once_and_kept_when_it_is_sure() -> None:
    # A doubtful reading is read twice.
    model, counted = Model(0.5, 0.5, 0.9), counters()
    items = asyncio.run(read(model, [PART] * 4, counted))
    assert model.languages == [None, None, None, "de", "de"]
    segments = [item for item in items if isinstance(item, Segment)]
    assert [each.language for each in segments] == ["de"] * 4
    assert counted["second_tries"] == 1
    assert counted["audio_seconds"] == pytest.approx(4 * 6.3, abs=1.0)
    assert [round(each.start_ms / 12_000) for each in segments] == [0, 1, 2, 3]


def test_a_rate_that_changes_ends_the_recording() -> None:
    other = PcmChunk(bytes(480), 24_000)
    segment, end = asyncio.run(read(Model(1.0), [PART, other]))
    # What was said before it is told.
    assert isinstance(segment, Segment)
    assert isinstance(end, End)
    assert end.reason is EndReason.FAILED
    assert end.error is not None
    assert end.error.code == "invalid_audio"


class Held:
    """Says which stretch it hears, by its loudness, as soon as it is let go."""

    def __init__(self, *, fails: int | None = None) -> None:
        """``fails``: the stretch that it can't read."""
        self.began: list[int] = []
        self.gates = [threading.Event() for _ in range(12)]
        self.fails = fails

    def guess(self, samples: NDArray[np.float32], **asked: Any) -> Guess:
        number = round(20 * float(samples.max())) - 1
        self.began.append(number)
        assert self.gates[number].wait(30)
        if number == self.fails:
            raise ValueError("no")
        return Guess(
            text=f"{number}.",
            mean_logprob=-0.1,
            no_speech=0.0,
            language="en",
            language_probability=1.0,
            passages=(Passage(text=f" {number}.", start=0.0, end=1.0),),
        )

    def let_go(self, *numbers: int) -> None:
        for number in numbers:
            self.gates[number].set()


ENGLISH = replace(REQUEST, language="en")


def part(number: int) -> PcmChunk:
    """A stretch that is told from others, and silence that ends it."""
    sound = np.full(11 * 16_000, (number + 1) / 20, np.float32)
    return PcmChunk(from_float(sound) + bytes(2 * 32_000), 16_000)


async def send(stream: TaskStream[PcmChunk, Segment], parts: int) -> None:
    for number in range(parts):
        await stream.send(part(number))
    await stream.end()


def texts(items: list[Segment | End]) -> list[str]:
    return [item.text for item in items if isinstance(item, Segment)]


def test_stretches_are_read_at_once_and_told_in_their_order() -> None:
    async def main() -> None:
        model = Held()
        async with opened(model, ENGLISH) as stream, asyncio.timeout(30):
            feeding = asyncio.create_task(send(stream, 4))
            items = aiter(stream)
            await until(lambda: sorted(model.began) == [0, 1])
            model.let_go(1)
            # The one behind it is read meanwhile, but no more is cut than may lie here.
            await until(lambda: len(model.began) == 2 + SPARE)
            model.let_go(2)
            told = asyncio.ensure_future(anext(items))
            await asyncio.sleep(0)
            assert not told.done()
            model.let_go(0)
            first = await told
            assert isinstance(first, Segment)
            assert first.text == " 0."
            await until(lambda: len(model.began) == 4)
            model.let_go(3)
            rest = [item async for item in items]
            assert texts(rest) == [" 1.", " 2.", " 3."]
            assert rest[-1] == End(EndReason.COMPLETED)
            await feeding

    asyncio.run(main())


def test_what_is_said_is_told_while_the_next_has_not_come() -> None:
    async def main() -> None:
        model = Held()
        model.let_go(0)
        async with opened(model, ENGLISH) as stream, asyncio.timeout(30):
            await stream.send(part(0))
            items = aiter(stream)
            assert texts([await anext(items)]) == [" 0."]
            stream.cancel()
            assert [item async for item in items] == [End(EndReason.CANCELLED)]

    asyncio.run(main())


def test_no_more_is_taken_in_than_may_lie_here() -> None:
    async def main() -> None:
        model = Held()

        def has_begun(count: int) -> bool:
            return len(model.began) >= count

        async with opened(model, ENGLISH) as stream, asyncio.timeout(30):
            feeding = asyncio.create_task(send(stream, 12))
            await until(lambda: len(model.began) == 2)
            for number in range(12):
                # Each that is done lets one more in.
                at_once = min(12, number + 2)
                await until(partial(has_begun, at_once))
                assert len(model.began) <= at_once + SPARE
                model.let_go(number)
            assert texts([item async for item in stream]) == [f" {n}." for n in range(12)]
            await feeding

    asyncio.run(main())


def test_a_stretch_that_fails_ends_its_recording_after_what_was_said_before() -> None:
    async def main() -> None:
        model = Held(fails=1)
        model.let_go(1, 2)
        async with opened(model, ENGLISH) as stream, asyncio.timeout(30):
            feeding = asyncio.create_task(send(stream, 4))
            await until(lambda: 1 in model.began)
            model.let_go(0)
            items = [item async for item in stream]
            end = items[-1]
            assert texts(items) == [" 0."]
            assert isinstance(end, End)
            assert end.reason is EndReason.FAILED
            await feeding

    asyncio.run(main())


def test_what_waits_ends_with_a_recording_that_is_cancelled() -> None:
    async def main() -> None:
        model = Held()
        async with opened(model, ENGLISH, ahead=1) as stream, asyncio.timeout(30):
            await stream.send(part(0))
            await stream.send(part(1))
            await until(lambda: model.began == [0])
            stream.cancel()
            # At once, though a thread is still at it.
            assert [item async for item in stream] == [End(EndReason.CANCELLED)]
            model.let_go(0, 1)
        assert model.began == [0]

    asyncio.run(main())
