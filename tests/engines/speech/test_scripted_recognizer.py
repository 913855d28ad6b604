import asyncio

import pytest

from antiphon.engines.chunks import End, EndReason, PcmChunk, Segment, Transcript, Word
from antiphon.engines.deployment import ScriptedRecognizerConfig
from antiphon.engines.pipeline import RecognizeRequest, TranscribeRequest
from antiphon.engines.speech.scripted_recognizer import ScriptedRecognizerStage
from antiphon.engines.stage import StageClosed

REQUEST = RecognizeRequest(request_id="r")
END = End(EndReason.COMPLETED)


async def hear(
    stage: ScriptedRecognizerStage, ms: int, request: RecognizeRequest = REQUEST
) -> list[object]:
    stream = stage.open(request)
    await stream.send(PcmChunk(bytes(48 * ms), 24_000))
    await stream.end()
    return [chunk async for chunk in stream]


def test_lines_are_heard_in_turn_over_and_over() -> None:
    async def main() -> None:
        stage = ScriptedRecognizerStage(ScriptedRecognizerConfig(lines=("One.", "Two.")))
        await stage.start()
        assert await hear(stage, 500) == [Transcript("One.", 500), END]
        assert await hear(stage, 0) == [Transcript("Two.", 0), END]
        assert await hear(stage, 20) == [Transcript("One.", 20), END]
        assert stage.statistics()["streams_completed"] == 3
        await stage.close()

    asyncio.run(main())


def test_no_lines_hear_silence() -> None:
    async def main() -> None:
        stage = ScriptedRecognizerStage(ScriptedRecognizerConfig(lines=()))
        await stage.start()
        assert await hear(stage, 20) == [Transcript("", 20), END]
        await stage.close()

    asyncio.run(main())


def test_a_cancelled_utterance_uses_up_no_line() -> None:
    async def main() -> None:
        config = ScriptedRecognizerConfig(lines=("One.", "Two."), delay_ms=1)
        stage = ScriptedRecognizerStage(config)
        await stage.start()
        stream = stage.open(REQUEST)
        stream.cancel()
        assert [chunk async for chunk in stream] == [End(EndReason.CANCELLED)]
        assert await hear(stage, 20) == [Transcript("One.", 20), END]
        await stage.close()

    asyncio.run(main())


def test_a_closed_stage_ends_what_is_open_and_opens_nothing() -> None:
    async def main() -> None:
        stage = ScriptedRecognizerStage(ScriptedRecognizerConfig())
        with pytest.raises(StageClosed):
            stage.open(REQUEST)
        await stage.start()
        stream = stage.open(REQUEST)
        await stage.close()
        (end,) = [chunk async for chunk in stream]
        assert isinstance(end, End)
        assert end.reason is EndReason.FAILED
        with pytest.raises(StageClosed):
            stage.open(REQUEST)

    asyncio.run(main())


def test_a_partial_grows_word_by_word_and_uses_up_no_line() -> None:
    async def main() -> None:
        config = ScriptedRecognizerConfig(lines=("One two,  three.", "Four."), words_per_second=2)
        stage = ScriptedRecognizerStage(config)
        await stage.start()
        partial = RecognizeRequest(request_id="r", partial=True)
        grown = ["", "", "One", "One two,", "One two,  three.", "One two,  three."]
        for ms, text in zip((0, 480, 500, 1000, 1500, 9000), grown, strict=True):
            assert await hear(stage, ms, partial) == [Transcript(text, ms), END]
        assert await hear(stage, 2000) == [Transcript("One two,  three.", 2000), END]
        assert await hear(stage, 600, partial) == [Transcript("Four.", 600), END]
        await stage.close()

    asyncio.run(main())


@pytest.mark.parametrize("line", ["One two,  three.", " a\nb ", "", "  "])
def test_logprobs_spell_the_line(line: str) -> None:
    async def main() -> None:
        config = ScriptedRecognizerConfig(lines=(line,), logprob=-0.25)
        stage = ScriptedRecognizerStage(config)
        await stage.start()
        heard, _ = await hear(stage, 20, RecognizeRequest(request_id="r", logprobs=True))
        assert isinstance(heard, Transcript)
        assert "".join(each.token for each in heard.logprobs) == line
        assert {each.logprob for each in heard.logprobs} <= {-0.25}
        await stage.close()

    asyncio.run(main())


def test_a_recording_hears_a_line_every_five_seconds() -> None:
    async def main() -> None:
        config = ScriptedRecognizerConfig(lines=("One two.", "Three."), logprob=-0.5)
        stage = ScriptedRecognizerStage(config)
        with pytest.raises(StageClosed):
            stage.transcribe(TranscribeRequest(request_id="r"))
        await stage.start()
        stream = stage.transcribe(TranscribeRequest(request_id="r", words=True, logprobs=True))
        await stream.send(PcmChunk(bytes(6 * 32_000), 16_000))
        await stream.end()
        first, last, end = [item async for item in stream]
        assert end == END
        assert isinstance(first, Segment)
        assert (first.text, first.start_ms, first.end_ms) == (" One two.", 0, 5000)
        assert first.words == (Word("One", 0, 2500), Word("two.", 2500, 5000))
        assert [each.token for each in first.logprobs] == ["One", " two."]
        assert isinstance(last, Segment)
        assert (last.text, last.start_ms, last.end_ms) == (" Three.", 5000, 6000)
        await stage.close()

    asyncio.run(main())
