"""Scenes of one to four glyphs on a background: what is asked, what is true of it, its pixels.

A scene is one glyph at a place, or two to four of the same, or two different ones beside or above
each other. Everything that is drawn follows from :class:`Facts` and a little chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from .glyphs import (
    COLOURS,
    TINTS,
    Pixels,
    by_name,
    glyphs,
    held_out,
    paste,
    sprite,
    tinted,
    visible,
)

SIDE = 64
"""Pixels of a side of a picture."""

PLACES: Mapping[str, tuple[int, int]] = {
    "centre": (0, 0),
    "left": (-1, 0),
    "right": (1, 0),
    "top": (0, -1),
    "bottom": (0, 1),
    "top left": (-1, -1),
    "top right": (1, -1),
    "bottom left": (-1, 1),
    "bottom right": (1, 1),
}
"""Where a glyph may be: steps to the right, and down."""

STEP = 4
"""Everything lies on a grid of so many pixels, the autoencoder's: a glyph of one size is then the
same in its latents wherever it lies, which makes far less to learn."""

SIZES: Mapping[str, int] = {"small": 24, "middling": 40, "big": 56}
"""Pixels of the longer side."""

OFFSETS: Mapping[str, tuple[int, ...]] = {"small": (12, 16, 20), "middling": (8, 12), "big": (4,)}
"""Pixels from the middle of the picture to a place, any of them."""

LOOSE: Mapping[str, tuple[int, ...]] = {"small": (-4, 0, 4), "middling": (-4, 0, 4), "big": (0,)}
"""The same across, where no side is meant."""

MANY: Mapping[int, tuple[tuple[tuple[int, int], ...], ...]] = {
    2: (((-16, 0), (16, 0)), ((0, -16), (0, 16)), ((-16, -16), (16, 16)), ((-16, 16), (16, -16))),
    3: (((0, -16), (-16, 16), (16, 16)), ((-16, -16), (16, -16), (0, 16))),
    4: (((-16, -16), (16, -16), (-16, 16), (16, 16)),),
}
"""Where several small ones of the same may lie, from the middle."""

Size = Literal["small", "middling", "big"]
Beside = Literal["beside", "above"]
Kind = Literal["one", "many", "pair"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is true of a scene."""

    glyphs: tuple[str, ...]
    """One name, or two of a pair: left or upper one first."""

    background: str
    count: int = 1
    """Of the same glyph; 1 of each in a pair."""

    place: str = "centre"
    """Of one glyph."""

    size: Size = "middling"
    tint: str | None = None
    """What all are recoloured with."""

    beside: Beside = "beside"
    """How a pair lies."""

    @property
    def kind(self) -> Kind:
        """Which of the three kinds of scene."""
        return "pair" if len(self.glyphs) > 1 else "many" if self.count > 1 else "one"

    def combinations(self) -> list[tuple[str, str, str]]:
        """What is combined, as :func:`.glyphs.held_out` takes it."""
        made: list[tuple[str, str, str]] = []
        for name in self.glyphs:
            made.append((name, "background", self.background))
            if self.tint:
                made.append((name, "tint", self.tint))
            if self.count > 1:
                made.append((name, "count", str(self.count)))
            elif self.kind == "one" and self.place != "centre":
                made.append((name, "place", self.place))
        return made

    def unseen(self) -> list[tuple[str, str, str]]:
        """Those of them that are held out."""
        return [each for each in self.combinations() if held_out(*each)]


def one_of(rng: np.random.Generator, things: Sequence[T]) -> T:
    """Any of them."""
    return things[int(rng.integers(len(things)))]


def possible(facts: Facts) -> bool:
    """Whether the glyphs can be seen, and counted where there are several."""
    if facts.tint and not _tintable(facts.tint, facts.background):
        return False
    if facts.count > 1 and by_name()[facts.glyphs[0]].plural is None:
        return False
    return all(visible(name, facts.tint, facts.background) for name in facts.glyphs)


def _tintable(tint: str, background: str) -> bool:
    # Shades of a colour reach into its neighbours.
    return tint != background and {tint, background} not in (
        {"red", "brown"},
        {"orange", "brown"},
        {"orange", "yellow"},
        {"pink", "purple"},
    )


def choose(rng: np.random.Generator, learnt: Callable[[Facts], bool] | None = None) -> Facts:
    """What to draw, at random; by default, anything with no held-out combination.

    ``learnt`` says what may be taken.
    """
    allowed = learnt or _learnt
    while True:
        facts = _any(rng)
        if possible(facts) and allowed(facts):
            return facts


def _learnt(facts: Facts) -> bool:
    return not facts.unseen()


def _any(rng: np.random.Generator) -> Facts:
    share = rng.random()
    names = [glyph.name for glyph in glyphs()]
    background = "white" if rng.random() < 0.25 else one_of(rng, tuple(COLOURS))
    tint = one_of(rng, TINTS) if rng.random() < 0.25 else None
    name = one_of(rng, names)
    if share < 0.15:
        other = one_of(rng, [each for each in names if each != name])
        beside: Beside = "beside" if rng.random() < 0.7 else "above"
        return Facts(glyphs=(name, other), background=background, beside=beside)
    if share < 0.35:
        count = int(rng.integers(2, 5))
        return Facts(glyphs=(name,), background=background, count=count, tint=tint)
    size: Size = one_of(rng, ("small", "middling", "middling", "big"))
    # A big one fills the picture nearly.
    centred = size == "big" or rng.random() < (0.2 if size == "small" else 0.5)
    place = "centre" if centred else one_of(rng, tuple(PLACES)[1:])
    return Facts(glyphs=(name,), background=background, place=place, size=size, tint=tint)


def draw(facts: Facts, rng: np.random.Generator) -> Pixels:
    """The picture: ``(SIDE, SIDE, 3)``, with some chance in where and how large things are."""
    colour = np.array(COLOURS[facts.background], np.int16) + rng.integers(-5, 6, 3)
    picture = np.empty((SIDE, SIDE, 3), np.uint8)
    picture[:] = colour.clip(0, 255)
    for name, side, (right, down) in _laid_out(facts, rng):
        what = sprite(name, side) if facts.tint is None else tinted(name, side, facts.tint)
        left, top = SIDE // 2 + right - side // 2, SIDE // 2 + down - side // 2
        paste(picture, what, left, top)
    return picture


def _laid_out(facts: Facts, rng: np.random.Generator) -> list[tuple[str, int, tuple[int, int]]]:
    """Names, sizes, and how far to the right of the middle and down from it."""
    name, small = facts.glyphs[0], SIZES["small"]
    if facts.kind == "pair":
        free = one_of(rng, LOOSE["small"])
        beside = facts.beside == "beside"
        at = ((-16, free), (16, free)) if beside else ((free, -16), (free, 16))
        return [(each, small, place) for each, place in zip(facts.glyphs, at, strict=True)]
    if facts.count > 1:
        return [(name, small, place) for place in one_of(rng, MANY[facts.count])]
    right, down = (
        one_of(rng, LOOSE[facts.size]) if side == 0 else side * one_of(rng, OFFSETS[facts.size])
        for side in PLACES[facts.place]
    )
    return [(name, SIZES[facts.size], (right, down))]
