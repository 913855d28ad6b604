"""What the benchmark asks for: combinations that no model has learnt from.

Each prompt has at least one: of a glyph with a background, a tint, a place or a count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from antiphon.deploy.media_training.captions import say
from antiphon.deploy.media_training.scenes import Facts, choose

KINDS = ("background", "tint", "place", "count")


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, what it asks for, and which of it is unseen."""

    prompt: str
    facts: Facts
    kind: str


def asked(count: int, seed: int = 0) -> list[Asked]:
    """As many prompts, the kinds of what is unseen in turn."""
    rng = np.random.default_rng([20, seed])
    made: list[Asked] = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]

        def wanted(facts: Facts, kind: str = kind) -> bool:
            return facts.kind != "pair" and kind in {each[1] for each in facts.unseen()}

        facts = choose(rng, wanted)
        made.append(Asked(say(facts, rng, full=True), facts, kind))
    return made
