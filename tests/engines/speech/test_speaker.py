import asyncio
import os
from pathlib import Path

import numpy as np
import pytest

from antiphon.codecs.pcm import to_float
from antiphon.engines.catalog import default_cache_root
from antiphon.engines.pipeline import OUTPUT_RATE
from antiphon.engines.speech.speaker import Speaker
from antiphon.engines.stage import StageClosed, StageFailure

PATIENCE = 30


@pytest.mark.models
def test_a_text_is_said_with_a_time_for_each_word() -> None:
    text = "What is the capital of France? And please tell me, briefly, where it lies."

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), Speaker(default_cache_root(os.environ)) as speaker:
            said, again = await asyncio.gather(speaker.say(text), speaker.say("Stop."))
        assert [word.text for word in said.words] == text.split()
        assert [word.text for word in again.words] == ["Stop."]
        times = [time for word in said.words for time in (word.start_ms, word.end_ms)]
        assert times == sorted(times)
        assert said.speech_end_ms == times[-1] <= said.duration_ms
        samples = to_float(said.pcm)
        for word in said.words:
            heard = samples[_at(word.start_ms) : _at(word.end_ms)]
            assert np.abs(heard).max() > 0.02, word
        # All that is left after the last word is silence.
        assert np.abs(samples[_at(said.speech_end_ms + 60) :]).max(initial=0) < 0.01

    asyncio.run(main())


def _at(ms: float) -> int:
    return round(ms * OUTPUT_RATE / 1000)


@pytest.mark.models
def test_a_text_without_words_is_no_speech() -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), Speaker(default_cache_root(os.environ)) as speaker:
            said = await speaker.say(" ... ")
        assert (said.pcm, said.words, said.speech_end_ms) == (b"", (), 0.0)

    asyncio.run(main())


@pytest.mark.models
def test_closing_fails_what_is_being_said() -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), Speaker(default_cache_root(os.environ)) as speaker:
            saying = asyncio.create_task(speaker.say("A long story begins. " * 40))
            await asyncio.sleep(0)
            await speaker.close()
            with pytest.raises(StageFailure):
                await saying
            with pytest.raises(StageClosed):
                await speaker.say("More.")

    asyncio.run(main())


def test_without_its_model_it_does_not_start(tmp_path: Path) -> None:
    async def main() -> None:
        speaker = Speaker(tmp_path)
        with pytest.raises(StageFailure, match="antiphon models fetch piper-joe"):
            await speaker.start()

    asyncio.run(main())
