"""Whether the embedded models draw what they are asked for, and how fast.

    python -m benchmarks.drawing [--short] [--only images] [--images FOLDER] [--clips FOLDER]
    python -m benchmarks.drawing --seeds docs     sheets of seeds 0 to 15, and nothing else

Each prompt asks for a combination that was held out of the training: a glyph that the model knows,
with a background, a tint, a place or a count it has never seen it with. Background, tint, place
and count are judged by plain statistics of the pixels, the glyph by an eye that was taught apart:
it has to be among the three that the picture is likest to. Prompts for clips ask for a glyph with
a motion or a background that it never had; what moves where is judged by the pixels as well. The
exit status is 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from antiphon.deploy.media_training.runner import tile
from antiphon.engines.diffusion.named import SHIPPED

from . import drawing_clips
from .drawing_maker import SEEDS, seeds
from .drawing_pictures import SHOWN, Measured, measure, missed, told

FULL, SHORT = 200, 24
"""Prompts for pictures."""

FULL_CLIPS, SHORT_CLIPS = 100, 18
"""Prompts for clips."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    asked = _parser().parse_args(arguments)
    if asked.seeds is not None:
        asked.seeds.mkdir(parents=True, exist_ok=True)
        pictures = asyncio.run(seeds(asked.images, SHOWN, asked.threads))
        tile(pictures[:, 0], SEEDS, asked.seeds / "drawing-seeds.png")
        clips = asyncio.run(seeds(asked.clips, drawing_clips.SHOWN, asked.threads))
        drawing_clips.film(clips, SEEDS, asked.seeds / "motion-seeds.webp")
        return 0
    wrong = [*_pictures(asked), *_clips(asked)]
    for line in wrong:
        print(f"MISSED {line}")
    return int(bool(wrong))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drawing")
    add = parser.add_argument
    add("--short", action="store_true", help=f"{SHORT} prompts and {SHORT_CLIPS}, not {FULL}")
    add("--only", choices=("images", "clips"))
    for option, path in (("images", "embedded-image"), ("clips", "embedded-video")):
        usual = SHIPPED[path]
        add(f"--{option}", type=Path, default=usual, help="a model's folder; default: the shipped")
    add("--count", type=int, help="prompts")
    add("--threads", type=int, default=2)
    add("--sheet", type=Path, help="file for all pictures, the wrong ones framed")
    add("--seeds", type=Path, help="folder for sheets of seeds 0 to 15; nothing is measured")
    return parser


def _pictures(asked: argparse.Namespace) -> list[str]:
    """Measure and print those; what was missed."""
    if asked.only == "clips":
        return []
    count = asked.count or (SHORT if asked.short else FULL)
    measured = asyncio.run(measure(asked.images, count, asked.threads))
    print(*told(measured), sep="\n")
    if asked.sheet is not None:
        _sheet(measured, asked.sheet)
    return missed(measured)


def _clips(asked: argparse.Namespace) -> list[str]:
    """The same of clips."""
    if asked.only == "images":
        return []
    count = asked.count or (SHORT_CLIPS if asked.short else FULL_CLIPS)
    measured = asyncio.run(drawing_clips.measure(asked.clips, count, asked.threads))
    print(*drawing_clips.told(measured), sep="\n")
    return drawing_clips.missed(measured)


def _sheet(measured: Measured, out: Path) -> None:
    """Red frames: colour, place or count is wrong; blue ones: the glyph is."""
    framed: list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]] = []
    for each in measured.judged:
        colour = (230, 0, 0) if not each.verdict.laid_out else (0, 0, 230)
        right = each.verdict.laid_out and each.verdict.glyph
        edge = np.empty((72, 72, 3), np.uint8)
        edge[:] = (255, 255, 255) if right else colour
        edge[4:-4, 4:-4] = each.picture
        framed.append(edge)
    tile(np.stack(framed), 20, out)


if __name__ == "__main__":
    sys.exit(main())
