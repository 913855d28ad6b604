"""Speech without a server, of a pipeline in this process."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.babble import babble
from tests.support.fakes import RATE, FakePipeline

from antiphon.codecs.loudness import integrated
from antiphon.engines.chunks import End, EndReason, PcmChunk
from antiphon.web.commands.embedded import EmbeddedVoice

SPOKEN = babble(4)


def said(loudness: float | None) -> bytes:
    steps = (PcmChunk(SPOKEN, RATE), End(EndReason.COMPLETED))

    async def main() -> bytes:
        voice = EmbeddedVoice(FakePipeline(speeches=(steps,)))
        return b"".join([pcm async for pcm in voice.speak("Hello there.", None, 1.0, loudness)])

    return asyncio.run(main())


@pytest.mark.parametrize("loudness", [-30.0, -18.0])
def test_speech_is_as_loud_as_asked(loudness: float) -> None:
    pcm = said(loudness)
    assert len(pcm) == len(SPOKEN)
    assert integrated(pcm) == pytest.approx(loudness, abs=1)


def test_without_loudness_the_voice_is_as_it_is() -> None:
    assert said(None) == SPOKEN
