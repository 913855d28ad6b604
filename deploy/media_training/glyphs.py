"""The glyphs that the embedded models draw: a table of names, and an atlas of pictures.

The table is ``glyphs.txt``. The atlas, ``glyphs.png``, holds each glyph of it once, rendered from
the font Noto Color Emoji (SIL Open Font License 1.1), so that nobody else needs the font. Run this
module to render it anew: ``python -m antiphon.deploy.media_training.glyphs FONT``.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

TABLE = Path(__file__).with_name("glyphs.txt")
ATLAS = Path(__file__).with_name("glyphs.png")

CELL = 64
"""Pixels of a side of a glyph in the atlas."""

COLUMNS = 16
"""Glyphs in a row of the atlas."""

FONT_SIZE = 109
"""The one size that the font has pictures of."""

COLOURS: Mapping[str, tuple[int, int, int]] = {
    "white": (250, 250, 250),
    "black": (16, 16, 16),
    "grey": (128, 128, 128),
    "red": (214, 40, 40),
    "orange": (245, 140, 25),
    "yellow": (250, 220, 50),
    "green": (50, 160, 70),
    "turquoise": (60, 205, 200),
    "blue": (45, 90, 210),
    "purple": (130, 55, 170),
    "pink": (250, 150, 190),
    "brown": (120, 75, 40),
}
"""Named colours, red, green, blue: of backgrounds, and of what is recoloured."""

TINTS = ("red", "orange", "yellow", "green", "turquoise", "blue", "purple", "pink")
"""Those that a glyph may be recoloured with."""

HELD_OUT = 0.15
"""Of all combinations of a glyph and something else, how many are never learnt from."""

SEEN = 60.0
"""How far a pixel must be from the background to be seen, in a space of 0 to 255 a channel."""


@dataclass(frozen=True, slots=True)
class Glyph:
    """One glyph."""

    symbol: str
    names: tuple[str, ...]
    """Lower case, without an article; the first is its name, the others are synonyms."""

    plural: str | None
    """``None`` where it can't be counted."""

    @property
    def name(self) -> str:
        """Its first name."""
        return self.names[0]


@cache
def glyphs() -> tuple[Glyph, ...]:
    """All of them, in the order of the atlas."""
    made: list[Glyph] = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        symbol, names, plural = ([part.strip() for part in line.split("|")] + [""])[:3]
        words = tuple(name.strip() for name in names.split(","))
        many = None if plural == "-" else plural or plural_of(words[0])
        made.append(Glyph(symbol, words, many))
    return tuple(made)


@cache
def by_name() -> Mapping[str, Glyph]:
    """The glyphs by their first names."""
    return {glyph.name: glyph for glyph in glyphs()}


def plural_of(name: str) -> str:
    """The regular plural of an English noun."""
    if name.endswith("y") and name[-2] not in "aeiou":
        return f"{name[:-1]}ies"
    return name + ("es" if name.endswith(("s", "x", "ch", "sh")) else "s")


@cache
def atlas() -> Pixels:
    """All glyphs: ``(glyphs, CELL, CELL, 4)``, red, green, blue and how opaque it is."""
    from PIL import Image

    with Image.open(ATLAS) as opened:
        sheet = np.asarray(opened.convert("RGBA"))
    rows = sheet.shape[0] // CELL
    cells = sheet.reshape(rows, CELL, COLUMNS, CELL, 4).swapaxes(1, 2)
    return cells.reshape(-1, CELL, CELL, 4)[: len(glyphs())]


@cache
def _numbers() -> Mapping[str, int]:
    return {glyph.name: number for number, glyph in enumerate(glyphs())}


@lru_cache(maxsize=8192)
def sprite(name: str, side: int) -> Pixels:
    """A glyph that just fills a square of ``side`` pixels: ``(side, side, 4)``; not to be changed.

    The longer side of what is opaque is ``side`` pixels long; it lies in the middle.
    """
    from PIL import Image

    cell = atlas()[_numbers()[name]]
    opaque = cell[..., 3] > 16
    rows, columns = np.flatnonzero(opaque.any(1)), np.flatnonzero(opaque.any(0))
    part = cell[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].astype(np.float32)
    # Colours of what isn't opaque must not bleed in.
    part[..., :3] *= part[..., 3:] / 255
    high, wide = part.shape[:2]
    size = (
        max(1, round(side * wide / max(high, wide))),
        max(1, round(side * high / max(high, wide))),
    )
    made = np.zeros((side, side, 4), np.float32)
    top, left = (side - size[1]) // 2, (side - size[0]) // 2
    for channel in range(4):
        plane = Image.fromarray(part[..., channel]).resize(size, Image.Resampling.BOX)
        made[top : top + size[1], left : left + size[0], channel] = np.asarray(plane)
    made[..., :3] /= np.maximum(made[..., 3:], 1) / 255
    held = made.clip(0, 255).astype(np.uint8)
    held.setflags(write=False)
    return held


@lru_cache(maxsize=8192)
def tinted(name: str, side: int, tint: str) -> Pixels:
    """The same in the shades of one colour: dark stays dark, and light stays light."""
    plain = sprite(name, side)
    light = plain[..., :3].astype(np.float32) @ np.array([0.3, 0.59, 0.11], np.float32) / 255
    # Most glyphs are light, and the colour has to be seen on them.
    light = (light**1.3)[..., None]
    full = np.array(COLOURS[tint], np.float32)
    dark = full * np.minimum(1, light / 0.55)
    shade = dark + (255 - full) * np.clip((light - 0.55) / 0.45, 0, 1) * 0.6
    made = plain.copy()
    made[..., :3] = shade.clip(0, 255).astype(np.uint8)
    made.setflags(write=False)
    return made


def paste(picture: Pixels, what: Pixels, left: int, top: int) -> None:
    """Lay a sprite on a picture ``(height, width, 3)``; what lies outside is cut off."""
    height, width = picture.shape[:2]
    x, y = max(0, left), max(0, top)
    right, bottom = min(width, left + what.shape[1]), min(height, top + what.shape[0])
    if right <= x or bottom <= y:
        return
    part = what[y - top : bottom - top, x - left : right - left].astype(np.uint16)
    under = picture[y:bottom, x:right]
    opaque = part[..., 3:]
    under[:] = (part[..., :3] * opaque + under.astype(np.uint16) * (255 - opaque) + 127) // 255


@lru_cache(maxsize=16384)
def visible(name: str, tint: str | None, background: str) -> bool:
    """Whether a glyph stands out from a background: most of its pixels do."""
    drawn = sprite(name, 40) if tint is None else tinted(name, 40, tint)
    solid = drawn[..., 3] > 128
    away = drawn[..., :3][solid].astype(np.float32) - np.array(COLOURS[background], np.float32)
    return bool((np.sqrt((away**2).sum(1)) > SEEN).mean() > 0.6)


@lru_cache(maxsize=16384)
def held_out(name: str, kind: str, value: str) -> bool:
    """Whether a glyph together with something is never learnt from, as ``apple``, ``place``, ``top``.

    Decided by a digest of the three, so that it is the same everywhere.
    """
    digest = hashlib.sha256(f"{name}|{kind}|{value}".encode()).digest()
    return int.from_bytes(digest[:4], "big") < HELD_OUT * 2**32


def render(font: Path, out: Path = ATLAS) -> None:
    """Render the atlas."""
    from PIL import Image, ImageDraw, ImageFont

    face = ImageFont.truetype(str(font), FONT_SIZE)
    rows = -(-len(glyphs()) // COLUMNS)
    sheet = Image.new("RGBA", (COLUMNS * CELL, rows * CELL))
    for number, glyph in enumerate(glyphs()):
        big = Image.new("RGBA", (160, 160))
        ImageDraw.Draw(big).text((8, 16), glyph.symbol, font=face, embedded_color=True)
        found = big.getbbox()
        if found is None:
            raise ValueError(f"{font}: nothing is drawn for {glyph.name}")
        cut = big.crop(found)
        cut.thumbnail((CELL - 2, CELL - 2), Image.Resampling.LANCZOS)
        row, column = divmod(number, COLUMNS)
        at = (
            column * CELL + (CELL - cut.width) // 2,
            row * CELL + (CELL - cut.height) // 2,
        )
        sheet.paste(cut, at)
    sheet.save(out, optimize=True)


if __name__ == "__main__":
    render(Path(sys.argv[1]))
