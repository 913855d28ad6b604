import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from antiphon.engines.catalog import default_cache_root
from antiphon.engines.chunks import Clause, End, EndReason, Latents
from antiphon.engines.deployment import TalkerConfig
from antiphon.engines.speech.talker import CLAUSE_CHARS, TalkerStage, TalkRequest, parts
from antiphon.engines.stage import StageClosed, StageFailure

PATIENCE = 30
FRAME_MS = 1000 * 256 / 22050


def with_stage(check: Callable[[TalkerStage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = TalkerStage(TalkerConfig(), default_cache_root(os.environ))
        await stage.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await check(stage)
        finally:
            await stage.close()

    asyncio.run(main())


async def speak(stage: TalkerStage, *texts: str, speed: float = 1.0) -> tuple[list[Latents], End]:
    stream = stage.open(TalkRequest(request_id="r", speed=speed))
    for text in texts:
        await stream.send(Clause(text))
    await stream.end()
    items = [item async for item in stream]
    end = items.pop()
    assert isinstance(end, End)
    return [item for item in items if isinstance(item, Latents)], end


@pytest.mark.models
@pytest.mark.parametrize(
    "text",
    [
        "Certainly.",
        "Mr. Smith of the U.S. Army has 42 apples, and 1234567 pears — e.g. *this* one. ",
        "# Title\nHe said: [the docs](http://x.y) are here 🙂!\n",
        "1. First",
        "a b c d e f of the in the to the 3.5 10:30 $4 50%",
        "Xyzzy qwrtp — ? 1000000000000000001",
    ],
)
def test_every_word_of_a_clause_has_its_time(text: str) -> None:
    async def check(stage: TalkerStage) -> None:
        (latents,), end = await speak(stage, text)
        channels, frames = latents.frames.shape
        assert channels == 192
        assert latents.last
        assert [word.text for word in latents.words] == text.split()
        assert all(a.end_ms <= b.start_ms for a, b in pairwise(latents.words))
        assert all(word.start_ms <= word.end_ms for word in latents.words)
        assert latents.words[0].start_ms >= 0
        assert latents.words[-1].end_ms <= frames * FRAME_MS + 1e-6
        assert end == End(EndReason.COMPLETED)

    with_stage(check)


@pytest.mark.models
def test_what_cannot_be_spoken_gives_nothing_and_does_not_fail() -> None:
    async def check(stage: TalkerStage) -> None:
        made, end = await speak(stage, "", "🙂 --- ", "Yes.")
        assert [word.text for latents in made for word in latents.words] == ["Yes."]
        assert end == End(EndReason.COMPLETED)
        assert stage.statistics()["clauses"] == 1

    with_stage(check)


@pytest.mark.models
def test_twice_the_speed_takes_about_half_the_time() -> None:
    text = "The evening light takes a longer way through the air."

    async def check(stage: TalkerStage) -> None:
        (slow,), _ = await speak(stage, text)
        (fast,), _ = await speak(stage, text, speed=2.0)
        assert 0.35 < fast.frames.shape[1] / slow.frames.shape[1] < 0.75

    with_stage(check)


@pytest.mark.models
def test_a_very_long_clause_is_spoken_in_parts() -> None:
    text = "word " * (CLAUSE_CHARS // 4)

    async def check(stage: TalkerStage) -> None:
        made, _ = await speak(stage, text)
        assert len(made) == 2
        assert [word.text for latents in made for word in latents.words] == text.split()

    with_stage(check)


@pytest.mark.models
def test_a_voice_is_known_by_its_name() -> None:
    async def check(stage: TalkerStage) -> None:
        assert stage.voices == ("joe",)
        stage.open(TalkRequest(request_id="r", voice="joe")).cancel()
        with pytest.raises(StageFailure, match="voice_unknown"):
            stage.open(TalkRequest(request_id="r", voice="ann"))

    with_stage(check)


@pytest.mark.models
def test_without_piper_the_stage_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "piper.phonemize_espeak", None)
    stage = TalkerStage(TalkerConfig(), default_cache_root(os.environ))
    with pytest.raises(StageFailure, match=r"antiphon\[piper\]"):
        asyncio.run(stage.start())


def test_without_its_model_the_stage_does_not_start(tmp_path: Path) -> None:
    async def main() -> None:
        stage = TalkerStage(TalkerConfig(), tmp_path)
        with pytest.raises(StageFailure, match="antiphon models fetch piper-joe"):
            await stage.start()
        with pytest.raises(StageClosed):
            stage.open(TalkRequest(request_id="r"))
        await stage.close()

    asyncio.run(main())


@pytest.mark.parametrize("speed", [0.1, 5.0, float("nan")])
def test_impossible_speeds_are_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="expected a speed"):
        TalkRequest(request_id="r", speed=speed)


def test_parts_hold_all_words_and_are_bounded() -> None:
    text = "some words " * 100 + "\n"
    assert " ".join(parts(text)).split() == text.split()
    assert all(len(part) <= CLAUSE_CHARS for part in parts(text))
    assert parts("as it is \n") == ["as it is \n"]


@pytest.mark.models
@pytest.mark.parametrize(("variation", "same"), [(0.0, True), (1.0, False)])
def test_a_voice_without_variation_repeats_itself(variation: float, same: bool) -> None:
    async def main() -> None:
        config = TalkerConfig(variation=variation)
        stage = TalkerStage(config, default_cache_root(os.environ))
        await stage.start()
        try:
            async with asyncio.timeout(PATIENCE):
                (first, second), _ = await speak(stage, "The sky is blue.", "The sky is blue.")
        finally:
            await stage.close()
        equal = first.frames.shape == second.frames.shape and (first.frames == second.frames).all()
        assert equal == same

    asyncio.run(main())
