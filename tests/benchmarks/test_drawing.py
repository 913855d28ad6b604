"""The judge of pictures: right about true scenes, and not to be pleased by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.drawing_judge import Verdict, judge
from benchmarks.drawing_prompts import KINDS, asked

from antiphon.deploy.media_training.glyphs import glyphs
from antiphon.deploy.media_training.scenes import Facts, draw

PROMPTS = asked(80)


def verdicts(changed: Callable[[Facts], Facts | None]) -> list[Verdict]:
    """Of true scenes, judged as if something else had been asked; ``None`` leaves one out."""
    rng = np.random.default_rng(7)
    scenes = [(each, draw(each.facts, rng)) for each in PROMPTS]
    pairs = [(picture, changed(each.facts)) for each, picture in scenes]
    return [judge(picture, facts) for picture, facts in pairs if facts is not None]


def test_every_prompt_asks_for_what_was_held_out() -> None:
    for number, each in enumerate(PROMPTS):
        assert each.kind == KINDS[number % len(KINDS)]
        assert each.kind in {kind for _, kind, _ in each.facts.unseen()}


def test_true_scenes_are_right() -> None:
    found = verdicts(lambda facts: facts)
    assert np.mean([each.laid_out for each in found]) >= 0.97
    assert np.mean([each.glyph for each in found]) >= 0.97


def _elsewhere(facts: Facts) -> Facts | None:
    if facts.kind == "many":
        return None
    return replace(facts, place="top" if facts.place != "top" else "bottom")


def _more(facts: Facts) -> Facts | None:
    return replace(facts, count={2: 3, 3: 4, 4: 2}[facts.count]) if facts.kind == "many" else None


def _other(facts: Facts) -> Facts:
    # The next one but ten is of quite another kind.
    names = [glyph.name for glyph in glyphs()]
    other = names[(names.index(facts.glyphs[0]) + 10) % len(names)]
    return replace(facts, glyphs=(other,))


WRONG: Mapping[str, Callable[[Facts], Facts | None]] = {
    "background": lambda facts: replace(
        facts, background="grey" if facts.background != "grey" else "red"
    ),
    "tint": lambda facts: (
        None
        if facts.tint is None
        else replace(facts, tint="green" if facts.tint != "green" else "red")
    ),
    "place": _elsewhere,
    "count": _more,
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_scene_that_is_laid_out_otherwise_is_wrong(kind: str) -> None:
    found = verdicts(WRONG[kind])
    assert len(found) > 10
    assert np.mean([each.laid_out for each in found]) <= 0.03


def test_another_glyph_is_wrong_and_so_is_an_empty_picture() -> None:
    assert np.mean([each.glyph for each in verdicts(_other)]) <= 0.1
    facts = Facts(glyphs=("cat",), background="red")
    empty = np.full((64, 64, 3), (214, 40, 40), np.uint8)
    assert judge(empty, facts) == Verdict(colour=True, place=False, count=None, glyph=False)
