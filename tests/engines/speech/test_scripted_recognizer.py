import asyncio

import pytest

from antiphon.engines.chunks import End, EndReason, PcmChunk, Transcript
from antiphon.engines.deployment import ScriptedRecognizerConfig
from antiphon.engines.pipeline import RecognizeRequest
from antiphon.engines.speech.scripted_recognizer import ScriptedRecognizerStage
from antiphon.engines.stage import StageClosed

REQUEST = RecognizeRequest(request_id="r")
END = End(EndReason.COMPLETED)


async def hear(stage: ScriptedRecognizerStage, ms: int) -> list[object]:
    stream = stage.open(REQUEST)
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
