"""Pictures of what was never learnt, made by a served model and judged."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from antiphon.deploy.media_training.glyphs import Pixels

from .drawing_judge import Verdict, judge
from .drawing_maker import Maker, make_all, missed_of, told_of
from .drawing_prompts import KINDS, Asked, asked

TIMED = 5
"""Pictures made one after the other, for the time."""

COMPANY = 8
"""Pictures made at once, where no time is measured."""

LIMITS = {"colour": 0.85, "place": 0.85, "count": 0.85, "laid out": 0.85, "glyph": 0.75}
"""Least shares of prompts."""

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


async def measure(folder: Path, count: int, threads: int) -> Measured:
    """Ask for ``count`` pictures of what is held out, and judge them."""
    prompts = asked(count)
    async with Maker(folder, threads) as maker:
        texts = [each.prompt for each in prompts]
        made = await make_all(maker, texts, timed=TIMED, seeds=4, company=COMPANY)
    judged = [
        Judged(each, picture, judge(picture, each.facts))
        for each, (picture,) in zip(prompts, made.frames, strict=True)
    ]
    return Measured(judged, made.seconds, made.same, made.differ)


def told(measured: Measured) -> list[str]:
    """A table, and what was missed."""
    lines = [
        f"{'unseen':<12}" + "".join(f"{name:>10}" for name in LIMITS) + "   % of prompts right"
    ]
    for kind in (*KINDS, None):
        shares = measured.shares(kind)
        cells = [f"{100 * shares[name]:.1f}" if name in shares else "" for name in LIMITS]
        lines.append(f"{kind or 'all':<12}" + "".join(f"{cell:>10}" for cell in cells))
    lines.append(told_of(measured, "picture"))
    return lines


def missed(measured: Measured) -> list[str]:
    """The limits that were missed."""
    shares = measured.shares()
    made = [
        f"{name} right in {100 * shares[name]:.1f} %, at least {100 * least:.0f} %"
        for name, least in LIMITS.items()
        if shares.get(name, 1.0) < least
    ]
    return made + missed_of(measured, "picture", SECONDS)
