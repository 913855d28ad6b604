"""The short form of the benchmark: the models that are shipped draw what they are asked for."""

from __future__ import annotations

import asyncio

import pytest
from benchmarks import drawing_clips, drawing_pictures

from antiphon.engines.diffusion.named import SHIPPED

# The whole benchmark asks for 200 and 100, and for shares that so few would miss by chance.
PICTURES, LAID_OUT, GLYPHS = 24, 0.7, 0.5
CLIPS, MOTIONS = 9, 0.6


@pytest.mark.models
def test_pictures_of_what_was_held_out() -> None:
    measured = asyncio.run(drawing_pictures.measure(SHIPPED["embedded-image"], PICTURES, 2))
    shares = measured.shares()
    assert shares["laid out"] >= LAID_OUT, drawing_pictures.told(measured)
    assert shares["glyph"] >= GLYPHS, drawing_pictures.told(measured)
    assert measured.same
    assert measured.differ > 1


@pytest.mark.models
def test_clips_of_what_was_held_out() -> None:
    measured = asyncio.run(drawing_clips.measure(SHIPPED["embedded-video"], CLIPS, 2))
    assert measured.shares()["motion"] >= MOTIONS, drawing_clips.told(measured)
    assert measured.same
    assert measured.differ > 1
