"""Voices are made of what the talker takes: of anything else it is said what is expected."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon.engines.pipeline import (
    NewVoice,
    VoiceCard,
    VoiceFiles,
    VoiceRecording,
    VoiceSource,
)
from antiphon.engines.pipelines.cascade import CascadePipeline
from antiphon.engines.stage import StageFailure

from .played import Play
from .test_cascade import KeepingTalker

FILES = VoiceFiles(name="zoe", graph=Path("zoe.onnx"), description=Path("zoe.onnx.json"))
RECORDING = VoiceRecording(name="zoe", audio=Path("zoe.wav"), text="Hi.", consent="Yes.")


class RecordingTalker(KeepingTalker):
    """A talker whose voices are made of recordings."""

    voice_source: VoiceSource = "recording"

    async def add_voice(self, new: NewVoice) -> tuple[VoiceCard, ...]:
        return (VoiceCard(name=new.name, language="en", source="recording"),)


@pytest.mark.parametrize(
    ("talker", "source", "taken", "other", "code"),
    [
        (KeepingTalker, "files", FILES, RECORDING, "recordings_unsupported"),
        (RecordingTalker, "recording", RECORDING, FILES, "files_unsupported"),
    ],
)
def test_a_talker_is_given_what_it_makes_voices_of(
    talker: type[KeepingTalker], source: str, taken: NewVoice, other: NewVoice, code: str
) -> None:
    async def scenario(pipeline: CascadePipeline) -> None:
        assert pipeline.voice_source == source
        (card,) = await pipeline.add_voice(taken)
        assert card.name == "zoe"
        with pytest.raises(StageFailure, match=code):
            await pipeline.add_voice(other)

    asyncio.run(scenario(CascadePipeline.from_stages(Play().stages(talker=talker), model="m")))


def test_a_talker_with_fixed_voices_takes_neither() -> None:
    async def scenario(pipeline: CascadePipeline) -> None:
        for new in (FILES, RECORDING):
            with pytest.raises(StageFailure, match="voices_fixed"):
                await pipeline.add_voice(new)

    asyncio.run(scenario(CascadePipeline.from_stages(Play().stages(), model="m")))
