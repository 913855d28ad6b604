"""Looks at a picture and says what is on it, by plain statistics of its pixels.

It sees pixels and what was asked, and nothing of how the picture was made. What is drawn is what
differs from the background, and the background is what most of the edge is like.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.deploy.media_training.glyphs import COLOURS, TINTS, Pixels
from antiphon.deploy.media_training.scenes import PLACES, Facts

from .drawing_eye import nearest, seen

DRAWN = 48.0
"""How far from the background a pixel is that is drawn, in steps of 255 a channel."""

AWAY = 6.0
"""Pixels from the middle from which on something is at a side."""

SPECK = 0.15
"""Parts with less than this of the largest part's pixels are nothing of their own."""

TOGETHER = 17.0
"""Parts whose middles are closer belong to one glyph, where several are asked for."""

Mask = NDArray[np.bool_]
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What of a picture is as it was asked for; ``None`` where nothing was asked of it."""

    colour: bool
    """Of the background, and of what is on it where a colour was asked for."""

    place: bool | None
    count: bool | None
    glyph: bool
    """Whether it is among the three that what is drawn is likest to."""

    @property
    def laid_out(self) -> bool:
        """Whether colour, place and count are right."""
        return self.colour and self.place is not False and self.count is not False


@dataclass(frozen=True, slots=True)
class Part:
    """One connected part of what is drawn."""

    size: int
    middle: tuple[float, float]
    """Down and across."""

    box: Box


def judge(picture: Pixels, facts: Facts) -> Verdict:
    """Compare a picture ``(height, width, 3)`` with what was asked."""
    background = ground(picture)
    mask = drawn(picture, background)
    colour = nearest_colour(background) == facts.background
    if facts.tint is not None:
        colour = colour and tint(picture, background, mask) == facts.tint
    parts = parts_of(mask)
    many = facts.count > 1
    groups = grouped(parts, TOGETHER if many else math.inf)
    names = _named(picture, groups)
    return Verdict(
        colour=colour,
        place=None if many else place(groups) == facts.place,
        count=len(groups) == facts.count if many else None,
        glyph=bool(names) and 2 * sum(facts.glyphs[0] in each for each in names) > len(names),
    )


def _named(picture: Pixels, boxes: Sequence[Box]) -> list[list[str]]:
    import torch

    # Of more than are ever asked for, a few say enough.
    looks = [seen(picture, box) for box in boxes[:6]]
    return nearest(torch.stack(looks)) if looks else []


def ground(picture: Pixels) -> NDArray[np.float32]:
    """The colour of the background: the median of a frame of two pixels."""
    frame = np.ones(picture.shape[:2], np.bool_)
    frame[2:-2, 2:-2] = False
    found: NDArray[np.float32] = np.median(picture[frame], axis=0).astype(np.float32)
    return found


def nearest_colour(colour: NDArray[np.float32]) -> str:
    """The named colour that is closest."""
    return min(COLOURS, key=lambda name: float(((colour - COLOURS[name]) ** 2).sum()))


def drawn(picture: Pixels, background: NDArray[np.float32]) -> Mask:
    """Where something is."""
    away: Mask = np.sqrt(((picture - background) ** 2).sum(-1)) > DRAWN
    return away


def tint(picture: Pixels, background: NDArray[np.float32], mask: Mask) -> str | None:
    """Which colour what is drawn has on the whole: the mean hue of its strong colours."""
    pixels = picture[mask].astype(np.float32) / 255
    if not len(pixels):
        return None
    strength = pixels.max(1) - pixels.min(1)
    # Edges are mixed with the background.
    strength = strength * np.sqrt(((pixels - background / 255) ** 2).sum(1))
    turns = np.array([colorsys.rgb_to_hsv(*pixel)[0] for pixel in pixels.tolist()])
    whole = complex((strength * np.exp(2j * math.pi * turns)).sum())
    angle = math.atan2(whole.imag, whole.real) / (2 * math.pi) % 1

    def apart(name: str) -> float:
        red, green, blue = COLOURS[name]
        away = abs(colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)[0] - angle)
        return min(away, 1 - away)

    return min(TINTS, key=apart)


def parts_of(mask: Mask) -> list[Part]:
    """The connected parts, neighbours at a corner included, specks left out."""
    left = {(int(down), int(across)) for down, across in np.argwhere(mask)}
    made: list[Part] = []
    while left:
        found = [left.pop()]
        for down, across in found:
            near = left & {(down + y, across + x) for y in (-1, 0, 1) for x in (-1, 0, 1)}
            left -= near
            found += near
        at = np.array(found)
        (top, first), (bottom, last) = at.min(0).tolist(), at.max(0).tolist()
        middle = float(at[:, 0].mean()), float(at[:, 1].mean())
        made.append(Part(len(at), middle, (top, first, bottom + 1, last + 1)))
    largest = max((each.size for each in made), default=0)
    return [each for each in made if each.size >= max(4, SPECK * largest)]


def grouped(parts: Sequence[Part], together: float) -> list[Box]:
    """Boxes around parts that belong together: those whose middles are closer than that."""
    groups: list[list[Part]] = []
    for part in sorted(parts, key=lambda each: -each.size):
        near = [group for group in groups if math.dist(group[0].middle, part.middle) < together]
        if near:
            min(near, key=lambda group: math.dist(group[0].middle, part.middle)).append(part)
        else:
            groups.append([part])
    return [
        (
            min(each.box[0] for each in group),
            min(each.box[1] for each in group),
            max(each.box[2] for each in group),
            max(each.box[3] for each in group),
        )
        for group in groups
    ]


def place(boxes: Sequence[Box], side: int = 64) -> str | None:
    """Where the one thing is that is drawn."""
    if not boxes:
        return None
    top, left, bottom, right = boxes[0]
    steps = tuple(
        int(math.copysign(1, away)) if abs(away) > AWAY else 0
        for away in ((left + right - side) / 2, (top + bottom - side) / 2)
    )
    return next((name for name, at in PLACES.items() if at == steps), None)
