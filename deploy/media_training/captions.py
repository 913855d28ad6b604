"""What people may say of a scene, in plain words and in many ways.

A caption may leave out what is true, but says nothing that isn't. The words of all captions
together are the vocabulary of the tokenizer; what isn't among them is spelt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .glyphs import COLOURS, Pixels, by_name, glyphs
from .scenes import PLACES, Facts, choose, draw, one_of

NUMBERS = {2: ("two", "2", "a pair of"), 3: ("three", "3"), 4: ("four", "4")}

OPENINGS = (
    "",
    "",
    "",
    "",
    "",
    "a picture of ",
    "an image of ",
    "a drawing of ",
    "draw ",
    "show me ",
    "please draw ",
    "an emoji of ",
    "a photo of ",
    "an icon of ",
    "there is ",
    "a cute ",
)

SMALL = ("small", "little", "tiny")
BIG = ("big", "large", "huge")
GREY = ("grey", "gray")

PLACES_SAID = {
    "centre": ("in the centre", "in the middle", "in the center", "centered"),
    "left": ("on the left", "at the left", "to the left", "on the left side"),
    "right": ("on the right", "at the right", "to the right", "on the right side"),
    "top": ("at the top", "on top", "in the upper half"),
    "bottom": ("at the bottom", "in the lower half", "down below"),
    "top left": ("in the top left corner", "at the top left", "in the upper left", "top left"),
    "top right": ("in the top right corner", "at the top right", "in the upper right", "top right"),
    "bottom left": (
        "in the bottom left corner",
        "at the bottom left",
        "in the lower left",
        "bottom left",
    ),
    "bottom right": (
        "in the bottom right corner",
        "at the bottom right",
        "in the lower right",
        "bottom right",
    ),
}

GROUNDS = ("on a {} background", "on {}", "with a {} background", "{} background", "in front of {}")


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture, a caption, and what is true."""

    picture: Pixels
    caption: str
    facts: Facts


def scene(rng: np.random.Generator) -> Scene:
    """Any scene without held-out combinations."""
    facts = choose(rng)
    return Scene(draw(facts, rng), say(facts, rng), facts)


def say(facts: Facts, rng: np.random.Generator, *, full: bool = False) -> str:
    """A caption. ``full`` leaves out nothing that is out of the ordinary."""
    subject = _subject(facts, rng, full)
    parts: list[str] = []
    if facts.kind == "one" and (full or facts.place != "centre" or rng.random() < 0.2):
        # What is elsewhere than in the middle is nearly always said: else "a cat" may be anywhere.
        if facts.place != "centre" or rng.random() < 0.3:
            parts.append(one_of(rng, PLACES_SAID[facts.place]))
    if full or rng.random() < (0.3 if facts.background == "white" else 0.95):
        parts.append(_ground(facts.background, rng))
    if len(parts) > 1 and rng.random() < 0.3:
        parts.reverse()
    opening = "" if full else one_of(rng, OPENINGS)
    if opening == "a cute ":
        head, _, tail = subject.partition(" ")
        subject = f"a cute {tail}" if head in ("a", "an") else subject
    else:
        subject = opening + subject
    return _joined(subject, parts, rng)


def _joined(subject: str, parts: list[str], rng: np.random.Generator) -> str:
    said = [subject, *parts]
    style = rng.random()
    if style < 0.75:
        return " ".join(said)
    if style < 0.9:
        return ", ".join(said)
    # As it may be written by hand.
    text = " ".join(said)
    return text[0].upper() + text[1:] + "."


def _colour(name: str, rng: np.random.Generator) -> str:
    return one_of(rng, GREY) if name == "grey" else name


def _ground(background: str, rng: np.random.Generator) -> str:
    colour = _colour(background, rng)
    made = one_of(rng, GROUNDS).format(colour)
    return made.replace(" a orange", " an orange")


def with_article(noun: str) -> str:
    """A noun in the singular with ``a`` or ``an``."""
    unsounded = noun.startswith(("uni", "ufo", "t ", "tv"))
    return f"{'an' if noun[0] in 'aeiou' and not unsounded else 'a'} {noun}"


def _subject(facts: Facts, rng: np.random.Generator, full: bool) -> str:
    glyph = by_name()[facts.glyphs[0]]
    if facts.kind == "pair":
        return _pair(facts, rng)
    before = [] if facts.tint is None else [_colour(facts.tint, rng)]
    if facts.kind == "many":
        number = one_of(rng, NUMBERS[facts.count])
        return " ".join([number, *before, glyph.plural or glyph.name])
    if facts.size != "middling" and (full or rng.random() < 0.8):
        before.insert(0, one_of(rng, SMALL if facts.size == "small" else BIG))
    name = glyph.name if full or rng.random() < 0.6 else one_of(rng, glyph.names)
    phrase = " ".join([*before, name])
    uncounted = glyph.plural is None and name == glyph.name
    if uncounted and rng.random() < 0.7:
        return f"the {phrase}" if rng.random() < 0.3 else phrase
    style = rng.random()
    if style < 0.8 or full:
        return with_article(phrase)
    return f"one {phrase}" if style < 0.85 else f"the {phrase}" if style < 0.9 else phrase


def _pair(facts: Facts, rng: np.random.Generator) -> str:
    first, second = (
        with_article(name) if by_name()[name].plural else name for name in facts.glyphs
    )
    if facts.beside == "above":
        if rng.random() < 0.5:
            return f"{first} above {second}"
        return f"{second} {one_of(rng, ('below', 'under'))} {first}"
    style = rng.random()
    if style < 0.2:
        return f"{first} on the left and {second} on the right"
    if style < 0.3:
        return f"{first} left of {second}"
    if style < 0.4:
        return f"{second} right of {first}"
    # Nothing is said of which is where.
    if rng.random() < 0.5:
        first, second = second, first
    return f"{first} {one_of(rng, ('and', 'and', 'next to', 'beside', 'with'))} {second}"


def vocabulary() -> list[str]:
    """All words of captions, each once, in order."""
    texts = [text for glyph in glyphs() for text in (*glyph.names, glyph.plural or "")]
    texts += [*COLOURS, *GREY, *SMALL, *BIG, *OPENINGS, *GROUNDS, *PLACES]
    texts += [text for said in PLACES_SAID.values() for text in said]
    texts += [text for said in NUMBERS.values() for text in said]
    texts += ["a an the one and next to beside with above below under left right of on"]
    texts += ["picture scene cat dog some many one tiny bright dark light emoji side corner"]
    words = {word for text in texts for word in text.replace("{}", " ").split()}
    return sorted(word.strip(",.") for word in words)
