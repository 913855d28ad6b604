"""Text to speech as it comes: order, pauses, pace, cancelling, failing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.loop import run_simulated

from antiphon.engines.chunks import Clause, End, EndReason, PcmChunk, SpokenWords
from antiphon.engines.deployment import Pacing
from antiphon.engines.pipeline import OUTPUT_RATE, SpeakRequest, Speech
from antiphon.engines.pipelines.cascade import CascadePipeline
from antiphon.engines.pipelines.gate import RETRY_MS
from antiphon.engines.pipelines.speech import PAUSE_MS, Mark, Script
from antiphon.engines.speech.talker import TalkRequest
from antiphon.engines.stage import StageFailure
from antiphon.engines.streams import INPUT_BOUND

from .paced import WORD_MS, Ear, Rig
from .played import BROKEN, Play, PlayedTalker

T = TypeVar("T")
Chunks = list[SpokenWords | PcmChunk | End]

SENTENCE = "The light takes a longer way in the evening."
SENTENCE_MS = WORD_MS * len(SENTENCE.split())
MINUTE = " ".join([SENTENCE] * 22)
MINUTE_MS = WORD_MS * len(MINUTE.split())
LEAD_MS = Pacing().lead_ms
PAUSE_SAMPLES = PAUSE_MS * OUTPUT_RATE // 1000


async def nothing_is_left(pipeline: CascadePipeline) -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    numbers = pipeline.statistics()
    assert not any(each["running"] for each in numbers.values() if "running" in each)
    assert (numbers["reply"]["spoken"], numbers["reply"]["waiting"]) == (0, 0)


def run(play: Play, scenario: Callable[[CascadePipeline], Awaitable[T]]) -> T:
    """Run with a started pipeline; afterwards no task and no stream may be left."""

    async def started() -> T:
        pipeline = CascadePipeline.from_stages(play.stages(), model="played")
        await pipeline.start()
        async with asyncio.timeout(10):
            result = await scenario(pipeline)
            await nothing_is_left(pipeline)
        await pipeline.close()
        return result

    return asyncio.run(started())


def run_paced(scenario: Callable[[Rig], Awaitable[T]], **rig: float) -> T:
    """The same of stages that take simulated time."""

    async def main() -> T:
        it = Rig((MINUTE,), **rig)  # type: ignore[arg-type]
        await it.pipeline.start()
        async with asyncio.timeout(3600):
            result = await scenario(it)
            await nothing_is_left(it.pipeline)
        await it.pipeline.close()
        return result

    return run_simulated(main())


def ask(*, speed: float = 1.0, paced: bool = False) -> SpeakRequest:
    return SpeakRequest(request_id="s", speed=speed, paced=paced)


async def said(
    pipeline: CascadePipeline, *pieces: str, request: SpeakRequest | None = None
) -> Chunks:
    speech = pipeline.speak(request or ask())
    for piece in pieces:
        await speech.send(piece)
    await speech.end()
    return [item async for item in speech]


def say(*pieces: str, play: Play | None = None, speed: float = 1.0) -> Chunks:
    return run(play or Play(), lambda pipeline: said(pipeline, *pieces, request=ask(speed=speed)))


def samples(chunks: Chunks) -> list[int]:
    return [len(chunk.pcm) // 2 for chunk in chunks if isinstance(chunk, PcmChunk)]


def times(chunks: Chunks) -> list[tuple[str, float]]:
    spoken = [chunk for chunk in chunks if isinstance(chunk, SpokenWords)]
    return [(word.text, word.start_ms) for each in spoken for word in each.words]


# What is said.


@pytest.mark.parametrize(
    "pieces", [("Hello there. How are you?",), tuple("Hello there. How are you?")]
)
def test_the_text_is_spoken_in_clauses_words_ahead_of_their_audio(pieces: Sequence[str]) -> None:
    play = Play()
    chunks = say(*pieces, play=play)
    assert play.clauses == ["Hello there. ", "How are you?"]
    assert [type(chunk) for chunk in chunks] == [*[SpokenWords, PcmChunk] * 2, End]
    assert chunks[-1] == End(EndReason.COMPLETED)
    assert samples(chunks) == [len(clause) for clause in play.clauses]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_figures_and_markup_are_spoken_as_they_are_read_aloud(size: int) -> None:
    play = Play()
    text = "**Dr. Smith** paid $3.50 at 10:30."
    say(*(text[at : at + size] for at in range(0, len(text), size)), play=play)
    spoken = "".join(play.clauses)
    assert not any(mark in spoken for mark in "*$:")
    assert "3 dollars" in spoken


def test_the_voice_and_the_speed_are_the_talkers() -> None:
    play = Play()
    request = SpeakRequest(request_id="s", voice="second", speed=1.5)
    run(play, lambda pipeline: said(pipeline, "Hello.", request=request))
    (asked,) = play.asked
    assert asked == TalkRequest(request_id="s", voice="second", speed=1.5)


def test_audio_leaves_while_the_text_is_being_written() -> None:
    async def scenario(pipeline: CascadePipeline) -> EndReason:
        speech = pipeline.speak(ask())
        await speech.send("Hello there. ")
        async for item in speech:
            if isinstance(item, PcmChunk):
                await speech.send("How are you?")
                await speech.end()
            elif isinstance(item, End):
                return item.reason
        raise AssertionError

    assert run(Play(), scenario) is EndReason.COMPLETED


@pytest.mark.parametrize("text", ["", "   \n\n  ", "... !", "\n\n\n\n"])
def test_a_text_without_a_word_is_no_audio(text: str) -> None:
    assert say(text) == [End(EndReason.COMPLETED)]


def test_text_longer_than_all_bounds_is_spoken_whole() -> None:
    play = Play()
    text = "Some words of it, and more. " * 2000
    say(text, play=play)
    assert "".join(play.clauses) == text


# Pauses.


@pytest.mark.parametrize("between", ["\n\n", " \n \n\n ", "\r\n\r\n"])
def test_silence_comes_between_paragraphs_and_words_are_as_much_later(between: str) -> None:
    play = Play()
    chunks = say("Hello there." + between + "How are you?\n\n", play=play)
    first, second = play.clauses
    assert (first.strip(), second.strip()) == ("Hello there.", "How are you?")
    assert samples(chunks) == [len(first), PAUSE_SAMPLES, len(second)]
    (_, begins), (_, later) = times(chunks)
    before_ms = len(first) / OUTPUT_RATE * 1000
    assert begins == 0
    assert later == pytest.approx(before_ms + PAUSE_MS)
    pause = [chunk for chunk in chunks if isinstance(chunk, PcmChunk)][1]
    assert not any(pause.pcm)


def test_the_pause_is_as_fast_as_the_voice() -> None:
    assert samples(say("Hello there.\n\nGood bye.", speed=2.0))[1] == PAUSE_SAMPLES // 2


def test_there_is_no_pause_ahead_of_the_text_behind_it_or_for_a_single_line_end() -> None:
    assert PAUSE_SAMPLES not in samples(say("\n\nHello there.\nHow are you?\n\n\n"))


def test_many_paragraphs_are_spoken_in_order() -> None:
    play = Play()
    chunks = say("\n\n".join(f"Number {n} is here." for n in range(40)), play=play)
    assert samples(chunks).count(PAUSE_SAMPLES) == 39
    assert [at for _, at in times(chunks)] == sorted(at for _, at in times(chunks))


@given(st.lists(st.sampled_from(["One two. ", "three", "\n", " ", "\n\n", "four, ", "5."])))
def test_where_the_pieces_end_makes_no_difference(pieces: list[str]) -> None:
    def cut(pieces: Sequence[str]) -> list[Clause | Mark]:
        script = Script()
        return [each for piece in pieces for each in script.feed(piece)] + script.flush()

    text = "".join(pieces)
    assert cut(pieces) == cut([text]) == cut(list(text))


class JapaneseTalker(PlayedTalker):
    def language(self, voice: str | None) -> str:
        return {"first": "en", "second": "ja"}[voice or "first"]


@pytest.mark.parametrize(
    ("voice", "read"), [(None, "2 kilometers"), ("second", "2 km")], ids=["en", "ja"]
)
def test_text_is_read_in_the_language_of_the_voice(voice: str | None, read: str) -> None:
    play = Play()
    pipeline = CascadePipeline.from_stages(play.stages(talker=JapaneseTalker), model="m")

    async def scenario() -> None:
        await pipeline.start()
        speech = pipeline.speak(SpeakRequest(request_id="r", voice=voice))
        await speech.send("It is 2 km. ")
        await speech.end()
        async for _ in speech:
            pass
        await pipeline.close()

    run_simulated(scenario())
    assert "".join(play.clauses).strip() == f"It is {read}."


# Pace.


async def heard(speech: Speech, *pieces: str) -> tuple[float, float]:
    """How much audio came, ms, and in how many seconds."""
    now = asyncio.get_running_loop().time
    began = now()
    for piece in pieces:
        await speech.send(piece)
    await speech.end()
    ms = 0.0
    async for item in speech:
        if isinstance(item, PcmChunk):
            ms += 1000 * len(item.pcm) / 2 / item.rate
        elif isinstance(item, End):
            assert item.reason is EndReason.COMPLETED
    return ms, now() - began


def test_what_nobody_listens_to_is_made_as_fast_as_it_is_taken() -> None:
    async def scenario(rig: Rig) -> tuple[float, float]:
        return await heard(rig.pipeline.speak(ask()), MINUTE)

    ms, seconds = run_paced(scenario)
    assert ms == MINUTE_MS
    # A hundred ms cost ten.
    assert seconds < 0.2 * ms / 1000


def test_what_is_paced_is_no_more_than_the_lead_ahead_of_the_ear() -> None:
    async def scenario(rig: Rig) -> tuple[float, float]:
        return await heard(rig.pipeline.speak(ask(paced=True)), MINUTE)

    ms, seconds = run_paced(scenario)
    assert ms == MINUTE_MS
    assert seconds > (ms - LEAD_MS) / 1000 - 1


def test_what_is_not_taken_is_no_more_than_the_lead() -> None:
    async def scenario(rig: Rig) -> None:
        speech = rig.pipeline.speak(ask())
        await speech.send(MINUTE)
        await asyncio.sleep(60)
        assert LEAD_MS <= rig.made_ms <= LEAD_MS + rig.chunk_ms
        assert rig.spoken_ms <= LEAD_MS + SENTENCE_MS
        await speech.end()
        ms, _ = await heard(speech)
        assert ms == MINUTE_MS

    run_paced(scenario, chunk_ms=500)


def test_text_that_is_not_spoken_yet_makes_its_writer_wait() -> None:
    async def scenario(rig: Rig) -> None:
        speech = rig.pipeline.speak(ask())
        sent = 0

        async def write() -> None:
            nonlocal sent
            while sent < 1000:
                await speech.send(SENTENCE + " ")
                sent += 1

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(write(), 60)
        assert sent <= INPUT_BOUND + LEAD_MS / SENTENCE_MS + 10
        speech.cancel()

    run_paced(scenario)


def test_somebody_who_listens_comes_first() -> None:
    async def scenario(rig: Rig) -> float:
        speech = asyncio.create_task(heard(rig.pipeline.speak(ask()), MINUTE, MINUTE, MINUTE))
        await asyncio.sleep(0.5)
        ear = Ear(rig.reply("live"))
        await ear.listen()
        await speech
        assert ear.completed
        return ear.gap_ms

    assert run_paced(scenario, chunk_seconds=0.03) == 0


# Ends.


def test_cancelling_stops_every_stage_at_once() -> None:
    async def scenario(pipeline: CascadePipeline) -> End:
        speech = pipeline.speak(ask())
        await speech.send("Hello there. " * 100)
        last = None
        async for item in speech:
            if isinstance(item, PcmChunk):
                speech.cancel()
            last = item
        assert isinstance(last, End)
        return last

    assert run(Play(), scenario) == End(EndReason.CANCELLED)


def test_a_speech_cancelled_ahead_of_its_text_leaves_nothing() -> None:
    async def scenario(pipeline: CascadePipeline) -> None:
        pipeline.speak(ask()).cancel()
        later = pipeline.speak(ask())
        await asyncio.sleep(0)
        later.cancel()

    run(Play(), scenario)


@pytest.mark.parametrize("stage", ["talker", "code2wav"])
def test_a_failing_stage_fails_the_speech(stage: str) -> None:
    chunks = say("Hello there.\n\nHow are you?", play=Play(fails=stage))
    assert chunks == [End(EndReason.FAILED, BROKEN)]


@pytest.mark.parametrize("stage", ["talker", "code2wav"])
def test_an_unforeseen_error_is_not_told(stage: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        end = say("Hello.", play=Play(breaks=stage))[-1]
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.code == "internal_error"


def test_a_voice_that_is_not_there_is_refused() -> None:
    async def scenario(pipeline: CascadePipeline) -> None:
        with pytest.raises(StageFailure, match="first, second"):
            pipeline.speak(SpeakRequest(request_id="s", voice="third"))
        with pytest.raises(ValueError, match="speed"):
            pipeline.speak(SpeakRequest(request_id="s", speed=5.0))

    run(Play(), scenario)


def test_closing_fails_speech_under_way() -> None:
    async def scenario(pipeline: CascadePipeline) -> None:
        speech = pipeline.speak(ask())
        await speech.send("Hello there. ")
        async for item in speech:
            if isinstance(item, PcmChunk):
                await pipeline.close()
            elif isinstance(item, End):
                assert item.error is not None
                assert item.error.code == "stage_closed"

    run(Play(), scenario)


def test_too_many_at_once_are_told_when_to_try_again() -> None:
    async def scenario() -> End:
        rig = Rig((MINUTE,), pacing=Pacing(waiting=0), chunk_seconds=0.08)
        await rig.pipeline.start()
        first = asyncio.create_task(heard(rig.pipeline.speak(ask()), MINUTE))
        await asyncio.sleep(5)
        end = (await said(rig.pipeline, MINUTE))[-1]
        await first
        await nothing_is_left(rig.pipeline)
        await rig.pipeline.close()
        assert isinstance(end, End)
        return end

    end = run_simulated(scenario())
    assert end.error is not None
    assert (end.error.code, end.error.retry_after_ms) == ("overloaded", RETRY_MS)
