"""How loud each voice is: measured once, and never in the way of speech."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.babble import babble
from tests.support.fakes import BROKEN, RATE, FakePipeline, Step
from tests.support.loop import run_simulated

from antiphon.codecs.loudness import UNKNOWN_LEVEL, integrated
from antiphon.engines.chunks import End, EndReason, PcmChunk, StageError
from antiphon.engines.pipeline import SpeakRequest, VoiceFiles
from antiphon.realtime import voice_levels
from antiphon.realtime.voice_levels import SAMPLE, SECONDS, VoiceLevels

DONE = End(EndReason.COMPLETED)
FAILED = End(EndReason.FAILED, BROKEN)


def says(gain_db: float = 0.0, seconds: float = 2.0) -> tuple[Step, ...]:
    return PcmChunk(babble(seconds, gain_db=gain_db), RATE), DONE


def pipeline(*speeches: Sequence[Step], voices: tuple[str, ...] = ("ada", "bob")) -> FakePipeline:
    return FakePipeline(speeches=speeches, voices=voices)


def test_each_voice_is_measured_when_it_is_first_needed_and_once() -> None:
    async def main() -> None:
        fake = pipeline(says(), says(-6))
        levels = VoiceLevels(fake)
        ada, bob = await levels.of("ada"), await levels.of("bob")
        assert ada.loudness == pytest.approx(integrated(babble(2)), abs=0.01)
        assert bob.loudness == pytest.approx(ada.loudness - 6, abs=0.1)
        assert (await levels.of(None), await levels.of("bob")) == (ada, bob)
        assert [each.voice for each in fake.of(SpeakRequest)] == ["ada", "bob"]
        assert fake.text_said == [SAMPLE, SAMPLE]
        await fake.all_streams_gone()

    run_simulated(main())


def test_several_who_wait_for_a_voice_share_its_measure() -> None:
    async def main() -> None:
        fake = pipeline((5.0, *says()))
        levels = VoiceLevels(fake)
        first, *others = await asyncio.gather(*(levels.of("ada") for _ in range(3)))
        assert others == [first, first]
        assert len(fake.of(SpeakRequest)) == 1

    run_simulated(main())


def test_one_who_leaves_does_not_keep_the_others_waiting() -> None:
    async def main() -> None:
        fake = pipeline((60.0, *says()), says())
        levels = VoiceLevels(fake)
        leaves = asyncio.create_task(levels.of("ada"))
        waits = asyncio.create_task(levels.of("ada"))
        await asyncio.sleep(1)
        leaves.cancel()
        assert (await waits).loudness == pytest.approx(integrated(babble(2)), abs=0.01)
        assert asyncio.get_running_loop().time() < 2
        await fake.all_streams_gone()

    run_simulated(main())


@pytest.mark.parametrize("fails", [(FAILED,), (*says()[:1], FAILED), (2 * SECONDS, DONE)])
def test_what_fails_is_tried_again(fails: Sequence[Step]) -> None:
    async def main() -> None:
        fake = pipeline(fails, says())
        levels = VoiceLevels(fake)
        assert await levels.of("ada") == UNKNOWN_LEVEL
        assert asyncio.get_running_loop().time() <= SECONDS
        assert await levels.of("ada") != UNKNOWN_LEVEL
        await fake.all_streams_gone()

    run_simulated(main())


def test_there_is_no_room_for_a_measure() -> None:
    async def main() -> None:
        fake = pipeline(says())
        fake.refused["speak"] = StageError("overloaded", "too many", 1000)
        assert await VoiceLevels(fake).of("ada") == UNKNOWN_LEVEL

    run_simulated(main())


def test_a_silent_voice_and_one_that_is_gone() -> None:
    async def main() -> None:
        fake = pipeline((PcmChunk(bytes(48_000), RATE), DONE))
        levels = VoiceLevels(fake)
        assert await levels.of("ada") == UNKNOWN_LEVEL
        assert await levels.of("carol") == UNKNOWN_LEVEL
        # Silence is an answer as well.
        assert await levels.of("ada") == UNKNOWN_LEVEL
        assert len(fake.of(SpeakRequest)) == 1

    run_simulated(main())


def test_a_voice_that_goes_on_and_on_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    said = babble(3)
    monkeypatch.setattr(voice_levels, "SAMPLE_BYTES", len(said) - 1000)

    async def main() -> None:
        fake = pipeline((*[PcmChunk(said, RATE)] * 2, asyncio.Event()))
        level = await VoiceLevels(fake).of("ada")
        assert level.loudness == pytest.approx(integrated(said[:-1000]), abs=0.01)
        await fake.all_streams_gone()

    run_simulated(main())


def test_a_voice_of_the_same_name_is_measured_anew() -> None:
    async def main() -> None:
        fake = pipeline(says(), says(-6))
        levels = VoiceLevels(fake)
        before = await levels.of("bob")
        fake.voices = ("ada",)
        await fake.add_voice(
            VoiceFiles(name="bob", graph=Path("b.onnx"), description=Path("b.json"))
        )
        assert (await levels.of("bob")).loudness == pytest.approx(before.loudness - 6, abs=0.1)

    run_simulated(main())


def test_how_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_levels, "KEPT", 2)

    async def main() -> None:
        fake = pipeline(says(), voices=("ada", "bob", "carol"))
        levels = VoiceLevels(fake)
        for voice in ("ada", "bob", "carol", "bob", "carol", "ada"):
            await levels.of(voice)
        measured = [each.voice for each in fake.of(SpeakRequest)]
        assert measured == ["ada", "bob", "carol", "ada"]

    run_simulated(main())
