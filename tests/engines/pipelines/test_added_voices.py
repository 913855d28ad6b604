"""A pipeline with the embedded voice, and tiny ones that are added to it."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.piper import TinyVoice
from tests.support.waiting import until

from antiphon.engines.catalog import card, default_cache_root, model_folder
from antiphon.engines.chunks import End, EndReason, PcmChunk, SpokenWords
from antiphon.engines.deployment import parse_deployment
from antiphon.engines.pipeline import SpeakRequest, VoiceFiles
from antiphon.engines.pipelines.cascade import CascadePipeline
from antiphon.engines.stage import StageFailure

pytestmark = pytest.mark.models

PATIENCE = 50
TEXT = "Hello there, this is a test."
DEPLOYMENT = parse_deployment(
    {
        "stages": {
            "recognizer": {"use": "scripted"},
            "ar": {"use": "scripted"},
            "talker": {"model": "piper-joe"},
        }
    }
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache folder with the embedded voice, so that the user's own gets no others."""
    joe = model_folder(card("piper-joe"), default_cache_root(os.environ))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / joe.name).symlink_to(joe)
    return tmp_path / "cache"


def with_pipeline(
    check: Callable[[CascadePipeline], Awaitable[None]], cache: Path, voices: Path
) -> None:
    async def main() -> None:
        pipeline = CascadePipeline(DEPLOYMENT, cache, voices=voices)
        try:
            async with asyncio.timeout(PATIENCE):
                await pipeline.start()
                await check(pipeline)
        finally:
            await pipeline.close()

    asyncio.run(main())


async def finished(items: AsyncIterator[SpokenWords | PcmChunk | End]) -> int:
    """Bytes of audio up to the end, which must be good."""
    made = 0
    async for item in items:
        if isinstance(item, PcmChunk):
            made += len(item.pcm)
        elif isinstance(item, End):
            assert item.reason is EndReason.COMPLETED, item
    return made


async def say(pipeline: CascadePipeline, voice: str) -> int:
    speech = pipeline.speak(SpeakRequest(request_id="r", voice=voice))
    await speech.send(TEXT)
    await speech.end()
    return await finished(aiter(speech))


def test_voices_in_the_folder_speak_and_others_are_added_and_removed(
    cache: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "voices"
    folder.mkdir(parents=True)
    for path in TinyVoice().write(folder):
        # As copied a while ago.
        os.utime(path, (1e9, 1e9))
    (folder / "broken.onnx").write_bytes(b"half")
    shutil.copy(folder / "tiny.onnx.json", folder / "broken.onnx.json")
    graph, description = TinyVoice(speakers=2).write(tmp_path, "team")

    async def check(pipeline: CascadePipeline) -> None:
        await until(lambda: "tiny" in pipeline.voices, PATIENCE)
        assert await say(pipeline, "tiny") > 0
        files = VoiceFiles(name="team", graph=graph, description=description)
        added = await pipeline.add_voice(files)
        assert [card.name for card in added] == ["team:0", "team:1"]
        assert pipeline.voices == ("joe", "team:0", "team:1", "tiny")
        assert await say(pipeline, "team:1") > 0
        assert pipeline.statistics()["talker"]["voices_loaded"] == 3
        # What speaks with it goes on, also with paragraphs that are not written yet.
        speech = pipeline.speak(SpeakRequest(request_id="r", voice="team:0"))
        await speech.send(f"{TEXT}\n\n")
        items = aiter(speech)
        while not isinstance(await anext(items), PcmChunk):
            pass
        await pipeline.remove_voice("team:1")
        assert list(pipeline.voices) == ["joe", "tiny"]
        assert pipeline.statistics()["talker"]["voices_loaded"] == 2
        await speech.send(TEXT)
        await speech.end()
        assert await finished(items) > 0
        with pytest.raises(StageFailure, match="voice_unknown"):
            await say(pipeline, "team:0")
        assert sorted(os.listdir(cache / "voices")) == [
            path.name for path in (cache / "voices").glob("tiny-*")
        ]

    with_pipeline(check, cache, folder)
