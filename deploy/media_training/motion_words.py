"""What people may say of a clip, in plain words and in many ways; nothing that isn't true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .captions import GREY, GROUNDS, with_article
from .glyphs import COLOURS, Pixels, by_name
from .motions import NAMES, Facts, choose, draw
from .scenes import one_of

OPENINGS = ("", "", "", "", "", "", "a clip of ", "a video of ", "show ", "an animation of ")

WAYS_SAID: Mapping[str, tuple[str, ...]] = {
    "left": ("left", "to the left", "to the left", "leftwards", "from right to left"),
    "right": ("right", "to the right", "to the right", "rightwards", "from left to right"),
    "up": ("up", "up", "upwards", "to the top", "from the bottom to the top"),
    "down": ("down", "down", "downwards", "to the bottom", "from the top to the bottom"),
}

GOING = ("moves", "moving", "that moves", "goes", "going", "flies", "flying", "slides", "sliding")
RISING = {"up": ("rises", "rising", "climbing"), "down": ("falls", "falling", "sinking")}

DONE: Mapping[str, tuple[str, ...]] = {
    "grow": ("grows", "growing", "that grows", "gets bigger", "getting bigger", "becoming larger"),
    "shrink": ("shrinks", "shrinking", "that shrinks", "gets smaller", "getting smaller"),
    "turn": ("turns", "turning", "spins", "spinning", "rotates", "rotating", "that spins around"),
    "recolour": ("becomes {}", "becoming {}", "changes to {}", "that changes its colour to {}"),
    "still": ("stays still", "standing still", "that does not move", "is still", "", ""),
}
"""What follows the glyph."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Frames, a caption, and what is true."""

    frames: Pixels
    caption: str
    facts: Facts


def clip(rng: np.random.Generator) -> Clip:
    """Any clip without held-out combinations."""
    facts = choose(rng)
    return Clip(draw(facts, rng), say(facts, rng), facts)


def say(facts: Facts, rng: np.random.Generator, *, full: bool = False) -> str:
    """A caption. ``full`` leaves out nothing, and names the glyph by its first name."""
    glyph = by_name()[facts.glyph]
    name = glyph.name if full or rng.random() < 0.7 else one_of(rng, glyph.names)
    tint = facts.at_first
    phrase = f"{_colour(tint, rng)} {name}" if tint else name
    if glyph.plural is None and name == glyph.name:
        subject = phrase
    else:
        subject = with_article(phrase) if full or rng.random() < 0.9 else f"the {phrase}"
    said = [subject, _done(facts, rng, full)]
    if full or rng.random() < 0.93:
        ground = one_of(rng, GROUNDS).format(_colour(facts.background, rng))
        said.append(ground.replace(" a orange", " an orange"))
    opening = "" if full else one_of(rng, OPENINGS)
    return opening + " ".join(part for part in said if part)


def _done(facts: Facts, rng: np.random.Generator, full: bool) -> str:
    motion = facts.motion
    if motion not in WAYS_SAID:
        choices = [each for each in DONE[motion] if each or not full]
        return one_of(rng, choices).format(_colour(facts.tint or "", rng))
    if motion in RISING and rng.random() < 0.2:
        return one_of(rng, RISING[motion])
    return f"{one_of(rng, GOING)} {one_of(rng, WAYS_SAID[motion])}"


def _colour(name: str, rng: np.random.Generator) -> str:
    return one_of(rng, GREY) if name == "grey" else name


def vocabulary() -> list[str]:
    """All words of captions, each once, in order."""
    texts = [text for name in NAMES for text in by_name()[name].names]
    texts += [*COLOURS, *GREY, *OPENINGS, *GROUNDS, *GOING, "a an the"]
    texts += [text for said in (WAYS_SAID, RISING, DONE) for each in said.values() for text in each]
    return sorted({word for text in texts for word in text.replace("{}", " ").split()})
