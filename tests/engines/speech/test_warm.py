"""Stages that are woken in a pause, all in the same way."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeAlias

import pytest
from tests.support.waiting import until

from antiphon.engines.catalog import default_cache_root
from antiphon.engines.deployment import Code2wavConfig, TalkerConfig, WhisperConfig
from antiphon.engines.speech.code2wav import Code2wavStage
from antiphon.engines.speech.recognizer import WhisperStage
from antiphon.engines.speech.talker import TalkerStage
from antiphon.engines.stage import FRESH_SECONDS

PATIENCE = 30


class Warmable(Protocol):
    async def start(self) -> None: ...
    async def warm(self) -> None: ...
    async def close(self) -> None: ...
    def statistics(self) -> Mapping[str, float]: ...


Clock: TypeAlias = Callable[[], float]


def talker(root: Path, clock: Clock) -> Warmable:
    return TalkerStage(TalkerConfig(), root, clock=clock)


def code2wav(root: Path, clock: Clock) -> Warmable:
    return Code2wavStage(Code2wavConfig(), TalkerConfig().model, root, clock=clock)


def recognizer(root: Path, clock: Clock) -> Warmable:
    return WhisperStage(WhisperConfig(), root, clock=clock)


async def rested(stage: Warmable) -> None:
    """Return when no job runs or waits."""
    await until(lambda: not stage.statistics()["jobs"])


@pytest.mark.models
@pytest.mark.parametrize("make", [talker, code2wav, recognizer])
def test_a_stage_is_warmed_after_a_rest_and_counts_no_work(
    make: Callable[[Path, Clock], Warmable],
) -> None:
    async def main() -> None:
        now = 100.0
        stage = make(default_cache_root(os.environ), lambda: now)
        await stage.warm()
        async with asyncio.timeout(PATIENCE):
            await stage.start()
            await rested(stage)
            fresh = stage.statistics()
            await stage.warm()
            assert stage.statistics() == fresh
            now += FRESH_SECONDS * 2
            await stage.warm()
            await rested(stage)
            assert stage.statistics() == {**fresh, "warmed": 1}
            await stage.close()
        now += 10
        await stage.warm()
        assert stage.statistics()["warmed"] == 1

    asyncio.run(main())
