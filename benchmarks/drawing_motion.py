"""Looks at a clip and says what happens in it, by plain statistics of its pixels.

It sees pixels and nothing of how the clip was made, nor of what was asked. What is drawn is what
differs from the background; where its middle goes, how many pixels it has, its mean colour, and
whether it is likest to itself when it is turned say what it does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.deploy.media_training.glyphs import Pixels
from antiphon.deploy.media_training.motions import ANGLE, WAYS, Facts

from .drawing_judge import drawn, ground, nearest_colour

GONE = 9.0
"""Pixels from the first frame to the last from which on it goes somewhere."""

GROWN = 0.6
"""Natural logarithm of how many times as many pixels it has at the end, from which on it grows."""

RECOLOURED = 32.0
"""How far its mean colour at the end is from that at the start, in a space of 0 to 255."""

LEAST = 12
"""Pixels of a glyph that is seen."""

APART = 4
"""Frames between two that are compared for a turn."""

TURNED = 0.85
"""How unlike the later frame the turned one may be, against the one that isn't turned."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What of a clip is as it was asked for."""

    seen: str | None
    """The motion, of :data:`antiphon.deploy.media_training.motions.MOTIONS`; ``None`` where
    nothing is seen, or it goes both ways at once."""

    motion: bool
    background: bool
    """In nearly all frames."""


def judge(frames: Pixels, facts: Facts) -> Verdict:
    """Compare a clip ``(frames, height, width, 3)`` with what was asked."""
    grounds = [nearest_colour(ground(frame)) == facts.background for frame in frames]
    seen = watch(frames)
    return Verdict(seen, seen == facts.motion, float(np.mean(grounds)) > 0.8)


def watch(frames: Pixels) -> str | None:
    """Which motion is seen."""
    masks = np.stack([drawn(frame, ground(frame)) for frame in frames])
    sizes = masks.sum((1, 2)).astype(np.float32)
    kept = np.flatnonzero(sizes >= LEAST)
    if len(kept) < 0.8 * len(frames):
        return None
    middles = np.array([np.argwhere(masks[number]).mean(0) for number in kept], np.float32)
    down, right = (_over_all(kept, middles[:, axis], len(frames)) for axis in (0, 1))
    if max(abs(down), abs(right)) > GONE:
        return _way(right, down)
    grown = _over_all(kept, np.log(sizes[kept]), len(frames))
    if abs(grown) > GROWN:
        return "grow" if grown > 0 else "shrink"
    if _recoloured(frames, masks, kept) > RECOLOURED:
        return "recolour"
    return "turn" if _turned(frames[kept], middles) < TURNED else "still"


def _over_all(at: NDArray[np.int64], values: Floats, count: int) -> float:
    """How much it changes from the first frame to the last, along the straight line that fits."""
    return float(np.polyfit(at, values, 1)[0]) * (count - 1)


def _way(right: float, down: float) -> str | None:
    if min(abs(right), abs(down)) > 0.6 * max(abs(right), abs(down)):
        return None
    sideways = abs(right) > abs(down)
    step = (int(np.sign(right)), 0) if sideways else (0, int(np.sign(down)))
    return next(name for name, way in WAYS.items() if way == step)


def _recoloured(frames: Pixels, masks: NDArray[np.bool_], kept: NDArray[np.int64]) -> float:
    ends = [
        np.mean([frames[number][masks[number]].mean(0) for number in part], axis=0)
        for part in (kept[:3], kept[-3:])
    ]
    return float(np.sqrt(((ends[1] - ends[0]) ** 2).sum()))


def _turned(frames: Pixels, middles: Floats) -> float:
    """How unlike later frames earlier ones are once turned, against how unlike if not; the less,
    the surer it turns."""
    from PIL import Image

    centred = [
        Image.fromarray(frame).transform(
            (48, 48),
            Image.Transform.AFFINE,
            (1, 0, float(across) - 24, 0, 1, float(down) - 24),
            Image.Resampling.BILINEAR,
            fillcolor=tuple(int(part) for part in ground(frame)),
        )
        for frame, (down, across) in zip(frames, middles, strict=True)
    ]
    unlike = {0: 0.0, ANGLE * APART: 0.0, -ANGLE * APART: 0.0}
    for before, after in zip(centred, centred[APART:], strict=False):
        later = np.asarray(after, np.float32)
        for angle in unlike:
            fill = before.getpixel((0, 0))
            turned = before.rotate(-angle, Image.Resampling.BILINEAR, fillcolor=fill)
            unlike[angle] += float(np.abs(np.asarray(turned, np.float32) - later).mean())
    plain = unlike.pop(0)
    return min(unlike.values()) / max(plain, 1e-6) if plain > len(frames) * 0.5 else 1.0
