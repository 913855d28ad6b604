import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engines.speech.played_decoder import FRAME_MS as PLAYED_FRAME_MS
from tests.engines.speech.played_decoder import VOICE
from tests.engines.speech.played_voices import PlayedOffer, PlayedShelf
from tests.support.loop import run_simulated

from antiphon.engines.catalog import default_cache_root
from antiphon.engines.chunks import Clause, End, EndReason, Latents
from antiphon.engines.deployment import Pacing, TalkerConfig
from antiphon.engines.flow import Flow
from antiphon.engines.speech.talker import (
    CLAUSE_CHARS,
    WINDOWS,
    TalkerStage,
    TalkRequest,
    parts,
    window_size,
)
from antiphon.engines.speech.voices.family import VoiceModel
from antiphon.engines.speech.voices.piper import PiperDraft
from antiphon.engines.speech.voices.steps import Chain, Step
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


async def parts_of(
    stage: TalkerStage, *texts: str, speed: float = 1.0, flow: Flow | None = None
) -> tuple[list[Latents], End]:
    stream = stage.open(TalkRequest(request_id="r", speed=speed, flow=flow))
    for text in texts:
        await stream.send(Clause(text))
    await stream.end()
    items = [item async for item in stream]
    end = items.pop()
    assert isinstance(end, End)
    return [item for item in items if isinstance(item, Latents)], end


async def speak(stage: TalkerStage, *texts: str, speed: float = 1.0) -> tuple[list[Latents], End]:
    """The latents of whole clauses."""
    made, end = await parts_of(stage, *texts, speed=speed)
    clauses: list[Latents] = []
    whole = True
    for part in made:
        if whole:
            clauses.append(part)
        else:
            frames = np.concatenate([clauses[-1].frames, part.frames], axis=1)
            clauses[-1] = Latents(frames, clauses[-1].words + part.words, part.last)
        whole = part.last
    return clauses, end


class PlayedTalker:
    """A talker without a model: a frame a character, of which it notes how many it makes."""

    def __init__(self, described: VoiceModel = VOICE) -> None:
        self.model = described
        self.sizes: list[int] = []
        self.voices: list[str] = []
        self.on_draft: Callable[[], object] = lambda: None

    def draft(self, text: str, speed: float, voice: str) -> PiperDraft | None:
        def flow(prior: NDArray[np.float32]) -> NDArray[np.float32]:
            self.sizes.append(prior.shape[1])
            return prior

        self.voices.append(voice)
        self.on_draft()
        prior = np.zeros((1, len(text)), np.float32)
        return PiperDraft(Chain([Step(flow, 0)], prior), np.arange(len(text)), ()) if text else None


def with_played(check: Callable[[TalkerStage, PlayedTalker], Awaitable[None]]) -> None:
    """Run ``check`` on simulated time."""
    played = PlayedTalker()

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        shelf = PlayedShelf(PlayedOffer(VOICE, talker=lambda: played))
        stage = TalkerStage(TalkerConfig(), Path(), shelf=shelf, clock=clock)
        await stage.start()
        # Those of warming up.
        played.sizes.clear()
        played.voices.clear()
        try:
            await check(stage, played)
        finally:
            await stage.close()

    run_simulated(main())


@pytest.mark.parametrize(
    ("ahead", "size"), [(0, 24), (23, 24), (24, 48), (47.9, 48), (48, 96), (1000, 96)]
)
def test_windows_grow_with_what_the_listener_has_ahead(ahead: float, size: int) -> None:
    assert window_size(ahead) == size
    # Where nobody else needs the thread, with half of that.
    assert window_size(ahead / 2, 4.0) == size


def test_a_reply_begins_with_a_small_window() -> None:
    async def check(stage: TalkerStage, played: PlayedTalker) -> None:
        flow = Flow()
        made, _ = await parts_of(stage, "." * 200, "." * 110, "." * 30, flow=flow)
        # No crumbs: what would be left of the second clause goes with its first window.
        assert played.sizes == [24, 48, 96, 32, 110, 30]
        assert [latents.last for latents in made] == [False] * 3 + [True] * 3
        assert flow.undecoded_ms == 340 * PLAYED_FRAME_MS
        told = stage.statistics()
        assert (told["clauses"], told["chunks"]) == (3, 6)
        assert told["audio_seconds"] == pytest.approx(3.4)

    with_played(check)


def test_without_a_flow_windows_are_large() -> None:
    async def check(stage: TalkerStage, played: PlayedTalker) -> None:
        await parts_of(stage, "." * 110, "." * 200)
        assert played.sizes == [110, WINDOWS[-1], 104]

    with_played(check)


def test_no_more_is_spoken_than_the_lead_and_a_clause_until_some_is_played() -> None:
    clause_ms = 100 * PLAYED_FRAME_MS

    async def check(stage: TalkerStage, played: PlayedTalker) -> None:
        flow = Flow(Pacing(lead_ms=2500))
        stream = stage.open(TalkRequest(request_id="r", flow=flow))

        async def write() -> None:
            for _ in range(6):
                await stream.send(Clause("." * 100))
            await stream.end()

        writing = asyncio.create_task(write())
        held: list[float] = []
        spoken_ms = 0.0

        async def read() -> None:
            nonlocal spoken_ms
            async for item in stream:
                if isinstance(item, Latents):
                    spoken_ms += item.frames.shape[1] * PLAYED_FRAME_MS
                    held.append(item.held_ms)

        reading = asyncio.create_task(read())
        await asyncio.sleep(30)
        assert spoken_ms == 3 * clause_ms
        flow.made(3 * clause_ms)
        flow.played(0, 0)
        await asyncio.sleep(30)
        assert spoken_ms == 3 * clause_ms
        flow.played(1500, 1500)
        await asyncio.sleep(30)
        assert spoken_ms == 4 * clause_ms
        flow.made(clause_ms)
        flow.played(4000, 4000)
        await asyncio.gather(writing, reading)
        assert spoken_ms == 6 * clause_ms
        assert [ms for ms in held if ms] == pytest.approx([60_000, 30_000], abs=1000)

    with_played(check)


@pytest.mark.models
def test_a_clause_comes_in_parts_and_its_words_with_the_first() -> None:
    text = "In the evening the light takes a longer way, and it turns red."

    async def check(stage: TalkerStage) -> None:
        made, _ = await parts_of(stage, text, flow=Flow())
        assert made[0].frames.shape[1] == WINDOWS[0]
        assert [word.text for word in made[0].words] == text.split()
        assert len(made) > 2
        assert not any(latents.words for latents in made[1:])
        assert [latents.last for latents in made] == [False] * (len(made) - 1) + [True]

    with_stage(check)


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


async def say_two(stage: TalkerStage, *, paced: bool) -> End:
    _, end = await parts_of(stage, "a" * 30, "b" * 30, flow=Flow(Pacing(), paced=paced))
    return end


def test_the_next_clause_is_begun_ahead_where_nobody_hears_the_first() -> None:
    both = threading.Barrier(2)

    async def check(stage: TalkerStage, played: PlayedTalker) -> None:
        # Each waits until the other is begun as well.
        played.on_draft = lambda: both.wait(PATIENCE)
        assert (await say_two(stage, paced=False)).reason is EndReason.COMPLETED

    with_played(check)


def test_of_speech_that_is_heard_a_clause_is_begun_when_the_one_before_is_made() -> None:
    made: list[int] = []

    async def check(stage: TalkerStage, played: PlayedTalker) -> None:
        played.on_draft = lambda: made.append(sum(played.sizes))
        assert (await say_two(stage, paced=True)).reason is EndReason.COMPLETED

    with_played(check)
    assert made == [0, 30]
