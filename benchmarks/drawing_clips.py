"""Clips of what was never learnt, made by a served model and judged."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from antiphon.deploy.media_training.glyphs import Pixels
from antiphon.deploy.media_training.motion_words import say
from antiphon.deploy.media_training.motions import MOTIONS, PER_SECOND, Facts, choose

from .drawing_maker import Maker, make_all, missed_of, told_of
from .drawing_motion import Verdict, judge

KINDS = ("motion", "background")
"""What of a prompt is unseen with its glyph, in turn."""

TIMED = 3
"""Clips made one after the other, for the time."""

COMPANY = 4
"""Clips made at once, where no time is measured."""

LIMITS = {"motion": 0.85, "background": 0.85}
"""Least shares of prompts."""

SHOWN = (
    "a cat moves to the left on a yellow background",
    "a rocket flying up on a blue background",
    "an apple falls on a green background",
    "a star grows on a black background",
    "a purple frog goes down on pink",
    "a house becomes blue on a grey background",
)
"""What the sheet of seeds shows."""

SECONDS = 10.0
"""Most for one clip, made alone."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, what it asks for, and which of it is unseen."""

    prompt: str
    facts: Facts
    kind: str


@dataclass(frozen=True)
class Judged:
    """One clip."""

    asked: Asked
    frames: Pixels
    verdict: Verdict


@dataclass(frozen=True)
class Measured:
    """What came of it."""

    judged: Sequence[Judged]
    seconds: float
    """The median of clips made alone."""

    same: bool
    """Whether the same seed gave the same clip."""

    differ: float
    """How far clips of different seeds are apart at least, in steps of 255."""

    def shares(self, *, motion: str | None = None, kind: str | None = None) -> dict[str, float]:
        """How often each was right, of prompts for one motion, with one kind unseen, or of all."""
        chosen = [
            each.verdict
            for each in self.judged
            if motion in (None, each.asked.facts.motion) and kind in (None, each.asked.kind)
        ]
        if not chosen:
            return {}
        return {
            "motion": statistics.fmean(each.motion for each in chosen),
            "background": statistics.fmean(each.background for each in chosen),
        }


def asked(count: int, seed: int = 0) -> list[Asked]:
    """As many prompts, for every motion as often; each with something unseen."""
    rng = np.random.default_rng([21, seed])
    made: list[Asked] = []
    for number in range(count):
        motion, kind = MOTIONS[number % len(MOTIONS)], KINDS[number % len(KINDS)]

        def wanted(facts: Facts, motion: str = motion, kind: str = kind) -> bool:
            return facts.motion == motion and kind in {each[1] for each in facts.unseen()}

        facts = choose(rng, wanted)
        made.append(Asked(say(facts, rng, full=True), facts, kind))
    return made


async def measure(folder: Path, count: int, threads: int) -> Measured:
    """Ask for ``count`` clips of what is held out, and judge them."""
    prompts = asked(count)
    async with Maker(folder, threads) as maker:
        texts = [each.prompt for each in prompts]
        made = await make_all(maker, texts, timed=TIMED, seeds=2, company=COMPANY)
    judged = [
        Judged(each, frames, judge(frames, each.facts))
        for each, frames in zip(prompts, made.frames, strict=True)
    ]
    return Measured(judged, made.seconds, made.same, made.differ)


def film(clips: Pixels, columns: int, out: Path) -> None:
    """Write clips ``(n, frames, height, width, 3)`` side by side as one WebP that moves."""
    count, frames, height, width, _ = clips.shape
    rows = clips.reshape(count // columns, columns, frames, height, width, 3)
    whole = rows.transpose(2, 0, 3, 1, 4, 5).reshape(frames, -1, columns * width, 3)
    first, *rest = [Image.fromarray(each) for each in whole]
    ms = round(1000 / PER_SECOND)
    first.save(out, save_all=True, append_images=rest, duration=ms, loop=0, quality=70, method=6)


def told(measured: Measured) -> list[str]:
    """A table, and what was seen instead."""
    lines = [f"{'asked':<12}" + "".join(f"{name:>12}" for name in LIMITS) + "   % of clips right"]
    rows = {motion: measured.shares(motion=motion) for motion in MOTIONS}
    rows |= {f"unseen {kind}"[:12]: measured.shares(kind=kind) for kind in KINDS}
    for name, shares in (rows | {"all": measured.shares()}).items():
        if shares:
            lines.append(f"{name:<12}" + "".join(f"{100 * shares[each]:>12.1f}" for each in LIMITS))
    wrong = Counter(
        f"{each.verdict.seen or 'nothing'} for {each.asked.facts.motion}"
        for each in measured.judged
        if not each.verdict.motion
    )
    if wrong:
        lines.append("seen: " + ", ".join(f"{name} ({n})" for name, n in wrong.most_common(6)))
    lines.append(told_of(measured, "clip"))
    return lines


def missed(measured: Measured) -> list[str]:
    """The limits that were missed."""
    shares = measured.shares()
    made = [
        f"{name} of clips right in {100 * shares[name]:.1f} %, at least {100 * least:.0f} %"
        for name, least in LIMITS.items()
        if shares[name] < least
    ]
    return made + missed_of(measured, "clip", SECONDS)
