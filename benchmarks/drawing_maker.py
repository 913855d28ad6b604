"""A served model that is asked for pictures or clips: how long it takes, and what seeds do."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from antiphon.deploy.media_training.glyphs import Pixels
from antiphon.engines.diffusion.pipeline_diffuser import PipelineDiffuser
from antiphon.engines.diffusion.switches import DiffuserConfig, Switches
from antiphon.engines.diffusion.task import MediaTask, Picture

FIRST_SEED = 1000
"""Of what is made twice; the next ones are of what has to differ."""

SEEDS = 16
"""Of the sheets."""


class Maker:
    """A model that is asked with all defaults."""

    def __init__(self, folder: Path, threads: int) -> None:
        switches = Switches(threads=threads)
        config = DiffuserConfig(path=str(folder), checkpoint_steps=0, switches=switches)
        self._diffuser, self._made = PipelineDiffuser(folder, config), 0

    async def __aenter__(self) -> Maker:
        await self._diffuser.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._diffuser.close()

    async def make(self, prompt: str, seed: int) -> Pixels:
        """One picture or clip: ``(frames, height, width, 3)``."""
        known = self._diffuser.abilities
        task = MediaTask(
            kind=known.kind,
            model="drawing",
            prompt=prompt,
            width=known.width,
            height=known.height,
            steps=known.steps,
            guidance=known.guidance,
            seed=seed,
            frames=known.frames,
            frames_per_second=known.frames_per_second,
        )
        self._made += 1
        async with aclosing(self._diffuser.run(f"drawing-{self._made}", task, {})) as said:
            async for each in said:
                if isinstance(each, Picture):
                    return each.frames
        raise RuntimeError(f"nothing was made of {prompt!r}")


class Timed(Protocol):
    """What there is to tell of a model beside what it drew."""

    @property
    def seconds(self) -> float:
        """The median of what was made alone."""
        ...

    @property
    def same(self) -> bool:
        """Whether the same seed gave the same."""
        ...

    @property
    def differ(self) -> float:
        """How far other seeds are away at least, in steps of 255."""
        ...


@dataclass(frozen=True)
class Made:
    """What came of some prompts; see :class:`Timed`."""

    frames: Sequence[Pixels]
    """Of each prompt."""

    seconds: float
    same: bool
    differ: float


async def make_all(
    maker: Maker, prompts: Sequence[str], *, timed: int, seeds: int, company: int
) -> Made:
    """Make ``timed`` alone, one twice and with ``seeds`` others, and all, ``company`` at once."""
    first = await maker.make(prompts[0], FIRST_SEED)
    took: list[float] = []
    for number in range(timed):
        began = time.monotonic()
        await maker.make(prompts[number % len(prompts)], number)
        took.append(time.monotonic() - began)
    again = await maker.make(prompts[0], FIRST_SEED)
    others = [await maker.make(prompts[0], FIRST_SEED + 1 + each) for each in range(seeds)]
    at_once = asyncio.Semaphore(company)

    async def one(number: int, prompt: str) -> Pixels:
        async with at_once:
            return await maker.make(prompt, number)

    frames = await asyncio.gather(*(one(n, each) for n, each in enumerate(prompts)))
    apart = [np.abs(first.astype(np.int16) - other).mean() for other in others]
    same = bool((first == again).all())
    return Made(frames, statistics.median(took), same, float(min(apart)))


async def seeds(folder: Path, prompts: Sequence[str], threads: int) -> Pixels:
    """Each prompt with the seeds 0 to 15, chosen by nobody:
    ``(prompts * SEEDS, frames, height, width, 3)``."""
    async with Maker(folder, threads) as maker:
        wanted = [maker.make(prompt, seed) for prompt in prompts for seed in range(SEEDS)]
        return np.stack(await asyncio.gather(*wanted))


def told_of(made: Timed, what: str) -> str:
    """The line of it; ``what`` is ``picture`` or ``clip``."""
    return (
        f"a {what}: {made.seconds:.2f} s; the same seed gives the same: "
        f"{'yes' if made.same else 'no'}; other seeds differ by {made.differ:.1f} of 255"
    )


def missed_of(made: Timed, what: str, most: float) -> list[str]:
    """The limits that were missed; ``most`` is of seconds."""
    missed: list[str] = []
    if made.seconds > most:
        missed.append(f"{made.seconds:.2f} s a {what}, at most {most:.0f} s")
    if not made.same:
        missed.append(f"the same seed gives another {what}")
    if made.differ < 1:
        missed.append(f"different seeds give the same {what}")
    return missed
