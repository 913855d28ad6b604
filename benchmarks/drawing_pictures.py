"""Pictures of what was never learnt, made by a served model and judged."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from antiphon.deploy.media_training.glyphs import Pixels
from antiphon.engines.diffusion.pipeline_diffuser import PipelineDiffuser
from antiphon.engines.diffusion.switches import DiffuserConfig, Switches
from antiphon.engines.diffusion.task import MediaTask, Picture

from .drawing_judge import Verdict, judge
from .drawing_prompts import KINDS, Asked, asked

TIMED = 5
"""Pictures made one after the other, for the time."""

COMPANY = 8
"""Pictures made at once, where no time is measured."""

LIMITS = {"colour": 0.85, "place": 0.85, "count": 0.85, "laid out": 0.85, "glyph": 0.75}
"""Least shares of prompts."""

SEEDS = 16
SHOWN = (
    "a cat",
    "a red car on a yellow background",
    "three strawberries",
    "a rocket on a black background",
    "a small star in the top left corner on blue",
    "a dog and a cat",
    "a big pizza on a green background",
    "a purple frog on the right",
)
"""What the sheet of seeds shows."""

SECONDS = 2.0
"""Most for one picture, made alone."""


@dataclass(frozen=True)
class Judged:
    """One picture."""

    asked: Asked
    picture: Pixels
    verdict: Verdict


@dataclass(frozen=True)
class Measured:
    """What came of it."""

    judged: Sequence[Judged]
    seconds: float
    """The median of pictures made alone."""

    same: bool
    """Whether the same seed gave the same picture."""

    differ: float
    """How far pictures of different seeds are apart on the average, in steps of 255."""

    def shares(self, kind: str | None = None) -> dict[str, float]:
        """How often each was right, of prompts with one kind of unseen combination or of all."""
        chosen = [each.verdict for each in self.judged if kind in (None, each.asked.kind)]
        found = {
            "colour": [each.colour for each in chosen],
            "place": [each.place for each in chosen if each.place is not None],
            "count": [each.count for each in chosen if each.count is not None],
            "laid out": [each.laid_out for each in chosen],
            "glyph": [each.glyph for each in chosen],
        }
        return {name: statistics.fmean(each) for name, each in found.items() if each}


class Drawer:
    """A model that is asked for pictures."""

    def __init__(self, folder: Path, threads: int) -> None:
        switches = Switches(threads=threads)
        config = DiffuserConfig(path=str(folder), checkpoint_steps=0, switches=switches)
        self._diffuser, self._made = PipelineDiffuser(folder, config), 0

    async def __aenter__(self) -> Drawer:
        await self._diffuser.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._diffuser.close()

    async def draw(self, prompt: str, seed: int) -> Pixels:
        """One picture with all defaults: ``(height, width, 3)``."""
        known = self._diffuser.abilities
        task = MediaTask(
            kind="image",
            model="drawing",
            prompt=prompt,
            width=known.width,
            height=known.height,
            steps=known.steps,
            guidance=known.guidance,
            seed=seed,
        )
        self._made += 1
        async with aclosing(self._diffuser.run(f"drawing-{self._made}", task, {})) as said:
            async for each in said:
                if isinstance(each, Picture):
                    picture: Pixels = each.frames[0]
                    return picture
        raise RuntimeError(f"no picture was made of {prompt!r}")


async def measure(folder: Path, count: int, threads: int) -> Measured:
    """Ask for ``count`` pictures of what is held out, and judge them."""
    prompts = asked(count)
    async with Drawer(folder, threads) as drawer:
        first = await drawer.draw(prompts[0].prompt, 1000)
        took: list[float] = []
        for number in range(TIMED):
            began = time.monotonic()
            await drawer.draw(prompts[number % count].prompt, number)
            took.append(time.monotonic() - began)
        again = await drawer.draw(prompts[0].prompt, 1000)
        seeds = [await drawer.draw(prompts[0].prompt, seed) for seed in range(1001, 1005)]
        at_once = asyncio.Semaphore(COMPANY)

        async def one(number: int, each: Asked) -> Judged:
            async with at_once:
                picture = await drawer.draw(each.prompt, number)
            return Judged(each, picture, judge(picture, each.facts))

        judged = await asyncio.gather(*(one(n, each) for n, each in enumerate(prompts)))
    apart = [np.abs(first.astype(np.int16) - other).mean() for other in seeds]
    return Measured(
        judged, statistics.median(took), bool((first == again).all()), float(min(apart))
    )


async def seeds(folder: Path, threads: int) -> Pixels:
    """Each of :data:`SHOWN` with the seeds 0 to 15, chosen by nobody: ``(n, height, width, 3)``."""
    async with Drawer(folder, threads) as drawer:
        asked_for = [drawer.draw(prompt, seed) for prompt in SHOWN for seed in range(SEEDS)]
        return np.stack(await asyncio.gather(*asked_for))


def told(measured: Measured) -> list[str]:
    """A table, and what was missed."""
    lines = [
        f"{'unseen':<12}" + "".join(f"{name:>10}" for name in LIMITS) + "   % of prompts right"
    ]
    for kind in (*KINDS, None):
        shares = measured.shares(kind)
        cells = [f"{100 * shares[name]:.1f}" if name in shares else "" for name in LIMITS]
        lines.append(f"{kind or 'all':<12}" + "".join(f"{cell:>10}" for cell in cells))
    lines.append(
        f"a picture: {measured.seconds:.2f} s; the same seed gives the same: "
        f"{'yes' if measured.same else 'no'}; other seeds differ by {measured.differ:.1f} of 255"
    )
    return lines


def missed(measured: Measured) -> list[str]:
    """The limits that were missed."""
    shares = measured.shares()
    made = [
        f"{name} right in {100 * shares[name]:.1f} %, at least {100 * least:.0f} %"
        for name, least in LIMITS.items()
        if shares.get(name, 1.0) < least
    ]
    if measured.seconds > SECONDS:
        made.append(f"{measured.seconds:.2f} s a picture, at most {SECONDS:.0f} s")
    if not measured.same:
        made.append("the same seed gives another picture")
    if measured.differ < 1:
        made.append("different seeds give the same picture")
    return made
