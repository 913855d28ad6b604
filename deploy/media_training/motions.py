"""Clips of one glyph that moves: what is asked, what is true of it, its pixels.

A glyph flies to a side, grows, shrinks, turns, changes its colour or stays as it is, before a
background of one colour. All that is drawn follows from :class:`Facts` and a little chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .glyphs import COLOURS, TINTS, Pixels, held_out, paste, sprite, tinted, visible
from .scenes import one_of

SIDE = 64
"""Pixels of a side of a frame."""

FRAMES = 17
"""Of a clip."""

PER_SECOND = 8

WAYS: Mapping[str, tuple[int, int]] = {
    "left": (-1, 0),
    "right": (1, 0),
    "up": (0, -1),
    "down": (0, 1),
}
"""Motions that go somewhere: steps to the right, and down."""

MOTIONS = (*WAYS, "grow", "shrink", "turn", "recolour", "still")

NAMES = (
    *("smiling face", "ghost", "alien", "robot", "pumpkin", "snowman", "cat", "dog", "rabbit"),
    *("fox", "panda", "pig", "frog", "penguin", "duck", "unicorn", "bee", "butterfly", "snail"),
    *("turtle", "octopus", "crab", "fish", "whale", "elephant", "cactus", "tree", "mushroom"),
    *("rose", "sunflower", "sun", "moon", "star", "cloud", "fire", "apple", "pear", "banana"),
    *("strawberry", "pineapple", "carrot", "hamburger", "pizza", "doughnut", "car", "bus"),
    *("train", "rocket", "plane", "helicopter", "ship", "ufo", "balloon", "house", "gift"),
    *("bell", "guitar", "football", "crown", "heart"),
)
"""Of the glyphs that move."""

MIDDLING = (26, 28)
"""Pixels of the longer side of a glyph that keeps its size."""

SMALL_SIDE, BIG_SIDE = 14, 44
"""Of one that grows or shrinks, at its ends."""

TRAVEL = 30
"""Pixels from the first frame to the last."""

ANGLE = 15
"""Degrees of a turn from frame to frame, clockwise."""

CHANGED = 70.0
"""How far colours must be apart for a change to be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is true of a clip."""

    glyph: str
    background: str
    motion: str
    tint: str | None = None
    """What it is recoloured with: from the start, or at the end where the motion says so."""

    @property
    def at_first(self) -> str | None:
        """The tint of the first frame."""
        return None if self.motion == "recolour" else self.tint

    def combinations(self) -> list[tuple[str, str, str]]:
        """What is combined, as :func:`.glyphs.held_out` takes it."""
        made = [(self.glyph, "background", self.background), (self.glyph, "motion", self.motion)]
        if self.tint:
            made.append((self.glyph, "tint", self.tint))
        return made

    def unseen(self) -> list[tuple[str, str, str]]:
        """Those of them that are held out."""
        return [each for each in self.combinations() if held_out(*each)]


def choose(rng: np.random.Generator, learnt: Callable[[Facts], bool] | None = None) -> Facts:
    """What to draw, at random; by default, anything with no held-out combination.

    ``learnt`` says what may be taken.
    """
    allowed = learnt or _seen
    while True:
        motion = one_of(rng, MOTIONS)
        tinted_too = motion == "recolour" or rng.random() < 0.2
        facts = Facts(
            glyph=one_of(rng, NAMES),
            background="white" if rng.random() < 0.15 else one_of(rng, tuple(COLOURS)),
            motion=motion,
            tint=one_of(rng, TINTS) if tinted_too else None,
        )
        if possible(facts) and allowed(facts):
            return facts


def _seen(facts: Facts) -> bool:
    return not facts.unseen()


def possible(facts: Facts) -> bool:
    """Whether glyph and motion can be seen."""
    if facts.tint == facts.background or not visible(facts.glyph, facts.tint, facts.background):
        return False
    if facts.motion == "turn":
        return lopsided(facts.glyph)
    if facts.motion == "recolour":
        told = facts.tint is not None and recolours(facts.glyph, facts.tint)
        return told and visible(facts.glyph, None, facts.background)
    return True


@lru_cache(maxsize=1024)
def lopsided(name: str) -> bool:
    """Whether a turn of it is seen: of less than a full circle, at any step."""
    plain = _turned(name, None, 28, 0)
    away = [np.abs(_turned(name, None, 28, turn) - plain).mean() for turn in (60, 120, 180, 240)]
    return bool(min(away) > 0.25 * float(plain[..., 3].mean()))


@lru_cache(maxsize=4096)
def recolours(name: str, tint: str) -> bool:
    """Whether it has another colour when it is recoloured."""
    solid = sprite(name, 28)[..., 3] > 128
    before, after = sprite(name, 28)[solid][:, :3], tinted(name, 28, tint)[solid][:, :3]
    away = after.astype(np.float32).mean(0) - before.astype(np.float32).mean(0)
    return float(np.sqrt((away**2).sum())) > CHANGED


@lru_cache(maxsize=16384)
def _turned(
    name: str, tint: str | None, side: int, angle: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    from PIL import Image

    plain = sprite(name, side) if tint is None else tinted(name, side, tint)
    # Room for the corners; colours must not bleed in from where nothing is.
    room = side // 4
    premultiplied = np.pad(plain, ((room, room), (room, room), (0, 0))).astype(np.float32)
    premultiplied[..., :3] *= premultiplied[..., 3:] / 255
    planes = [
        np.asarray(
            Image.fromarray(premultiplied[..., channel]).rotate(-angle, Image.Resampling.BILINEAR)
        )
        for channel in range(4)
    ]
    made = np.stack(planes, -1)
    made[..., :3] /= np.maximum(made[..., 3:], 1) / 255
    held = made.clip(0, 255).astype(np.int16)
    held.setflags(write=False)
    return held


def draw(facts: Facts, rng: np.random.Generator) -> Pixels:
    """The clip: ``(FRAMES, SIDE, SIDE, 3)``, with some chance in where things are."""
    ground = np.array(COLOURS[facts.background], np.int16) + rng.integers(-4, 5, 3)
    clip = np.empty((FRAMES, SIDE, SIDE, 3), np.uint8)
    clip[:] = ground.clip(0, 255)
    x, y = (int(part) for part in rng.integers(-4, 5, 2))
    side = one_of(rng, MIDDLING)
    right, down = WAYS.get(facts.motion, (0, 0))
    for number in range(FRAMES):
        share = number / (FRAMES - 1)
        what = _sprite_at(facts, side, number, share)
        along = TRAVEL * (share - 0.5)
        half = len(what) // 2
        left = SIDE // 2 + x * (not right) + round(along * right) - half
        top = SIDE // 2 + y * (not down) + round(along * down) - half
        paste(clip[number], what, left, top)
    return clip


def _sprite_at(facts: Facts, side: int, number: int, share: float) -> Pixels:
    if facts.motion == "turn":
        return _turned(facts.glyph, facts.tint, side, ANGLE * number).astype(np.uint8)
    if facts.motion in ("grow", "shrink"):
        part = share if facts.motion == "grow" else 1 - share
        side = 2 * round((SMALL_SIDE + (BIG_SIDE - SMALL_SIDE) * part) / 2)
    if facts.motion == "recolour" and facts.tint:
        before, after = sprite(facts.glyph, side), tinted(facts.glyph, side, facts.tint)
        return (before + (after.astype(np.float32) - before) * share).astype(np.uint8)
    return (
        sprite(facts.glyph, side) if facts.tint is None else tinted(facts.glyph, side, facts.tint)
    )
